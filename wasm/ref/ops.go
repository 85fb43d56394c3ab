package ref

import (
	"kvlens/wasm/quant"
	"kvlens/wasm/step"
)

// Work below this many multiplications is not worth waking another worker.
const worthSharing = 1 << 15

// embed: X[t] = Table[ids[t]].
func (r *run) embed(table *quant.Matrix) error {
	h := r.shape.Hidden
	x := r.promptRows(step.X, h)
	for t, id := range r.a.IDs[r.a.From:r.a.To] {
		if id < 0 || int(id) >= r.shape.Vocab {
			return r.failed("token id %d of %d", id, r.shape.Vocab)
		}
		quant.DequantizeRow(x[t*h:][:h], *table, int(id))
	}
	return nil
}

// qkv: Q, K, V = RoPE(W·N) with N = rms(X)·norm.
func (r *run) qkv(norm []float32, w []*quant.Matrix) {
	s := &r.shape
	query, key := s.Heads*s.HeadDim, s.KVHeads*s.HeadDim
	q, k := r.chunkRows(step.Q, query), r.promptRows(step.K, key)
	r.multiply(w, r.normed(norm),
		block{q, query}, block{k, key}, block{r.promptRows(step.V, key), key})
	if s.RotDim == 0 {
		return
	}
	r.eachRow(query+key, func(t int) {
		cs := r.rope[(r.a.Pos+r.a.From+t)*s.RotDim:][:s.RotDim]
		for h := range s.Heads {
			r.b.loops.Rope(q[t*query+h*s.HeadDim:][:s.HeadDim], cs, s.Neox)
		}
		for h := range s.KVHeads {
			r.b.loops.Rope(k[t*key+h*s.HeadDim:][:s.HeadDim], cs, s.Neox)
		}
	})
}

// project: X += W·In.
func (r *run) project(in step.Name, w *quant.Matrix) {
	x := r.promptRows(step.X, w.Rows)
	r.matMul(x, w.Rows, w, 0, w.Rows, r.chunkRows(in, w.Cols), r.n, true)
}

// gateUp: F = SiLU(G)·U with G, U = W·N and N = rms(X)·norm.
func (r *run) gateUp(norm []float32, w []*quant.Matrix) {
	ffn := r.shape.FFN
	gate, up := r.chunkRows(step.F, ffn), r.up.data[:r.n*ffn]
	r.multiply(w, r.normed(norm), block{gate, ffn}, block{up, ffn})
	r.eachRow(ffn, func(t int) { r.b.loops.SiLUMul(gate[t*ffn:][:ffn], up[t*ffn:][:ffn]) })
}

// normed sets N = rms(X)·norm for the rows of the run.
func (r *run) normed(norm []float32) []float32 {
	h := r.shape.Hidden
	x, n := r.promptRows(step.X, h), r.chunkRows(step.N, h)
	r.eachRow(h, func(t int) { r.b.loops.RMSNorm(n[t*h:][:h], x[t*h:][:h], norm, r.shape.Eps) })
	return n
}

// finalNorm: N = rms(X)·w for the rows that get logits.
func (r *run) finalNorm(w []float32) {
	if r.a.Logits == step.AllRows {
		r.normed(w)
		return
	}
	h := r.shape.Hidden
	r.b.loops.RMSNorm(r.named[step.N].data[:h], r.promptRows(step.X, h)[(r.n-1)*h:], w, r.shape.Eps)
}

// head: Logits = W·N.
func (r *run) head(w *quant.Matrix) error {
	n := 1
	if r.a.Logits == step.AllRows {
		n = r.n
	}
	if n > r.logitRows {
		return r.failed("%d rows of logits: there is room for %d", n, r.logitRows)
	}
	r.matMul(r.named[step.Logits].data, w.Rows, w, 0, w.Rows, r.chunkRows(step.N, w.Cols)[:n*w.Cols], n, false)
	return nil
}

// block is where some rows of a product go: data is [n][width].
type block struct {
	data  []float32
	width int
}

// multiply multiplies stacked matrices with the run's rows of x. Blocks take the rows of the stack in order; where a
// member of the stack ends and where a block does are independent of each other.
func (r *run) multiply(stack []*quant.Matrix, x []float32, blocks ...block) {
	done := 0 // rows of blocks[0]
	for _, w := range stack {
		for from := 0; from < w.Rows; {
			b := blocks[0]
			to := min(w.Rows, from+b.width-done)
			r.matMul(b.data[done:], b.width, w, from, to, x, r.n, false)
			done += to - from
			from = to
			if done == b.width {
				blocks, done = blocks[1:], 0
			}
		}
	}
}

// matMul shares the rows of one product among the workers.
func (r *run) matMul(dst []float32, stride int, w *quant.Matrix, from, to int, x []float32, n int, add bool) {
	// Blocks of a multiple of 12 rows, four for each worker: enough to even out, few enough to cost nothing.
	grain := (to - from + 4*r.b.workers - 1) / (4 * r.b.workers)
	grain = max((grain+11)/12*12, worthSharing/(w.Cols*n))
	r.b.parallel(to-from, grain, func(_, a, z int) {
		r.b.loops.MatMul(dst[a:], stride, w, from+a, from+z, x, n, add)
	})
}

// eachRow calls f for every row of the run; width is about what a row costs.
func (r *run) eachRow(width int, f func(t int)) {
	r.b.parallel(r.n, max(1, worthSharing/4/width), func(_, from, to int) {
		for t := from; t < to; t++ {
			f(t)
		}
	})
}
