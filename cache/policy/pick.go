package policy

import "kvlens/cache/policy/stage"

// pick chooses limit of a KV head's candidates, or all if they are fewer: pinned and protected ones always, then by score,
// and of equals the lower position. The result is ascending.
func pick(p *Plan, sc *scored, head int, c *Candidates, limit int) []int32 {
	n := len(c.Pos)
	marked := make([]bool, n)
	if limit >= n {
		for i := range marked {
			marked[i] = true
		}
		return stage.Indices(marked)
	}
	recent := p.Protect.recent(limit)
	if sc.Heads == nil {
		recent = limit // position alone decides: the newest
	}
	left := limit - stage.Pinned(marked, c.Pos, sc.pins, p.Protect.Sinks, recent, limit)
	if left > 0 && sc.Heads != nil {
		choose(p, sc, head, c, marked, limit, left)
	}
	return stage.Indices(marked)
}

// choose marks left candidates more, limit with those marked before.
func choose(p *Plan, sc *scored, head int, c *Candidates, marked []bool, limit, left int) {
	scores := sc.Heads[head]
	switch p.Select.Kind {
	case SelectChunks:
		stage.Chunks(marked, scores, max(1, p.Select.Chunk), left)
	case SelectCritical:
		first := int(p.Select.First*float64(limit)) - (limit - left)
		weights := c.OutL1
		if sc.OutL1 != nil {
			weights = sc.OutL1
		}
		stage.Critical(marked, scores, weights, max(0, first), left, float32(p.Select.Epsilon))
	default:
		stage.Top(marked, scores, left, nil)
	}
}
