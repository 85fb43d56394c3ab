package ref

import (
	"context"
	"fmt"

	"kvlens/cache"
	"kvlens/wasm/quant"
	"kvlens/wasm/step"
)

// exec is a compiled program with its scratch.
type exec struct {
	b         *Backend
	shape     step.Shape
	chunk     int
	stages    []operation
	rope      []float32 // [positions][RotDim/2][2]
	positions int
	outputs   []*quant.Matrix // [layers] W_o

	follow follower

	named           [step.Names]scratch
	up, work        scratch // [chunk][ffn]; [workers][Loops.Work]
	rows, logitRows int     // what X, K, V and Logits have room for
}

// scratch is an f32 buffer.
type scratch struct {
	buf  step.Buffer
	data []float32
}

// alloc replaces a scratch buffer by one of n floats. The old one goes first, so that the two never add up.
func (e *exec) alloc(s *scratch, name string, n int) error {
	e.b.Free(s.buf)
	*s = scratch{}
	buf, err := e.b.Alloc(cache.Scratch, name, int64(n)*4)
	if err != nil {
		return err
	}
	*s = scratch{buf, quant.Float32s(e.b.mem[buf].bytes)}
	return nil
}

// allocChunk makes the buffers whose size follows from the chunk.
func (e *exec) allocChunk() error {
	s := &e.shape
	query := s.Heads * s.HeadDim
	for _, b := range []struct {
		to   *scratch
		name string
		n    int
	}{
		{&e.named[step.Q], "Q", e.chunk * query},
		{&e.named[step.A], "A", e.chunk * query},
		{&e.named[step.F], "F", e.chunk * s.FFN},
		{&e.named[step.N], "N", e.chunk * s.Hidden},
		{&e.up, "up", e.chunk * s.FFN},
		{&e.work, "attention", e.b.workers * e.workSize()},
	} {
		if err := e.alloc(b.to, b.name, b.n); err != nil {
			return err
		}
	}
	return nil
}

// workSize is a worker's scratch in floats; AttentionRow needs room for one key.
func (e *exec) workSize() int { return max(e.b.loops.Work(&e.shape), e.shape.HeadDim) }

// Grow makes room for prompts of rows tokens and for logitRows rows of logits. It never shrinks, and what the buffers
// held is lost.
func (e *exec) Grow(rows, logitRows int) error {
	if rows < 0 || rows > maxSize || logitRows < 0 || logitRows > maxSize {
		return fmt.Errorf("%s: grow: %d rows, %d rows of logits: want 0…%d", e.b.info.Name, rows, logitRows, maxSize)
	}
	key := e.shape.KVHeads * e.shape.HeadDim
	if rows > e.rows {
		e.rows = 0
		for _, b := range []struct {
			to    step.Name
			name  string
			width int
		}{{step.X, "X", e.shape.Hidden}, {step.K, "K", key}, {step.V, "V", key}} {
			if err := e.alloc(&e.named[b.to], b.name, rows*b.width); err != nil {
				return err
			}
		}
		e.rows = rows
	}
	if logitRows > e.logitRows {
		e.logitRows = 0
		if err := e.alloc(&e.named[step.Logits], "logits", logitRows*e.shape.Vocab); err != nil {
			return err
		}
		e.logitRows = logitRows
	}
	return nil
}

// Scratch gives the buffer behind a name, 0 before Grow made it. QKV and GateUp keep their normed input in N, so that
// the final norm is there only until the next of them runs.
func (e *exec) Scratch(n step.Name) step.Buffer {
	if n >= step.Names {
		return 0
	}
	return e.named[n].buf
}

// Close frees the scratch.
func (e *exec) Close() {
	for i := range e.named {
		e.b.Free(e.named[i].buf)
	}
	e.unfollow()
	e.b.Free(e.up.buf)
	e.b.Free(e.work.buf)
	*e = exec{b: e.b}
}

// Run runs ops [from, to) of the program on a. It listens to ctx between operations.
func (e *exec) Run(ctx context.Context, a *step.Args, from, to int) error {
	if from < 0 || from > to || to > len(e.stages) {
		return e.failed("ops [%d, %d) of %d", from, to, len(e.stages))
	}
	r, err := e.newRun(a)
	if err != nil {
		return err
	}
	for i := from; i < to; i++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := e.stages[i](r); err != nil {
			return err
		}
	}
	return nil
}

func (e *exec) failed(format string, args ...any) error {
	return fmt.Errorf("%s: run: %s", e.b.info.Name, fmt.Sprintf(format, args...))
}

// run is one call of Run: n rows from row a.From on.
type run struct {
	*exec
	a *step.Args
	n int
}

func (e *exec) newRun(a *step.Args) (*run, error) {
	n := a.To - a.From
	switch {
	case a.From < 0 || a.To > len(a.IDs) || n < 1 || n > e.chunk:
		return nil, e.failed("rows [%d, %d) of %d, at most %d at once", a.From, a.To, len(a.IDs), e.chunk)
	case a.To > e.rows:
		return nil, e.failed("row %d: there is room for %d", a.To, e.rows)
	case a.Pos < 0 || a.To > e.positions-a.Pos:
		return nil, e.failed("position %d: the RoPE table has %d", a.Pos+a.To-1, e.positions)
	}
	return &run{e, a, n}, nil
}

// chunkRows is the rows of a buffer whose row 0 is the run's first row.
func (r *run) chunkRows(name step.Name, width int) []float32 {
	return r.named[name].data[:r.n*width]
}

// promptRows is the run's rows of a buffer that holds the whole prompt.
func (r *run) promptRows(name step.Name, width int) []float32 {
	return r.named[name].data[r.a.From*width : r.a.To*width]
}
