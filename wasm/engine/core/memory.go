package core

import (
	"context"
	"errors"
	"runtime"
	"slices"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/wasm/llama"
	"kvlens/wasm/proto"
)

// full says whether a recipe keeps every token and reads all of them, as every backend can.
func full(r proto.Recipe) bool { return r.Method.Name == "" || r.Method.Name == "full" }

// sameButCap says whether settings differ at most in the size of the cache, and in what is kept beside it.
func sameButCap(a, b proto.Memory) bool {
	same := func(a, b proto.Setting) bool {
		return a.Name == b.Name && slices.Equal(a.Knobs, b.Knobs) && slices.Equal(a.At, b.At)
	}
	return a.F32 == b.F32 && a.Parity == b.Parity && same(a.Recipe.Method, b.Recipe.Method) &&
		slices.EqualFunc(a.Recipe.Wraps, b.Recipe.Wraps, same)
}

// recipe is a recipe as sessions take it, unchecked.
func recipe(r proto.Recipe) policy.Recipe {
	knobs := func(s proto.Setting) map[string]float64 {
		m := make(map[string]float64, len(s.At))
		for i, name := range s.Knobs[:min(len(s.Knobs), len(s.At))] {
			m[name] = s.At[i]
		}
		return m
	}
	out := policy.Recipe{Method: r.Method.Name, Knobs: knobs(r.Method)}
	if out.Method == "" {
		out.Method = "full"
	}
	for _, w := range r.Wraps {
		out.Wraps = append(out.Wraps, policy.Wrap{Name: w.Name, Knobs: knobs(w)})
	}
	return out
}

// newSession replaces the session. The old arena goes before the new one comes, so that the two never stand side by
// side; if the new one cannot be had, the old settings are set up again. If they cannot be had either, the model goes,
// so that the page can open one.
func (e *engine) newSession(m proto.Memory) error {
	err := e.makeSession(m)
	if err != nil && e.makeSession(e.memory) != nil {
		e.close()
	}
	return err
}

func (e *engine) makeSession(m proto.Memory) error {
	o := e.options(m)
	if m.Share > 0 || m.Cap > 0 {
		o.Tokens = e.full
	}
	e.saved.close()
	if e.session != nil {
		e.session.Close()
		e.session = nil
		runtime.GC() // the new arena can take the old one's place
	}
	s, err := e.model.NewSession(o)
	if err != nil {
		return err
	}
	e.session, e.memory, e.history = s, m, llama.History{}
	e.prefill, e.decode = rate{}, rate{}
	e.limitGarbage()
	return nil
}

// options are settings as sessions take them.
func (e *engine) options(m proto.Memory) llama.SessionOptions {
	return llama.SessionOptions{
		Cap: int64(m.Cap), Share: float64(m.Share), F32: m.F32,
		Recipe: recipe(m.Recipe), Tables: e.tables, Parity: m.Parity,
		Explain: m.Explain, Shadow: m.Shadow, Undo: m.Undo,
	}
}

// record has the session keep what one may ask about later; nothing else changes.
func (e *engine) record(m proto.Memory) error {
	e.session.Record(m.Explain)
	e.session.KeepUndo(m.Undo)
	err := e.session.Shadow(m.Shadow)
	if err == nil {
		e.memory = m
	}
	return err
}

// setMemory sets the cache's settings; the conversation stays.
func (e *engine) setMemory(j job, m proto.Memory) error {
	if err := e.needModel(); err != nil {
		return err
	}
	if err := checkMemory(m); err != nil {
		return err
	}
	if err := e.lasting(j, lost, func() error { return e.change(j, m) }); err != nil {
		return err
	}
	e.tellKept(j)
	e.send(j.id, e.state())
	return nil
}

