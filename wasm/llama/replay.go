package llama

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	r := replayer{s: s, o: o, settings: sampler.State(), pending: -1, at: s.pos, since: step.Clock()}
	defer func() {
		m.busy = false
		if e := r.end(ctx, sampler); err == nil && e != nil {
			reason, err = ReasonNone, e
		}
	}()
	if err := r.start(); err != nil {
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
	settings  sample.Params // with the state of the generator
	since     time.Duration // by step.Clock, of the token that is computed
	stepper   step.Stepper
	device    step.Keeper // that chooses what leaves; nil where the host gives slots
	args      step.Args
	pending   int32 // token at at, −1 where it is to be chosen from logits that are there
	at        int
	stops     []int32 // at which the backend ends the answer itself
	submitted int
	tokens    int // that came
	drawn     int // of them, those that settings are behind
	until     int // tokens that may be submitted before the answer has to begin anew
	flight    []inFlight
	stored    bool        // this answer has added a token to the cache
	settled   *cache.Mark // before the last one, where the host gives slots
	packed    bool        // nothing was submitted since pages moved together
	full      error       // why no more can be submitted: a *cache.FullError
}

// inFlight is a step that was submitted: whether it stores the token before it, and the cache as it was then.
type inFlight struct {
	stores bool
	before cache.Mark
}

// stretch is how many tokens of an answer are prepared at a time: some never end.
var stretch = 1024

// start begins an answer of the session.
func (r *replayer) start() error {
	s, m := r.s, r.s.m
	if id, ok := s.Pending(); ok {
		r.pending = id
	}
	for id := range int32(m.cfg.Vocab) {
		if r.o.Stop != nil && r.o.Stop(id) {
			r.stops = append(r.stops, id)
		}
	}
	if len(r.stops) > step.MaxStops {
		r.stops = nil // the host still ends the answer, and takes back what was computed past it
	}
	if err := r.begin(); err != nil || r.pending >= 0 {
		return err
	}
	return m.backend.Upload(m.exec.Scratch(step.Logits), 0, quant.Bytes(s.logits))
}

// begin begins, or goes on where the tokens so far have ended.
func (r *replayer) begin() error {
	s, m := r.s, r.s.m
	r.until = min(r.o.Max, r.submitted+min(stretch, s.Room()+1))
	if err := s.ready(r.at + r.until - r.submitted + 1); err != nil {
		return err
	}
	if err := m.exec.Grow(1, 1); err != nil {
		return err
	}
	r.args = step.Args{Cache: s.cache, Arena: s.arena, Pos: r.at}
	p := r.settings
	a := step.Answer{
		Cache: s.cache, Arena: s.arena, Pos: r.at, Pending: r.pending, Stop: r.stops, Watch: r.o.Evictions,
		Sampling: step.Sampling{
			Temperature: p.Temperature, TopP: p.TopP, MinP: p.MinP, Repeat: p.Repeat, TopK: p.TopK, Random: p.Seed,
		},
		Recent: slices.Clone(s.ids[max(0, len(s.ids)-recentTokens):]),
	}
	if r.pending >= 0 {
		a.Recent = append(a.Recent, r.pending)
	}
	if r.device = s.devices(); r.device != nil {
		var err error
		if a.Rules, err = s.lendFor(r.device, &r.args, r.until-r.submitted); err != nil {
			return err
		}
	}
	r.stepper = m.exec.(step.Stepper)
	return r.stepper.Begin(&a)
}

// fill submits as many steps as may be in flight.
func (r *replayer) fill(ctx context.Context) error {
	for r.full == nil && (ctx.Err() == nil || r.submitted == 0) && r.submitted < r.o.Max && len(r.flight) < step.InFlight {
		var err error
		if r.submitted < r.until {
			if err = r.submit(); err == nil {
				continue
			}
		}
		switch {
		case err != nil && !crowded(err):
			return err
		case len(r.flight) > 0:
			return nil // it goes on when all have come
		case err != nil && (r.device == nil || r.packed):
			r.full = err
			return nil
		}
		if err := r.renew(err != nil); err != nil {
			return err
		}
	}
	return nil
}

