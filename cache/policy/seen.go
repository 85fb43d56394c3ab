package policy

import (
	"math"

	"kvlens/cache/policy/stage"
)

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
	heads, tokens := s.sc.Heads, s.tokens(layer)
	if layer != s.layer {
		heads = s.r.cake.layers[layer].heads
	}
	p := &s.r.plan.Protect
	free := make([][]float32, len(tokens)) // scores of what may be chosen
	for h, t := range tokens {
		guarded, limit := make([]bool, len(t.Pos)), c.Guards[h].Limit
		stage.Pinned(guarded, t.Pos, s.r.pins, p.Sinks, p.recent(limit), limit)
		for i, g := range guarded {
			switch {
			case !g:
				free[h] = append(free[h], heads[h][i])
			case s.r.plan.Heads.KVPress: // there what is protected competes, with the highest scores
				free[h] = append(free[h], float32(math.Inf(1)))
			}
		}
	}
	return c.Highest(free), nil
}

// tokens are the candidates of a layer, or what stayed of an earlier one.
func (s *seen) tokens(layer int) []Candidates {
	if layer != s.layer {
		return s.r.cake.layers[layer].tokens
	}
	return s.in.Candidates
}
