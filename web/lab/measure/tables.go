package measure

import (
	"math"
	"slices"

	"kvlens/cache/policy"
)

// The published shares of KV heads behind policy.Thresholds.
const (
	retrievalShare = 0.5
	inductionShare = 0.14
	echoShare      = 0.01
)

// Semantic is the means of the semantic scores so far, [layers][n_heads].
func (m *Meter) Semantic(s *Sums) [][]float32 { return m.byHead(s.Semantic, len(s.Right)) }

// Tables turns sums into means. What names the model, the data and the method is the caller's.
func (m *Meter) Tables(s *Sums) *policy.Tables {
	t := &policy.Tables{
		Tried: s.Tried, Samples: len(s.Right),
		Retrieval: m.byHead(s.Retrieval, len(s.Right)), Semantic: m.Semantic(s),
		Induction: m.byHead(s.Induction, s.Blocks), Echo: m.byHead(s.Echo, s.Blocks),
		Sink: m.byHead(s.Sink, s.Rows), Local: m.byHead(s.Local, s.Rows),
	}
	total := 0.0
	for _, e := range s.Errors {
		total += e
	}
	for _, e := range s.Errors {
		t.Errors = append(t.Errors, round(e/total))
	}
	t.Thresholds = policy.Thresholds{
		Retrieval: m.cut(t.Retrieval, retrievalShare), Induction: m.cut(t.Induction, inductionShare),
		Echo: m.cut(t.Echo, echoShare),
	}
	return t
}

func (m *Meter) byHead(sums []float64, n int) [][]float32 {
	out := make([][]float32, m.Config.Layers)
	for i, x := range sums {
		l := i / m.Config.Heads
		out[l] = append(out[l], round(x/float64(max(1, n))))
	}
	return out
}

// round keeps six decimals: more would be noise, and the files go over the net.
func round(x float64) float32 { return float32(math.Round(x*1e6) / 1e6) }

// cut is the lowest score of the best KV heads of all layers, that share of them but at least one.
func (m *Meter) cut(table [][]float32, share float64) float32 {
	var best []float32
	group := m.Config.Heads / m.Config.KVHeads
	for _, layer := range table {
		for heads := range slices.Chunk(layer, group) {
			best = append(best, slices.Max(heads))
		}
	}
	slices.Sort(best)
	n := max(1, int(math.Round(share*float64(len(best)))))
	return best[len(best)-n]
}
