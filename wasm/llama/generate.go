package llama

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"kvlens/cache"
	"kvlens/wasm/sample"
	"kvlens/wasm/step"
)

// Reason says why Generate ended.
type Reason uint8

// The reasons.
const (
	ReasonNone    Reason = iota // an error
	ReasonStopID                // a stop id, which was emitted
	ReasonMax                   // the limit
	ReasonStopped               // ctx was cancelled, or emit asked for the end with ErrStop
	ReasonFull                  // the cap is reached: the error is a *cache.FullError; the answer so far is kept
)

// ErrStop is what emit returns to end the answer.
var ErrStop = errors.New("stop")

// Picker chooses the next token; *sample.Sampler is one.
type Picker interface {
	Pick(logits []float32, recent []int32) (sample.Choice, error)
}

// recentTokens is how many of the last tokens the repetition penalty sees.
const recentTokens = step.RecentTokens

// GenerateOptions of one answer.
type GenerateOptions struct {
	Max     int              // most tokens to generate
	Sampler Picker           // mandatory
	Stop    func(int32) bool // token ids that end the answer; may be nil
	Forced  []int32          // teacher forcing: these ids take the place of the first sampled ones
	// Evictions asks for Token.Evicted where the backend chooses what leaves: there it costs that much more to read.
	Evictions bool
}

// Token is one generated token.
type Token struct {
	ID       int32
	Position int           // the position it takes
	Forced   bool          // ID comes from Forced
	Choice   sample.Choice // of ID, also where it was forced
	Evicted  []Eviction    // what left the cache for the token before it
	Millis   float64       // time since the token before, or since the call
}

// Generate answers: it chooses tokens from the logits and adds each to the cache when the next one is needed. The last
// token stays pending, so that a limit or a stop costs no computation; the next turn begins with it. emit gets every
// token before the next is computed. The first comes even if ctx is cancelled already: what was read shows in an answer,
// or is taken back by Prefill. Where a backend computes ahead, what emit does not want is taken back, and what is
// under way when ctx is cancelled joins the answer.
func (s *Session) Generate(ctx context.Context, o GenerateOptions, emit func(Token) error) (Reason, error) {
	if s.pos == 0 {
		return ReasonNone, fmt.Errorf("llama: generate: %w", ErrEmpty)
	}
	if err := s.busy("generate", func() error { return s.settled(ctx) }); err != nil {
		if ctx.Err() != nil {
			return ReasonStopped, nil
		}
		return ReasonNone, err
	}
	if sampler, ok := o.Sampler.(*sample.Sampler); ok && o.Max > 0 {
		if _, ok := s.m.exec.(step.Stepper); ok && !s.watched {
			return s.replay(ctx, sampler, o, emit)
		}
	}
	begin := time.Now()
	for n := 0; n < o.Max; n++ {
		var evicted []Eviction
		if len(s.pending) > 0 {
			if reason, err := s.settle(ctx); reason != 0 || err != nil {
				return reason, err
			}
			evicted = slices.Clone(s.evicted)
		}
		if n > 0 && ctx.Err() != nil {
			return ReasonStopped, nil
		}
		t, err := s.pick(o, n)
		if err != nil {
			return ReasonNone, fmt.Errorf("llama: generate: %w", err)
		}
		now := time.Now()
		t.Millis, t.Evicted = now.Sub(begin).Seconds()*1000, evicted
		begin = now
		s.pending = []int32{t.ID}
		if err := emit(t); err != nil {
			if errors.Is(err, ErrStop) {
				return ReasonStopped, nil
			}
			return ReasonNone, err
		}
		if o.Stop != nil && o.Stop(t.ID) {
			return ReasonStopID, nil
		}
		s.m.giveWay()
	}
	return ReasonMax, nil
}

// settle adds the pending token to the cache.
func (s *Session) settle(ctx context.Context) (Reason, error) {
	err := s.decode(ctx, s.pending[0], nil)
	var full *cache.FullError
	switch {
	case err == nil:
		s.pending = nil
		return ReasonNone, nil
	case errors.As(err, &full):
		return ReasonFull, err
	case ctx.Err() != nil:
		return ReasonStopped, nil
	}
	return ReasonNone, err
}

func (s *Session) pick(o GenerateOptions, n int) (Token, error) {
	recent := s.ids[max(0, len(s.ids)-recentTokens):]
	choice, err := o.Sampler.Pick(s.logits, recent)
	if err != nil {
		return Token{}, err
	}
	t := Token{ID: choice.ID, Position: s.pos, Choice: choice}
	if n < len(o.Forced) {
		t.ID, t.Forced = o.Forced[n], true
		if t.ID < 0 || int(t.ID) >= s.m.cfg.Vocab {
			return Token{}, fmt.Errorf("%w: %d", ErrToken, t.ID)
		}
		// The share of one token follows from that of any other.
		top := choice.TopIDs[0]
		t.Choice.ID = t.ID
		t.Choice.Prob = choice.TopProbs[0] * float32(math.Exp(float64(s.logits[t.ID]-s.logits[top])))
	}
	return t, nil
}
