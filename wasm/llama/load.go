package llama

import (
	"context"
	"fmt"
	"math"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/wasm/quant"
	"kvlens/wasm/step"
	"kvlens/wasm/weights"
)

// Options of Load. The zero value works.
type Options struct {
	Ledger   *cache.Ledger           // the ledger that the backend was made with; sessions enter their arenas there
	Chunk    int                     // largest number of prompt tokens in one operation; 0 is 64
	Progress func(done, total int64) // bytes of the file's tensors that were loaded
	Yield    func()                  // called between pieces of work, so that a browser's events are heard; nil: nobody waits
}

const (
	defaultChunk = 64
	// defaultTokens is the length that a session has room for unless it is told otherwise.
	defaultTokens = 2048
	// tileBytes bounds the memory that a tensor passes through on its way to the backend, file rows and packed rows
	// together.
	tileBytes = 4 << 20
	// planeAlign is the alignment of a plane in the tile.
	planeAlign = 16
)

// Model is the weights and the step program of one model on one backend. Its sessions share the weights and the
// scratch memory, so calls on sessions of one model must not overlap.
type Model struct {
	cfg      Config
	led      *cache.Ledger
	backend  step.Backend
	yield    func()
	slabs    []step.Buffer
	freqs    []float32
	prog     step.Program
	exec     step.Exec
	ropeRows int
	pace     pace
	busy     bool
	followed *policy.Plan // whose plan the program follows; nil is Full
}

// Load reads a llama model into a backend. The packed weights are the only copy: each tensor passes through one reused
// tile. When it fails or ctx is cancelled, everything is freed again. Errors about the file are *weights.FormatError.
func Load(ctx context.Context, f *weights.File, b step.Backend, o Options) (*Model, error) {
	cfg, p, err := planFile(f)
	if err != nil {
		return nil, fmt.Errorf("llama: load: %w", err)
	}
	m := &Model{cfg: cfg, led: o.Ledger, backend: b, yield: o.Yield, pace: newPace(o.Chunk)}
	if m.led == nil {
		m.led = new(cache.Ledger)
	}
	if m.yield == nil {
		m.yield = func() {}
		m.pace.steady()
	}
	if err := m.load(ctx, f, p, o); err != nil {
		m.Close()
		return nil, fmt.Errorf("llama: load: %w", err)
	}
	return m, nil
}

func (m *Model) load(ctx context.Context, f *weights.File, p *plan, o Options) error {
	sizes, err := p.place(m.backend.Info().MaxBuffer)
	if err != nil {
		return err
	}
	for i, size := range sizes {
		buf, err := m.backend.Alloc(cache.Weights, fmt.Sprintf("weights %d", i), size)
		if err != nil {
			return err
		}
		m.slabs = append(m.slabs, buf)
	}
	var total int64
	for _, w := range p.all {
		w.buf = m.slabs[w.slab]
		for _, t := range w.from {
			total += t.Size
		}
	}
	if err := m.loadRope(f, p.ropeFreqs); err != nil {
		return err
	}
	l := loader{ctx: ctx, m: m, f: f, total: total, progress: o.Progress}
	if l.progress == nil {
		l.progress = func(done, total int64) {}
	}
	if err := l.all(p.all); err != nil {
		return err
	}
	m.prog = step.Program{Shape: m.cfg.Shape, Chunk: m.pace.max, Ops: p.ops()}
	return m.compile(min(m.cfg.Context, defaultTokens))
}

func (m *Model) loadRope(f *weights.File, t *weights.Tensor) error {
	if t == nil {
		return nil
	}
	m.freqs = make([]float32, t.Cols)
	if err := readFull(f, t.Name, quant.Bytes(m.freqs), t.Off); err != nil {
		return err
	}
	for _, x := range m.freqs {
		if !(x > 0) || math.IsInf(float64(x), 0) {
			return bad(t.Name, "%g is not a finite number above 0", x)
		}
	}
	return nil
}

// compile makes the rotation table for so many positions and compiles the program for it.
func (m *Model) compile(positions int) error {
	table := ropeTable(&m.cfg, m.freqs, 0, positions)
	rope, err := m.backend.Alloc(cache.Aux, "rope", int64(len(table))*4)
	if err != nil {
		return err
	}
	if err := m.backend.Upload(rope, 0, quant.Bytes(table)); err != nil {
		m.backend.Free(rope)
		return err
	}
	prog := m.prog
	prog.Rope = rope
	exec, err := m.backend.Compile(&prog)
	if err != nil {
		m.backend.Free(rope)
		return err
	}
	m.release()
	m.prog, m.exec, m.ropeRows = prog, exec, positions
	return nil
}

// release frees the compiled program and its rotation table.
func (m *Model) release() {
	if m.exec == nil {
		return
	}
	m.exec.Close()
	m.backend.Free(m.prog.Rope)
	m.exec, m.followed = nil, nil
}

// reach makes sure that positions below n can be rotated. Positions may pass context_length: the model then answers
// outside of what it was trained for, which is the reader's choice.
func (m *Model) reach(n int) error {
	if n <= m.ropeRows {
		return nil
	}
	return m.compile(max(n, 2*m.ropeRows))
}

// Config returns the model's sizes.
func (m *Model) Config() Config { return m.cfg }

// Close frees the weights and the program. Its sessions must be closed before.
func (m *Model) Close() {
	m.release()
	for _, b := range m.slabs {
		m.backend.Free(b)
	}
	m.slabs = nil
}

