package ref

import (
	"math"

	"kvlens/cache"
	"kvlens/wasm/step"
)

// tileKeys is how many keys and values are unpacked at once.
const tileKeys = 48

// Work holds a tile of keys, one of values, the logits of one query head's rows for a tile, and each query's running
// maximum and sum.
func (f32) Work(s *step.Shape) int {
	return 2*tileKeys*s.HeadDim + AttendRows*tileKeys + 2*AttendRows*(s.Heads/s.KVHeads)
}

// Attend goes over the keys once, tile by tile, with the running softmax of FlashAttention (Dao et al. 2022,
// arXiv:2205.14135): Out holds Σ e^(l−top)·v for the largest logit so far, and is scaled down when a larger one comes.
func (f32) Attend(a *Attention) {
	work := a.Work
	take := func(n int) (part []float32) {
		part, work = work[:n:n], work[n:]
		return part
	}
	f := flash{
		a:      a,
		logits: take(AttendRows * tileKeys),
		top:    take(AttendRows * a.Heads),
		sum:    take(AttendRows * a.Heads),
	}
	keys, values := take(tileKeys*a.Dim), take(tileKeys*a.Dim)
	for t := range a.Rows {
		clear(a.Out[t*a.Stride:][:a.Heads*a.Dim])
	}
	for i := range f.top {
		f.top[i], f.sum[i] = float32(math.Inf(-1)), 0
	}

	n := 0
	for slot := range a.List.Slots {
		if *a.Position(slot) != cache.DeadPosition {
			unpack(keys[n*a.Dim:][:a.Dim], a.Geo.Key, a.Key(slot))
			unpack(values[n*a.Dim:][:a.Dim], a.Geo.Value, a.Value(slot))
			n++
		}
		if n == tileKeys || n > 0 && slot == a.List.Slots-1 {
			f.tile(keys, values, a.Dim, n, func(int) int { return n })
			n = 0
		}
	}
	for first, end := 0, a.Visible(a.Rows-1); first < end; first += tileKeys {
		n := min(tileKeys, end-first)
		at := first * a.NewStride
		f.tile(a.NewK[at:], a.NewV[at:], a.NewStride, n, func(t int) int { return a.Visible(t) - first })
	}

	for t := range a.Rows {
		for h := range a.Heads {
			if sum := f.sum[t*a.Heads+h]; sum > 0 {
				scale(a.Out[t*a.Stride+h*a.Dim:][:a.Dim], 1/sum)
			}
		}
	}
}

// flash is the state of one call of Attend. top and sum are [Rows][Heads].
type flash struct {
	a                *Attention
	logits, top, sum []float32
}

// tile adds n keys and values that lie stride apart; query row t sees the first visible(t) of them.
func (f *flash) tile(keys, values []float32, stride, n int, visible func(t int) int) {
	a := f.a
	for h := range a.Heads {
		mulTile(f.logits, tileKeys, keys, stride, n, a.Q[h*a.Dim:], a.Stride, a.Rows, a.Dim, false)
		for t := range a.Rows {
			seen := min(n, visible(t))
			if seen <= 0 {
				continue
			}
			p := f.logits[t*tileKeys:][:seen]
			top, sum := &f.top[t*a.Heads+h], &f.sum[t*a.Heads+h]
			out := a.Out[t*a.Stride+h*a.Dim:][:a.Dim]
			was := *top
			*top = max(was, maximum(p)*a.Scale)
			if *top > was && *sum > 0 {
				shrink := exp32(was - *top)
				*sum *= shrink
				scale(out, shrink)
			}
			for j, l := range p {
				p[j] = exp32(l*a.Scale - *top)
				*sum += p[j]
			}
			addRows(out, p, values, stride)
		}
	}
}

func maximum(x []float32) float32 {
	m := x[0]
	for _, v := range x[1:] {
		if v > m {
			m = v
		}
	}
	return m
}

func scale(x []float32, by float32) {
	for i := range x {
		x[i] *= by
	}
}

// addRows adds Σ p[j]·rows[j] to out; the rows lie stride apart.
func addRows(out, p, rows []float32, stride int) {
	n := len(out)
	for ; len(p) >= 4; p = p[4:] {
		r0, r1, r2, r3 := rows[:n], rows[stride:][:n], rows[2*stride:][:n], rows[3*stride:][:n]
		p0, p1, p2, p3 := p[0], p[1], p[2], p[3]
		for i, o := range out {
			out[i] = o + (p0*r0[i] + p1*r1[i]) + (p2*r2[i] + p3*r3[i])
		}
		rows = rows[min(4*stride, len(rows)):]
	}
	for j, pj := range p {
		row := rows[j*stride:][:n]
		for i := range out {
			out[i] += pj * row[i]
		}
	}
}
