package stage

import "math"

// Pyramid shares total tokens, protected ones left out, among layers along a line from the lowest layer down to the
// highest (PyramidKV): the ends are 2b − b/beta and b/beta for a mean of b, and no layer gets more than what a prompt of
// length tokens has beside its protected ones. Below a length of 2b the line is flat, as published. Each gets at least
// one where the total allows.
func Pyramid(total, layers, length, protected int, beta float64) []int {
	b, room := float64(total)/float64(layers), float64(length-protected)
	if layers == 1 || b < 1 || float64(length) < 2*b {
		return Even(total, layers)
	}
	low := b / beta
	high := 2*b - low
	if high > room {
		high = room
		low = 2*b - high
	}
	shares := make([]float64, layers)
	for l := range shares {
		shares[l] = high - (high-low)*float64(l)/float64(layers-1)
	}
	return Apportion(shares, total, 1, nil)
}

// PyramidReference are the stored tokens of each layer, the window of w among them, as the published code computes them
// for a budget of b tokens and a prompt of length: in integers whose rounding exceeds layers · b.
func PyramidReference(b, w, beta, layers, length int) []int {
	n := make([]int, layers)
	prefix := b - w
	low := prefix / beta
	high := 2*prefix - low
	if high >= length-w {
		high = length - w
		low = 2*prefix - high
	}
	step := 0
	if layers > 1 {
		step = (high - low) / (layers - 1)
	}
	for l := range n {
		switch {
		case length < b:
			n[l] = length
		case length < 2*prefix:
			n[l] = b
		default:
			n[l] = high - l*step + w
		}
	}
	return n
}

// PyramidKVPress are the stored tokens of each layer as kvpress computes them: in real numbers for a mean of kept tokens
// (a fraction, not yet rounded), window included, rounded half to even, and flat where the line does not fit.
func PyramidKVPress(kept float64, w int, beta float64, layers, length int) []int {
	n := make([]int, layers)
	window, l := float64(w), float64(length)
	low := kept / beta
	high := 2*kept - low
	if high >= l-window {
		high = l - window
		low = 2*kept - high
	}
	for i := range n {
		if layers == 1 || !(l >= high && high >= low && low >= window) {
			n[i] = max(1, int(math.RoundToEven(kept)))
		} else {
			n[i] = max(1, int(math.RoundToEven(high-float64(i)*(high-low)/float64(layers-1))))
		}
	}
	return n
}
