package policy

import "math"

// seen are the statistics of scores that lie on the host.
type seen struct {
	r     *Run
	layer int
	sc    *scored
	in    *Input
}

// Unrest is that of the layer's window.
func (s *seen) Unrest(int) (entropy, variance float64, err error) {
	return s.sc.Entropy, s.sc.Variance, nil
}

// Highest counts the scores of a layer, or of what stayed of an earlier one.
func (s *seen) Highest(layer int, c *Contest) ([]int, error) {
	heads, tokens := s.sc.Heads, s.in.Candidates
	if layer != s.layer {
		heads, tokens = s.r.cake.layers[layer].heads, s.r.cake.layers[layer].tokens
	}
	free := make([][]float32, len(tokens)) // scores of what may be chosen
	for h, t := range tokens {
		n := len(t.Pos)
		for i := range n {
			switch {
			case i >= c.Guards[h].Oldest && i < n-c.Guards[h].Newest:
				free[h] = append(free[h], heads[h][i])
			case s.r.plan.Heads.KVPress: // there what is protected competes, with the highest scores
				free[h] = append(free[h], float32(math.Inf(1)))
			}
		}
	}
	return c.Highest(free), nil
}
