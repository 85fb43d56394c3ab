package policy

import (
	"fmt"

	"kvlens/cache/policy/stage"
)

// checkSpread checks a distribution of queries.
func checkSpread(p *Plan, s Shape, d *Spread) error {
	switch {
	case d == nil || d.Rope == nil || len(d.Mean) != s.Heads*s.HeadDim:
		return fmt.Errorf("no mean of queries")
	case p.Score.Covariance && len(d.Cov) != s.Heads*s.HeadDim*s.HeadDim:
		return fmt.Errorf("no covariance of queries")
	case p.Score.Future < 1:
		return fmt.Errorf("%d positions ahead", p.Score.Future)
	}
	return nil
}

// expected scores by the attention that queries of the next positions are expected to give. Sinks take no part: they
// never leave, and would take most of it.
func (w *work) expected(scores []float32, head int, c *Candidates) {
	d, spread := w.s.HeadDim, w.in.Spread
	if w.mu == nil {
		w.mu, w.cov, w.product = make([]float32, d), make([]float32, d*d), make([]float32, d+1)
	}
	turn := w.meanRotation()
	copy(w.mu, spread.Mean[head*d:][:d])
	turn.Apply(w.mu)
	var cov []float32
	if w.p.Score.Covariance {
		cov = w.cov
		copy(cov, spread.Cov[head*d*d:][:d*d])
		turn.ApplyBoth(cov, d)
	}
	first := 0
	for first < len(c.Pos) && int(c.Pos[first]) < w.p.Protect.Sinks {
		first++
	}
	stage.Expected(w.l, scores[first:], w.mu, cov, c.K[first*d:], w.product)
}

// meanRotation is that of the positions after the newest candidate, which is the same for all layers.
func (w *work) meanRotation() *stage.Rotation {
	next := 0
	for _, c := range w.in.Candidates {
		next = max(next, int(c.Pos[len(c.Pos)-1])+1)
	}
	if pr := w.prompt; pr.turn.CosSin == nil || pr.next != next {
		pr.turn, pr.next = stage.MeanRotation(w.in.Spread.Rope, w.in.Spread.Neox, next, w.p.Score.Future), next
	}
	return &w.prompt.turn
}
