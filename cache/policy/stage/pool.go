package stage

// PoolAvg sets out to means of in over size neighbours. Beyond the ends are zeros, and the divisor is always size, as
// in the published code: scores near the ends come out low. out must not be in.
func PoolAvg(out, in []float32, size int) {
	half := size / 2
	scale := 1 / float32(size)
	for i := range out {
		sum := float32(0)
		for _, x := range in[max(0, i-half):max(0, min(len(in), i-half+size))] {
			sum += x
		}
		out[i] = sum * scale
	}
}

// PoolMax sets out to the highest of size neighbours in in, beyond whose ends nothing counts. out must not be in.
func PoolMax(out, in []float32, size int) {
	half := size / 2
	for i := range out {
		top := in[i]
		for _, x := range in[max(0, i-half):max(0, min(len(in), i-half+size))] {
			top = max(top, x)
		}
		out[i] = top
	}
}
