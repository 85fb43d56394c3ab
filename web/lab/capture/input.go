package capture

import (
	"slices"

	"kvlens/cache/policy"
	"kvlens/cache/policy/stage"
)

// Rope is what undoes a model's rotation.
type Rope struct {
	At   func(pos int) []float32 // cos and sin [pairs][2] of a position
	Neox bool
}

// Input is what a plan needs of the layer after the prompt. output is W_o [hidden][n_heads·head_dim]; nil unless the plan
// weighs values by it and OutL1 is not there.
func (l *Layer) Input(p *policy.Plan, rope Rope, output []float32) *policy.Input {
	in := &policy.Input{Candidates: make([]policy.Candidates, l.KVHeads)}
	pos := make([]int32, l.Tokens)
	for i := range pos {
		pos[i] = int32(i)
	}
	for h := range in.Candidates {
		in.Candidates[h] = policy.Candidates{Pos: pos, K: l.K[h], V: l.V[h]}
		switch {
		case p.Select.Kind != policy.SelectCritical:
		case l.OutL1 != nil:
			in.Candidates[h].OutL1 = l.OutL1[h]
		default:
			in.Candidates[h].OutL1 = l.outL1(h, output)
		}
	}
	in.Queries = l.Q[max(0, l.Tokens-p.Score.Window)*l.Heads*l.HeadDim:]
	if p.Score.Kind == policy.ScoreColumns {
		in.Columns = l.columns()
	}
	if p.Score.Kind == policy.ScoreExpected {
		in.Spread = l.spread(p, rope)
	}
	return in
}

// columns is the attention that each token got from all queries, by head; it is computed once for a layer.
func (l *Layer) columns() [][]float32 {
	if l.sums == nil {
		row := make([]float32, l.Tokens)
		for h := range l.Heads {
			sums := make([]float32, l.Tokens)
			for t := range l.Tokens {
				for j, a := range l.Attention(row, t, h) {
					sums[j] += a
				}
			}
			l.sums = append(l.sums, sums)
		}
	}
	return l.sums
}

// spread is mean and covariance of the queries before RoPE, without the first ones.
func (l *Layer) spread(p *policy.Plan, rope Rope) *policy.Spread {
	first, d := min(p.Protect.Sinks, l.Tokens-1), l.HeadDim
	s := &policy.Spread{N: l.Tokens - first, Rope: rope.At, Neox: rope.Neox}
	for h := range l.Heads {
		mean, cov := make([]float64, d), make([]float64, d*d)
		var plain [][]float32
		for t := first; t < l.Tokens; t++ {
			back := slices.Clone(rope.At(t))
			for i := 1; i < len(back); i += 2 {
				back[i] = -back[i]
			}
			q := slices.Clone(l.query(t, h))
			(&stage.Rotation{CosSin: back, Neox: rope.Neox}).Apply(q)
			for i, x := range q {
				mean[i] += float64(x) / float64(s.N)
			}
			plain = append(plain, q)
		}
		for _, x := range mean {
			s.Mean = append(s.Mean, float32(x))
		}
		if !p.Score.Covariance {
			continue
		}
		for _, q := range plain {
			for i := range d {
				for j := range d {
					cov[i*d+j] += (float64(q[i]) - mean[i]) * (float64(q[j]) - mean[j]) / float64(s.N)
				}
			}
		}
		for _, x := range cov {
			s.Cov = append(s.Cov, float32(x))
		}
	}
	return s
}

// outL1 is the mean over a KV head's query heads of ‖W_o·v‖₁.
func (l *Layer) outL1(kvHead int, w []float32) []float32 {
	group, width := l.Heads/l.KVHeads, l.Heads*l.HeadDim
	out := make([]float32, l.Tokens)
	y := make([]float32, l.Tokens)
	for h := kvHead * group; h < (kvHead+1)*group; h++ {
		for from := h * l.HeadDim; from < len(w); from += width {
			stage.Go{}.Dots(y, w[from:from+l.HeadDim], l.V[kvHead], 1)
			for t, v := range y {
				out[t] += max(v, -v) / float32(group)
			}
		}
	}
	return out
}
