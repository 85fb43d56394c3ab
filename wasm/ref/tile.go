package ref

// mulTile multiplies rows of a with n vectors, both of k elements: dst[t·ds + r] = Σ_c a[r·as + c]·x[t·xs + c], or +=
// when add is set. Three rows and two vectors at a time: with eight sums the Go compiler runs out of amd64's registers,
// and the loop takes more than twice as long.
func mulTile(dst []float32, ds int, a []float32, as, rows int, x []float32, xs, n, k int, add bool) {
	t := 0
	for ; t+2 <= n; t += 2 {
		x0, x1 := x[t*xs:][:k], x[(t+1)*xs:][:k]
		d0, d1 := dst[t*ds:][:rows], dst[(t+1)*ds:][:rows]
		if !add {
			clear(d0)
			clear(d1)
		}
		r := 0
		for ; r+3 <= rows; r += 3 {
			s00, s10, s20, s01, s11, s21 := dots3x2(a[r*as:], a[(r+1)*as:], a[(r+2)*as:], x0, x1)
			d0[r] += s00
			d0[r+1] += s10
			d0[r+2] += s20
			d1[r] += s01
			d1[r+1] += s11
			d1[r+2] += s21
		}
		for ; r < rows; r++ {
			d0[r] += dot32(x0, a[r*as:])
			d1[r] += dot32(x1, a[r*as:])
		}
	}
	if t < n {
		mulVector(dst[t*ds:][:rows], a, as, x[t*xs:][:k], add)
	}
}

// mulVector is mulTile for one vector, six rows at a time.
func mulVector(dst, a []float32, as int, x []float32, add bool) {
	if !add {
		clear(dst)
	}
	for ; len(dst) >= 6; dst = dst[6:] {
		s0, s1, s2, s3, s4, s5 := dots6(a, a[as:], a[2*as:], a[3*as:], a[4*as:], a[5*as:], x)
		dst[0] += s0
		dst[1] += s1
		dst[2] += s2
		dst[3] += s3
		dst[4] += s4
		dst[5] += s5
		a = a[min(6*as, len(a)):]
	}
	for r := range dst {
		dst[r] += dot32(x, a[r*as:])
	}
}

// dots3x2 is the six products of three rows with two vectors.
func dots3x2(a0, a1, a2, x0, x1 []float32) (s00, s10, s20, s01, s11, s21 float32) {
	n := len(x0)
	x1, a0, a1, a2 = x1[:n], a0[:n], a1[:n], a2[:n]
	for i, u := range x0 {
		v := x1[i]
		w := a0[i]
		s00 += w * u
		s01 += w * v
		w = a1[i]
		s10 += w * u
		s11 += w * v
		w = a2[i]
		s20 += w * u
		s21 += w * v
	}
	return
}

// dots6 is the products of six rows with one vector.
func dots6(a0, a1, a2, a3, a4, a5, x []float32) (s0, s1, s2, s3, s4, s5 float32) {
	n := len(x)
	a0, a1, a2, a3, a4, a5 = a0[:n], a1[:n], a2[:n], a3[:n], a4[:n], a5[:n]
	for i, v := range x {
		s0 += a0[i] * v
		s1 += a1[i] * v
		s2 += a2[i] * v
		s3 += a3[i] * v
		s4 += a4[i] * v
		s5 += a5[i] * v
	}
	return
}

// dot32 is the product of two vectors of len(a) elements.
func dot32(a, b []float32) float32 {
	b = b[:len(a)]
	var s0, s1, s2, s3 float32
	i := 0
	for ; i+4 <= len(a); i += 4 {
		s0 += a[i] * b[i]
		s1 += a[i+1] * b[i+1]
		s2 += a[i+2] * b[i+2]
		s3 += a[i+3] * b[i+3]
	}
	for ; i < len(a); i++ {
		s0 += a[i] * b[i]
	}
	return s0 + s1 + (s2 + s3)
}
