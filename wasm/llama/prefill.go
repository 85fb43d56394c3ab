package llama

import (
	"context"

	"kvlens/wasm/quant"
	"kvlens/wasm/step"
)

// Prefill adds tokens (and the pending one before them) to the cache and computes the logits after the last. It goes
// layer by layer, each layer in pieces of some rows, and stores a layer's keys and values before the next layer begins,
// so that full-precision keys and values exist for one layer only. Rows attend to everything before them; what the
// recipe drops is dropped when the layer is stored. progress gets tokens × layers and may be nil.
//
// If it fails or ctx is cancelled, the session answers as if it had never been called. A prompt that does not fit gives
// a *cache.FullError.
func (s *Session) Prefill(ctx context.Context, ids []int32, progress func(done, total int)) error {
	return s.prefill(ctx, ids, pass{progress: progress})
}

// Score is Prefill with the logits of every token: row gets them in order, in a slice that is reused.
func (s *Session) Score(ctx context.Context, ids []int32, row func(i int, logits []float32) error) error {
	return s.prefill(ctx, ids, pass{row: row})
}

// scoreRows is how many rows of logits Score computes at a time.
const scoreRows = 8

// pass is what is wanted of a prompt beside the logits after it; all of it may be nil.
type pass struct {
	progress func(done, total int)
	row      func(i int, logits []float32) error // of every token but the first skip ones
	skip     int
	probe    Probe
}

func (s *Session) prefill(ctx context.Context, ids []int32, p pass) error {
	all := append(append([]int32(nil), s.pending...), ids...)
	p.skip = len(s.pending)
	err := s.turn(ctx, "prefill", all, true, func() error {
		s.remember()
		if err := s.prompt(ctx, all, p); err != nil {
			return err
		}
		return ctx.Err() // a GPU works off most of a prompt while its results are waited for
	})
	if err == nil {
		s.spans[len(s.spans)-1].led = len(s.pending)
		s.pending = nil
		s.remember()
	}
	return err
}

// prompt computes tokens side by side.
func (s *Session) prompt(ctx context.Context, ids []int32, p pass) error {
	if p.progress == nil {
		p.progress = func(done, total int) {}
	}
	if s.recipe.plan.Store.Rank {
		return s.stream(ctx, ids, p)
	}
	r := &runner{s: s, ctx: ctx, args: s.args(ids), probe: p.probe}
	return r.prompt(p, len(ids)*s.m.cfg.Layers)
}

// prompt runs the program over all rows, and computes logits.
func (r *runner) prompt(p pass, total int) error {
	m, n := r.s.m, len(r.args.IDs)
	logitRows := 1
	if p.row != nil {
		logitRows = min(n, scoreRows)
	}
	if err := m.exec.Grow(n, logitRows); err != nil {
		return err
	}
	defer r.unwatch()
	// A device views keys as they are stored: where a plan makes something else of them, only those of decoded rows.
	r.s.rows = nil
	if st := &r.s.recipe.plan.Store; r.s.devices() == nil || !st.Rank && !st.Virtual {
		if err := r.watch(); err != nil {
			return err
		}
	}
	if err := r.lend(); err != nil {
		return err
	}
	if err := r.embed(); err != nil {
		return err
	}
	for layer := range r.s.layers() {
		if err := r.layer(layer, func(rows int) { p.progress(layer*n+rows, total) }); err != nil {
			return err
		}
	}
	if p.row != nil {
		if err := r.score(p.skip, p.row); err != nil {
			return err
		}
	}
	r.args.From, r.args.To = n-1, n
	if err := r.logits(); err != nil {
		return err
	}
	if err := r.reclaim(); err != nil {
		return err
	}
	return r.collect()
}

// chunks calls f for one range of rows after the other.
func (r *runner) chunks(f func() error) error {
	n := len(r.args.IDs)
	for from := 0; from < n; from = r.args.To {
		r.args.From, r.args.To = from, min(n, from+r.s.m.pace.rows)
		if err := f(); err != nil {
			return err
		}
		r.s.m.pace.adapt(r.args.To - from)
	}
	return nil
}

func (r *runner) embed() error {
	return r.chunks(func() error { return r.run(-1, 0) })
}

// layer runs one layer over all rows. A row attends to the stored tokens and to the rows before it, so all but the
// store can run chunk by chunk.
func (r *runner) layer(layer int, progress func(rows int)) error {
	s := r.s
	if s.run == nil {
		if err := r.compute(layer, progress, nil); err != nil {
			return err
		}
		if err := r.take(layer, len(r.args.IDs)); err != nil {
			return err
		}
		err := r.chunks(func() error { return r.run(layer, layerOp(layer)+opStore) })
		r.args.Slots = nil
		if err != nil {
			return err
		}
		return r.look(layer)
	}
	if k := s.m.keeper(); k != nil {
		return r.keepers(layer, progress, k)
	}
	sc := s.m.scorer()
	sc.Begin(layer)
	err := r.compute(layer, progress, func() error { return sc.Observe(&r.args, layer) })
	if err != nil {
		return err
	}
	if err := r.choose(layer); err != nil {
		return err
	}
	return r.look(layer)
}

// compute is layer without storing. attended is called after each piece's attention and may be nil.
func (r *runner) compute(layer int, progress func(rows int), attended func() error) error {
	first := layerOp(layer)
	return r.chunks(func() error {
		for op := range opsPerLayer {
			if op == opStore {
				continue
			}
			if err := r.run(layer, first+op); err != nil {
				return err
			}
			if op == opAttend && attended != nil {
				if err := attended(); err != nil {
					return err
				}
			}
		}
		progress(r.args.To)
		return nil
	})
}

// score computes the logits of all rows from skip on.
func (r *runner) score(skip int, row func(int, []float32) error) error {
	m, n := r.s.m, len(r.args.IDs)
	logits := make([]float32, m.cfg.Vocab)
	r.args.Logits = step.AllRows
	for from := skip; from < n; from = r.args.To {
		r.args.From, r.args.To = from, min(n, from+min(scoreRows, m.pace.max))
		for op := layerOp(m.cfg.Layers); op < len(m.prog.Ops); op++ {
			if err := r.run(m.cfg.Layers, op); err != nil {
				return err
			}
		}
		for i := from; i < r.args.To; i++ {
			off := int64(i-from) * int64(len(logits)) * 4
			if err := m.backend.Read(m.exec.Scratch(step.Logits), off, quant.Bytes(logits)); err != nil {
				return err
			}
			if err := row(i-skip, logits); err != nil {
				return err
			}
		}
	}
	return nil
}
