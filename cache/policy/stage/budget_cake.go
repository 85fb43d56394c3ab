package stage

import "math"

// Preference is what a layer's budget follows in CAKE: entropy^(1/tau1) · variance^(1/tau2). What is no number counts as
// none, 0.
func Preference(entropy, variance, tau1, tau2 float64) float64 {
	p := math.Pow(entropy, 1/tau1) * math.Pow(variance, 1/tau2)
	if math.IsNaN(p) || math.IsInf(p, 0) || p < 0 {
		return 0
	}
	return p
}

// Cake shares total tokens among the layers that were scored so far, in proportion to their preferences and at most room
// each (CAKE): the published arithmetic, with what it leaves out or gives beyond room spread over the others, and at
// least one token each. Without any preference shares are equal.
func Cake(preference []float64, total, room int) []int {
	n := CakeReference(preference, total, room)
	shares, hi := make([]float64, len(n)), make([]int, len(n))
	for i := range n {
		shares[i], hi[i] = float64(n[i]), room
	}
	return Apportion(shares, total, min(1, total/len(n)), hi)
}

// CakeReference is the published arithmetic: shares are truncated; what is clipped at room goes evenly to layers
// below it, the first ones getting the remainder; then what misses the total goes evenly to layers below room. It
// can give a layer nothing, and more than room.
func CakeReference(preference []float64, total, room int) []int {
	sum := 0.0
	for _, p := range preference {
		sum += p
	}
	if !(sum > 0) || math.IsInf(sum, 0) {
		return Even(total, len(preference))
	}
	n := make([]int, len(preference))
	var open []int
	excess := 0
	for i, p := range preference {
		n[i] = int(p / sum * float64(total))
		if n[i] < room {
			open = append(open, i)
			continue
		}
		excess += n[i] - room
		n[i] = room
	}
	spread(n, open, excess)
	missing := total
	for _, x := range n {
		missing -= x
	}
	open = open[:0]
	for i, x := range n {
		if x < room {
			open = append(open, i)
		}
	}
	spread(n, open, missing)
	return n
}

// spread adds what there is evenly to the open ones; the first ones get the remainder.
func spread(n, open []int, what int) {
	if len(open) == 0 {
		return
	}
	for at, i := range open {
		n[i] += what / len(open)
		if at < what%len(open) {
			n[i]++
		}
	}
}
