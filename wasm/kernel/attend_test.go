package kernel_test

import (
	"math"
	"slices"
	"testing"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/wasm/gpu/gputest"
	"kvlens/wasm/kernel"
	"kvlens/wasm/quant"
	"kvlens/wasm/ref/reftest"
)

// attend runs attention over rows [begin, end) of the prompt, which leaves the sums of its rows.
func (r *scoreRig) attend(x *kernel.Scoring, begin, end int, left string) {
	r.t.Helper()
	s, rows := &r.shape, end-begin
	words := kernel.ScoringSession(r.cache, r.first+begin, begin, rows, r.rows*s.KVHeads*s.HeadDim, r.room)
	words[kernel.WordSumsAt] = uint32(len(words))
	for i := range r.geo.Layers * r.geo.KVHeads {
		words = append(words, append(r.cache.List(i/r.geo.KVHeads, i%r.geo.KVHeads).Sums, 0)[0])
	}
	r.upload("session", quant.Bytes(words))
	r.upload("lse", quant.Bytes(slices.Repeat([]float32{unread}, rows*s.Heads)))
	r.upload("a", quant.Bytes(slices.Repeat([]float32{unread}, rows*s.Heads*s.HeadDim)))
	r.c.Queries = rows
	r.run(x, []kernel.Stage{r.lib.Attend(s, &r.geo, scoreLayer, left)})
}

// Attention leaves the logarithm of each row's sum of exponentials beside its output, and where a token stands for what left a
// list, both have its part: n times the weight of the mean key, and the mean value.
func TestAttend(t *testing.T) {
	dev := gputest.Open(t)
	for _, plain := range []bool{true, false} {
		for _, left := range []string{"gone", "mean"} {
			lib := newLibrary(dev)
			lib.Plain = plain
			r := newScoreRig(t, lib, dev, map[bool]cache.Format{true: cache.F16}[plain], false, false, false)
			r.attention(left)
			r.close()
		}
	}
}

// attention compares attention's rows from the fourth on with their definition. One list has tokens that left it, the other none.
func (r *scoreRig) attention(left string) {
	r.t.Helper()
	s, d := &r.shape, r.shape.HeadDim
	begin, absorbed := 3, 5
	if r.lib.Plain {
		absorbed = 1
	}
	sums := r.draw(2*d + 1)
	copy(quant.Float32s(r.arena[int(r.cache.List(scoreLayer, 1).Sums[0])*4:][:4*len(sums)]), sums)
	r.upload("arena", r.arena)
	var lists []uint32
	for i := range s.Layers * s.KVHeads {
		lists = append(lists, (&kernel.Quota{Absorbed: map[int]int{scoreLayer*s.KVHeads + 1: absorbed}[i]}).Words()...)
	}
	r.upload("lists", quant.Bytes(lists))
	r.upload("q", quant.Bytes(r.q[begin*s.Heads*d:]))
	r.attend(r.lib.Scoring(&policy.Plan{}, s, &r.geo, scoreLayer), begin, r.rows, left)
	rows := r.rows - begin
	lse, out := r.read("lse", rows*s.Heads), r.read("a", rows*s.Heads*d)
	for h := range s.Heads {
		kv := h / (s.Heads / s.KVHeads)
		c := &r.heads[kv]
		for t := range rows {
			q := r.q[((begin+t)*s.Heads+h)*d:][:d]
			sum, acc := 0.0, make([]float64, d)
			add := func(k, v []float32, n float64) {
				logit := 0.0
				for i := range d {
					logit += float64(q[i]) * float64(k[i]) / math.Sqrt(float64(d))
				}
				w := n * math.Exp(logit)
				sum += w
				for i := range d {
					acc[i] += w * float64(v[i])
				}
			}
			for j := range len(c.Pos) - r.rows + begin + t + 1 {
				add(c.K[j*d:], c.V[j*d:], 1)
			}
			if left == "mean" && kv == 1 {
				mean := make([]float32, 2*d)
				for i := range mean {
					mean[i] = sums[i] / float32(absorbed)
				}
				add(mean[:d], mean[d:], float64(absorbed))
			}
			want := make([]float32, d)
			for i := range want {
				want[i] = float32(acc[i] / sum)
			}
			reftest.Compare(r.t, left+": output", out[(t*s.Heads+h)*d:][:d], want, reftest.Float32)
			reftest.Compare(r.t, left+": sum", []float32{lse[h*rows+t]}, []float32{float32(math.Log(sum))}, reftest.Float32)
		}
	}
}