// Streamer is a backend that can take bytes of a file without their passing through Go's memory.
type Streamer interface {
	// Stream copies n bytes of f, from byte from on, to dst, and says whether it can: if not, nothing has happened.
	Stream(dst step.Buffer, off int64, f *weights.File, from, n int64) (bool, error)
}

// loader streams tensors through one tile, or past it where the backend can do without.
type loader struct {
	ctx         context.Context
	m           *Model
	f           *weights.File
	done, total int64
	progress    func(done, total int64)
	tile        []byte
}

func (l *loader) all(ms []*matrix) error {
	var size int64
	for _, w := range ms {
		for _, t := range w.from {
			src, codes, scales := rowSizes(w, t)
			if src+codes+scales > tileBytes {
				return bad(t.Name, "a row of %d bytes is too long", src)
			}
			size = max(size, int64(tileRowsOf(w, t))*(src+codes+scales))
		}
	}
	size += 2 * planeAlign
	l.tile = make([]byte, size)
	l.m.led.Add(cache.Staging, size, size)
	defer l.m.led.Add(cache.Staging, -size, -size)
	for _, w := range ms {
		row := 0
		for _, t := range w.from {
			if err := l.tensor(w, t, row); err != nil {
				return err
			}
			row += t.Rows
		}
	}
	return nil
}

// tensor packs a tensor into the rows of w that start at row.
func (l *loader) tensor(w *matrix, t weights.Tensor, row int) error {
	src, codes, scales := rowSizes(w, t)
	scaleOff, _ := w.layout.Planes(w.rows, w.cols)
	rows := tileRowsOf(w, t)
	for from := 0; from < t.Rows; from += rows {
		if err := l.ctx.Err(); err != nil {
			return err
		}
		if ok, err := l.stream(w, t, row, from, min(rows, t.Rows-from)); ok || err != nil {
			if err != nil {
				return err
			}
			continue
		}
		n := int64(min(rows, t.Rows-from))
		in := l.tile[:n*src]
		rest := l.tile[align(n*src, planeAlign):]
		c, s := rest[:n*codes], rest[align(n*codes, planeAlign):][:n*scales]
		if err := readFull(l.f, t.Name, in, t.Off+int64(from)*src); err != nil {
			return err
		}
		if err := quant.Repack(t.Type, in, w.cols, c, s); err != nil {
			return bad(t.Name, "rows from %d on: %v", from, err)
		}
		at := int64(row + from)
		if err := l.m.backend.Upload(w.buf, w.off+at*codes, c); err != nil {
			return err
		}
		if scales > 0 {
			if err := l.m.backend.Upload(w.buf, w.off+scaleOff+at*scales, s); err != nil {
				return err
			}
		}
		l.passed(int64(len(in)))
	}
	return nil
}

// passed counts bytes of the file.
func (l *loader) passed(n int64) {
	l.done += n
	l.progress(l.done, l.total)
	l.m.yield()
}

// stream copies n rows of a tensor whose packed form is that of the file, if the backend can.
func (l *loader) stream(w *matrix, t weights.Tensor, row, from, n int) (bool, error) {
	s, ok := l.m.backend.(Streamer)
	src, _, _ := rowSizes(w, t)
	if !ok || t.Type != quant.F32 && t.Type != quant.F16 || int64(n)*src%4 != 0 || int64(row+from)*src%4 != 0 {
		return false, nil
	}
	size := int64(n) * src
	ok, err := s.Stream(w.buf, w.off+int64(row+from)*src, l.f, t.Off+int64(from)*src, size)
	if err != nil {
		return ok, fmt.Errorf("%s: %w", t.Name, err)
	}
	if ok {
		l.passed(size)
	}
	return ok, nil
}

// tileRowsOf is how many rows of a tensor pass through the tile at once: a multiple of 4 where there are more tiles
// than one, so that the packed planes keep the alignment that GPU uploads ask for.
func tileRowsOf(w *matrix, t weights.Tensor) int {
	src, codes, scales := rowSizes(w, t)
	rows := int(tileBytes / (src + codes + scales))
	if rows > 4 {
		rows -= rows % 4
	}
	return min(rows, t.Rows)
}

// rowSizes is the size in bytes of one row of a tensor: in the file, in the code plane and in the scale plane.
func rowSizes(w *matrix, t weights.Tensor) (src, codes, scales int64) {
	return t.Size / int64(t.Rows), int64(w.layout.CodeBytes(w.cols)), int64(w.layout.ScaleBytes(w.cols))
}

func readFull(f *weights.File, name string, p []byte, off int64) error {
	n, err := f.ReadAt(p, off)
	if n == len(p) {
		return nil // with or without io.EOF
	}
	return fmt.Errorf("%s: read %d of %d bytes at %d: %w", name, n, len(p), off, err)
}

func align(n, to int64) int64 { return (n + to - 1) / to * to }

// Check reads a model's sizes without loading it, and how many bytes its packed weights take. Errors are
// *weights.FormatError, the same that Load would give.
func Check(f *weights.File) (Config, int64, error) {
	c, p, err := planFile(f)
	if err != nil {
		return Config{}, 0, fmt.Errorf("llama: check: %w", err)
	}
	sizes, err := p.place(0)
	return c, sizes[0], err
}

// planFile reads the config and finds the tensors.
func planFile(f *weights.File) (Config, *plan, error) {
	c, err := readConfig(f.Meta)
	if err != nil {
		return Config{}, nil, err
	}
	p, err := newPlan(f, &c)
	return c, p, err
}