// change sets the cache's settings, or leaves everything as it is.
func (e *engine) change(j job, m proto.Memory) error {
	was, h := e.memory, e.history
	runs := e.model.Runs(e.options(m))
	switch {
	case errors.Is(runs, llama.ErrRecipe) && e.onGPU():
		return e.move(j, m, runs)
	case e.returns(m):
		return e.move(j, m, nil)
	case sameButCap(m, was) && m.Cap == was.Cap && m.Share == was.Share:
		if err := e.session.Settle(j.ctx); err != nil { // what is kept is told
			return err
		}
		return e.record(m)
	case h.Tokens() == 0:
		return e.newSession(m)
	case sameButCap(m, was):
		e.saved.close()
		err := e.session.SetCap(j.ctx, e.capOf(m))
		if err == nil {
			err = e.record(m)
		}
		return err
	}
	err := e.makeSession(m)
	if err == nil {
		err = e.repeat(j.ctx, h, false, e.progress(j))
	}
	if errors.Is(err, llama.ErrRecipe) && e.onGPU() { // not with what is pinned
		e.memory, e.history = was, h
		return e.move(j, m, err)
	}
	if err != nil && !lost(err) {
		back := e.makeSession(was)
		if back == nil {
			back = e.repeat(context.WithoutCancel(j.ctx), h, true, func(proto.Progress) {})
		}
		if lost(back) {
			err = errors.Join(err, back)
		} else if back != nil {
			e.close()
		}
	}
	if lost(err) { // what was is restored, and then changed
		e.memory, e.history = was, h
	}
	return err
}

// returns says whether a model that was taken from a GPU may go back there: the settings no longer ask for what that
// refused.
func (e *engine) returns(m proto.Memory) bool {
	switch {
	case e.refused == nil:
		return false
	case full(m.Recipe):
		return true
	case errors.Is(e.refused, llama.ErrCopies), errors.Is(e.refused, llama.ErrRecord):
		return !m.Shadow && !m.Explain
	}
	return !sameButCap(m, e.memory)
}

// move takes the model to another backend because of the settings, and the conversation with it: aside to the CPU path
// where a GPU has refused them, or back.
func (e *engine) move(j job, m proto.Memory, refused error) error {
	was, h, tell := e.asked, e.history, e.progress(j)
	was.Memory = e.memory
	next := was
	next.Memory = m
	same := sameButCap(m, e.memory) && m.Cap == e.memory.Cap && m.Share == e.memory.Share
	before, name := e.refused, e.backend.Info().Name
	opened, err := e.reload(j.ctx, next, refused, h, same, tell)
	if errors.Is(err, llama.ErrRecipe) && refused == nil {
		opened, err = e.reload(j.ctx, next, err, h, same, tell)
	}
	if err != nil {
		if _, back := e.reload(context.WithoutCancel(j.ctx), was, before, h, true, tell); back != nil {
			e.close()
		}
		return err
	}
	if opened.Backend != name {
		e.send(j.id, proto.Moved{
			Backend: opened.Backend, BackendDetail: opened.BackendDetail, BackendWhy: opened.BackendWhy, Recipe: true,
		})
	}
	return nil
}

// reload loads the model again, aside if a GPU has refused the settings, and reads the conversation again.
func (e *engine) reload(
	ctx context.Context, o proto.Open, refused error, h llama.History, same bool, tell telling,
) (proto.Opened, error) {
	place := e.best
	if refused != nil {
		place = e.aside
	}
	e.close()
	opened, err := e.load(ctx, o, place, tell)
	if refused != nil {
		e.refused = refused
	}
	if err == nil {
		err = e.repeat(ctx, h, same, tell)
	}
	return opened, err
}

// capOf is a cap in bytes, for the conversation in the cache.
func (e *engine) capOf(m proto.Memory) int64 {
	if m.Cap > 0 {
		return int64(m.Cap)
	}
	c := e.model.Config()
	g := cache.Geometry{Layers: c.Layers, KVHeads: c.KVHeads, HeadDim: c.HeadDim, Key: cache.F16, Value: cache.F16}
	if m.F32 {
		g.Key, g.Value = cache.F32, cache.F32
	}
	if m.Share > 0 {
		return g.Share(e.full, float64(m.Share))
	}
	return g.Share(min(c.Context, defaultTokens), 1)
}

// defaultTokens is how many tokens the default cap is for, in models that know as many.
const defaultTokens = 2048

// save keeps the cache of a story that was just read.
func (e *engine) save(ctx context.Context, ids []int32) error {
	c, err := e.session.Save(ctx)
	if err == nil {
		e.saved.close()
		e.saved = compressed{ids, c}
	}
	return err
}