// submit submits one step.
func (r *replayer) submit() error {
	forced := int32(-1)
	if r.submitted < len(r.o.Forced) {
		if forced = r.o.Forced[r.submitted]; forced < 0 || int(forced) >= r.s.m.cfg.Vocab {
			return fmt.Errorf("%w: %d", ErrToken, forced)
		}
	}
	f := inFlight{stores: r.submitted > 0 || r.pending >= 0}
	if r.device == nil {
		f.before = r.s.cache.Mark()
	}
	if err := r.stepper.Submit(forced); err != nil {
		if r.device == nil && !crowded(err) {
			r.s.cache.Restore(f.before)
		}
		return err
	}
	r.flight = append(r.flight, f)
	r.submitted++
	r.packed = false
	return nil
}

// renew begins the rest of the answer anew: with pages moved together, or with more of the RoPE table.
func (r *replayer) renew(pack bool) error {
	r.stepper.End()
	if r.device != nil && pack {
		if err := r.s.closeUp(r.device, &r.args); err != nil {
			return err
		}
		r.packed = true
	} else if r.device != nil {
		if err := r.s.regain(r.device, &r.args); err != nil {
			return err
		}
	}
	if r.settings.Temperature > 0 {
		sampler := sample.New(r.settings)
		sampler.Skip(r.tokens - r.drawn)
		r.settings, r.drawn = sampler.State(), r.tokens
	}
	return r.begin()
}

// take waits for the oldest step. What is in flight is waited for even if ctx is cancelled: it joins the answer.
func (r *replayer) take(ctx context.Context) (step.Choice, error) {
	c, err := r.stepper.Next(context.WithoutCancel(ctx))
	switch {
	case errors.Is(err, step.ErrLogits):
		err = fmt.Errorf("%w: %w", sample.ErrLogits, err)
	case err == nil && c.ID < 0:
		err = errors.New("the backend ended the answer by itself")
	}
	f := r.flight[0]
	if stored := err == nil || errors.Is(err, step.ErrLogits); stored && f.stores {
		r.at++
		r.stored, r.settled = true, &f.before
		r.flight = r.flight[1:]
	} else if !f.stores {
		r.flight = r.flight[1:]
	}
	if err == nil {
		r.tokens++
		r.pending = c.ID
	}
	for _, x := range c.Left {
		r.s.gone.put(x.List, x.Position, int32(r.at))
	}
	return c, err
}

// next waits for a token.
func (r *replayer) next(ctx context.Context) (Token, error) {
	s, was := r.s, r.at
	c, err := r.take(ctx)
	if r.at > was {
		s.join(s.pending, false)
		s.pending = nil
	}
	if err != nil {
		return Token{}, err
	}
	now := step.Clock()
	t := Token{
		ID: c.ID, Position: s.pos, Forced: r.tokens <= len(r.o.Forced),
		Choice:  sample.Choice{ID: c.ID, Prob: c.Prob, TopIDs: c.TopIDs, TopProbs: c.TopProbs},
		Evicted: s.evictions(c.Left), Millis: (now - r.since).Seconds() * 1000,
	}
	r.since = now
	s.pending = []int32{c.ID}
	return t, nil
}

// end takes back what was computed past the answer, and fetches the logits after the last token in the cache.
func (r *replayer) end(ctx context.Context, sampler *sample.Sampler) error {
	s, m := r.s, r.s.m
	if r.stepper == nil {
		return nil
	}
	if r.settings.Temperature > 0 {
		sampler.Skip(r.tokens)
	}
	past := len(r.flight) > 0 && !slices.Contains(r.stops, r.pending) // after a stop id nothing is stored
	if err := r.close(); err != nil {
		return err
	}
	switch {
	case past && r.device != nil: // what has left for it has left
		s.cache.Reset()
		s.stale = true
		return s.settled(context.WithoutCancel(ctx))
	case !r.stored:
		return nil // the logits are those from before
	case !past:
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

// close ends the answer on the backend.
func (r *replayer) close() error {
	s := r.s
	r.stepper.End()
	if r.device == nil {
		if len(r.flight) > 0 {
			s.cache.Restore(r.flight[0].before)
		}
		return nil
	}
	err := s.regain(r.device, &r.args)
	if err != nil {
		s.cache.Reset()
		s.stale = true
		return err
	}
	s.sweep(r.at)
	return nil
}
