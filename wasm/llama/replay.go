package llama

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kvlens/cache"
	"kvlens/wasm/quant"
	"kvlens/wasm/sample"
	"kvlens/wasm/step"
)

// replay is Generate on a backend that chooses tokens itself and works ahead: some steps are in flight while emit sees
// the token before them.
func (s *Session) replay(ctx context.Context, sampler *sample.Sampler, o GenerateOptions, emit func(Token) error) (reason Reason, err error) {
	m := s.m
	if m.busy {
		return ReasonNone, fmt.Errorf("llama: generate: %w", ErrBusy)
	}
	m.busy = true
	r := replayer{s: s, o: o, begin: time.Now()}
	defer func() {
		m.busy = false
		if e := r.end(sampler); err == nil && e != nil {
			reason, err = ReasonNone, e
		}
	}()
	if err := r.start(sampler.State()); err != nil {
		return ReasonNone, fmt.Errorf("llama: generate: %w", err)
	}
	for {
		if err := r.fill(ctx); err != nil {
			return ReasonNone, fmt.Errorf("llama: generate: %w", err)
		}
		if len(r.flight) == 0 {
			switch {
			case r.full != nil:
				return ReasonFull, fmt.Errorf("llama: generate: %w", r.full)
			case r.submitted == o.Max:
				return ReasonMax, nil
			}
			return ReasonStopped, nil
		}
		t, err := r.next(ctx)
		if err != nil {
			return ReasonNone, fmt.Errorf("llama: generate: %w", err)
		}
		if err := emit(t); err != nil {
			if errors.Is(err, ErrStop) {
				return ReasonStopped, nil
			}
			return ReasonNone, err
		}
		if o.Stop != nil && o.Stop(t.ID) {
			return ReasonStopID, nil
		}
		m.giveWay()
	}
}

// replayer is one answer of replay.
type replayer struct {
	s         *Session
	o         GenerateOptions
	stepper   step.Stepper
	begin     time.Time // of the token that is computed
	submitted int
	tokens    int
	flight    []inFlight
	settled   *cache.Mark      // before the last token that this answer added to the cache
	full      *cache.FullError // why no more can be submitted
}

// inFlight is a step that was submitted: whether it stores the token before it, and the cache as it was then.
type inFlight struct {
	stores bool
	before cache.Mark
}

func (r *replayer) start(p sample.Params) error {
	s, m := r.s, r.s.m
	if err := m.reach(s.pos + min(r.o.Max, s.cache.Room()) + 1); err != nil {
		return err
	}
	if err := m.exec.Grow(1, 1); err != nil {
		return err
	}
	a := step.Answer{
		Cache: s.cache, Arena: s.arena, Pos: s.pos, Pending: -1,
		Sampling: step.Sampling{
			Temperature: p.Temperature, TopP: p.TopP, MinP: p.MinP, Repeat: p.Repeat, TopK: p.TopK, Random: p.Seed,
		},
		Recent: s.ids[max(0, len(s.ids)-recentTokens):],
	}
	if id, ok := s.Pending(); ok {
		a.Pending = id
		a.Recent = append(append([]int32(nil), a.Recent...), id)
	} else if err := m.backend.Upload(m.exec.Scratch(step.Logits), 0, quant.Bytes(s.logits)); err != nil {
		return err
	}
	for id := range int32(m.cfg.Vocab) {
		if r.o.Stop != nil && r.o.Stop(id) {
			a.Stop = append(a.Stop, id)
		}
	}
	if len(a.Stop) > step.MaxStops {
		a.Stop = nil // the host still ends the answer, and takes back what was computed past it
	}
	r.stepper = m.exec.(step.Stepper)
	return r.stepper.Begin(&a)
}

// fill submits as many steps as may be in flight.
func (r *replayer) fill(ctx context.Context) error {
	for r.full == nil && (ctx.Err() == nil || r.submitted == 0) && r.submitted < r.o.Max && len(r.flight) < step.InFlight {
		forced := int32(-1)
		if r.submitted < len(r.o.Forced) {
			if forced = r.o.Forced[r.submitted]; forced < 0 || int(forced) >= r.s.m.cfg.Vocab {
				return fmt.Errorf("%w: %d", ErrToken, forced)
			}
		}
		f := inFlight{stores: r.submitted > 0 || len(r.s.pending) > 0, before: r.s.cache.Mark()}
		err := r.stepper.Submit(forced)
		if errors.As(err, &r.full) {
			return nil
		}
		if err != nil {
			r.s.cache.Restore(f.before)
			return err
		}
		r.flight = append(r.flight, f)
		r.submitted++
	}
	return nil
}

// next waits for a token. What is in flight is waited for even if ctx is cancelled: it joins the answer.
func (r *replayer) next(ctx context.Context) (Token, error) {
	c, err := r.stepper.Next(context.WithoutCancel(ctx))
	switch {
	case errors.Is(err, step.ErrLogits):
		err = fmt.Errorf("%w: %w", sample.ErrLogits, err)
	case err == nil && c.ID < 0:
		err = errors.New("the backend ended the answer by itself")
	}
	s, f := r.s, r.flight[0]
	if f.stores && (err == nil || errors.Is(err, step.ErrLogits)) {
		s.join(s.pending, false)
		s.pending = nil
		r.settled = &f.before
		r.flight = r.flight[1:]
	} else if !f.stores {
		r.flight = r.flight[1:]
	}
	if err != nil {
		return Token{}, err
	}
	now := time.Now()
	t := Token{
		ID: c.ID, Position: s.pos, Forced: r.tokens < len(r.o.Forced),
		Choice: sample.Choice{ID: c.ID, Prob: c.Prob, TopIDs: c.TopIDs, TopProbs: c.TopProbs},
		Millis: now.Sub(r.begin).Seconds() * 1000,
	}
	r.begin = now
	r.tokens++
	s.pending = []int32{c.ID}
	return t, nil
}

// end takes back what was computed past the answer, and fetches the logits after the last token in the cache.
func (r *replayer) end(sampler *sample.Sampler) error {
	s, m := r.s, r.s.m
	if r.stepper == nil {
		return nil
	}
	r.stepper.End()
	if sampler.State().Temperature > 0 {
		sampler.Skip(r.tokens)
	}
	if len(r.flight) > 0 {
		s.cache.Restore(r.flight[0].before)
	}
	if r.settled == nil {
		return nil // the logits are those from before
	}
	if len(r.flight) == 0 {
		return m.backend.Read(m.exec.Scratch(step.Logits), 0, quant.Bytes(s.logits))
	}
	// Steps that were taken back left their logits: compute the last token's again.
	last := s.ids[len(s.ids)-1]
	s.cache.Restore(*r.settled)
	s.ids = s.ids[:len(s.ids)-1]
	s.pos--
	s.spans[len(s.spans)-1].tokens--
	return s.decode(context.Background(), last, nil)
}
