package stage

import "math"

// Norms sets out to scale · ‖x‖₂ of the rows of x (Knorm: scale −1).
func Norms(out, x []float32, headDim int, scale float32) {
	for i := range out {
		sum := float32(0)
		for _, v := range x[i*headDim:][:headDim] {
			sum += v * v
		}
		out[i] = scale * float32(math.Sqrt(float64(sum)))
	}
}

// KeyDiff sets out to −cos(k, m) of the rows of k, where m is the mean of their directions: keys unlike the others are
// worth the most. Keys of no length are like none, 0. mean is scratch of headDim.
func KeyDiff(out, k, mean []float32, headDim int) {
	mean = mean[:headDim]
	clear(mean)
	Norms(out, k, headDim, 1)
	for i, n := range out {
		if n == 0 {
			continue
		}
		part := 1 / n
		for c, v := range k[i*headDim:][:headDim] {
			mean[c] += v * part
		}
	}
	length := float32(0)
	for _, v := range mean {
		length += v * v
	}
	length = float32(math.Sqrt(float64(length)))
	for i, n := range out {
		if n == 0 || length == 0 {
			out[i] = 0
			continue
		}
		dot := float32(0)
		for c, v := range k[i*headDim:][:headDim] {
			dot += v * mean[c]
		}
		out[i] = -dot / (n * length)
	}
}

// Random sets out to a hash of seed, layer, KV head and position, in [0, 1).
func Random(out []float32, pos []int32, seed uint64, layer, kvHead int) {
	for i, p := range pos {
		x := mix(seed ^ mix(uint64(layer)<<48^uint64(kvHead)<<32^uint64(uint32(p))))
		out[i] = float32(x>>40) / (1 << 24)
	}
}

// mix is the finaliser of SplitMix64: every bit of x moves about half of the result's.
func mix(x uint64) uint64 {
	x += 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}
