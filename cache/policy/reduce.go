package policy

import "kvlens/cache/policy/stage"

// reduce makes one row for each KV head of those of the query heads that were scored.
func (w *work) reduce(rows [][]float32, heads []int) [][]float32 {
	out := w.rows()
	group := w.s.Heads / w.s.KVHeads
	if w.p.Reduce.Kind == ReduceLayer {
		for h := range out {
			w.layerMean(out[h], h, rows, heads)
		}
		return out
	}
	members := make([][]float32, 0, group)
	for h := range out {
		members = members[:0]
		for _, row := range rows[h*group : (h+1)*group] {
			if row != nil {
				members = append(members, row)
			}
		}
		switch {
		case len(members) == 0:
			w.layerMean(out[h], h, rows, heads) // no head of this group is scored
		case w.p.Reduce.Kind == ReduceMax:
			stage.Max(out[h], members)
		case w.p.Reduce.Kind == ReduceSum:
			stage.Sum(out[h], members)
		default:
			stage.Mean(out[h], members)
		}
	}
	return out
}

// layerMean sets out, over a KV head's candidates, to the mean of all query heads that were scored. Where KV heads have
// different candidates, a token's mean is over the heads that have it.
func (w *work) layerMean(out []float32, kvHead int, rows [][]float32, heads []int) {
	group := w.s.Heads / w.s.KVHeads
	pos := w.in.Candidates[kvHead].Pos
	if w.same {
		members := make([][]float32, len(heads))
		for i, h := range heads {
			members[i] = rows[h]
		}
		stage.Mean(out, members)
		return
	}
	count := make([]float32, len(out))
	for _, h := range heads {
		other := w.in.Candidates[h/group].Pos
		for i, j := 0, 0; i < len(pos) && j < len(other); {
			switch {
			case pos[i] < other[j]:
				i++
			case pos[i] > other[j]:
				j++
			default:
				out[i] += rows[h][j]
				count[i]++
				i, j = i+1, j+1
			}
		}
	}
	for i, n := range count {
		if n > 0 {
			out[i] /= n
		}
	}
}

// share replaces the scores of all KV heads by their mean.
func (w *work) share(heads [][]float32) {
	mean := make([]float32, len(heads[0]))
	stage.Mean(mean, heads)
	for h := range heads {
		heads[h] = mean
	}
}
