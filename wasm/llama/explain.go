package llama

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/wasm/step"
)

// ErrNoRecord says that nothing was recorded that Explain could tell: it was not asked for when the conversation began, or
// the record would have been larger than [policy.MaxRecord].
var ErrNoRecord = errors.New("nothing was recorded of the decisions")

// ErrRecord says that a backend decides by itself, where nothing can be recorded; it wraps ErrRecipe.
var ErrRecord = fmt.Errorf("%w with a record of its decisions", ErrRecipe)

// Explanation tells of one list why its tokens are there or are not.
type Explanation struct {
	Layer, KVHead, Tokens int
	Kept                  []uint8          // by position: 1 if the list holds it
	Verdicts              []policy.Verdict // by position: the last decision
	Voters                []int            // query heads whose own scores of the last prompt are known
	Votes                 []uint8          // [voters][tokens], see policy.Run.Votes
	Bytes                 int64            // that the record of all lists takes, in the ledger as cache.Views
}

// Record says whether conversations that begin from now on are recorded, for Explain; the present one is if it has no
// token yet. A record that is there ends at once. It takes at most [policy.MaxRecord] bytes of the host, in the ledger as
// cache.Views; without one nothing is kept.
func (s *Session) Record(on bool) {
	s.opts.Explain = on
	if s.recorded = on && (s.recorded || s.pos == 0); s.run != nil && (!on || s.pos == 0) {
		s.run.Record(s.recorded)
		s.account()
	}
}

// Explain tells why a list holds what it holds, from what was recorded. Ranks, scores and thresholds are those of the last
// decision about each token, votes those of the last prompt. A pin counts as the last word about a token that it keeps.
func (s *Session) Explain(ctx context.Context, layer, kvHead int) (*Explanation, error) {
	var e *Explanation
	err := s.busy("explain", func() (err error) {
		switch c := &s.m.cfg; {
		case layer < 0 || layer >= c.Layers || kvHead < 0 || kvHead >= c.KVHeads:
			return fmt.Errorf("layer %d of %d, KV head %d of %d", layer, c.Layers, kvHead, c.KVHeads)
		case s.pos == 0:
			return ErrEmpty
		case !s.recorded:
			return ErrNoRecord
		}
		if err = s.settled(ctx); err == nil {
			e, err = s.explain(layer, kvHead)
		}
		return err
	})
	return e, err
}

func (s *Session) explain(layer, kvHead int) (*Explanation, error) {
	e := &Explanation{Layer: layer, KVHead: kvHead, Tokens: s.pos, Kept: make([]uint8, s.pos)}
	for _, p := range s.Kept(layer, kvHead) {
		e.Kept[p] = 1
	}
	if s.run == nil {
		e.Verdicts = s.nothingLeft()
	} else {
		e.Verdicts = slices.Clone(s.run.Verdicts(layer, kvHead))
		e.Voters, e.Votes = s.run.Votes(layer, kvHead, s.pos)
		e.Bytes = s.run.RecordBytes()
	}
	if len(e.Verdicts) != s.pos {
		return nil, ErrNoRecord
	}
	for _, p := range s.pinned() {
		if int(p) >= s.pos || e.Kept[p] == 0 {
			continue
		}
		if v := &e.Verdicts[p]; s.pinnedAt(p) >= v.At {
			v.Decision, v.At = policy.DecidedPin, s.pinnedAt(p)
		}
	}
	return e, nil
}

// nothingLeft are the verdicts of a recipe that drops nothing, which keeps no record.
func (s *Session) nothingLeft() []policy.Verdict {
	var out []policy.Verdict
	for _, sp := range s.spans {
		end := len(out) + sp.tokens
		for len(out) < end {
			if sp.prompt {
				out = append(out, policy.Unscored(policy.DecidedRoom, end))
			} else {
				out = append(out, policy.Unscored(policy.DecidedNew, len(out)+1))
			}
		}
	}
	return out
}

// pinnedAt is how many tokens there were when a token that is pinned was pinned, itself among them.
func (s *Session) pinnedAt(position int32) uint32 {
	at, since := 0, -1
	for _, sp := range s.spans {
		at += sp.tokens
		switch {
		case sp.deed == nil || sp.deed.pins == nil:
		case !slices.Contains(sp.deed.pins, position):
			since = -1
		case since < 0:
			since = at
		}
	}
	return uint32(max(since, int(position)+1))
}

// eviction tells of the i-th of so many tokens that leave a list with a step.
func (s *Session) eviction(layer, kvHead, position, i, of int) Eviction {
	v := policy.Unscored(s.run.Rules(layer, kvHead), s.pos)
	if losses := s.run.Losses(kvHead); len(losses) == of {
		v = losses[i]
	}
	return Eviction{layer, kvHead, position, v.Decision, v.Score, v.Threshold, int(v.Rank)}
}

// remembers goes on with a run that has a record, unless that is not wanted any more.
func (s *Session) remembers(recorded bool) {
	if s.recorded = recorded && s.opts.Explain; s.run != nil && !s.recorded {
		s.run.Record(false)
	}
	s.account()
}

// account enters in the ledger what the record takes by now.
func (s *Session) account() {
	n := int64(0)
	if s.run != nil {
		n = s.run.RecordBytes()
	}
	s.m.led.Add(cache.Views, n-s.record, n-s.record)
	s.record = n
}

// records says whether the backend can record what a recipe decides.
func (m *Model) records() bool {
	_, ok := m.exec.(step.Scorer)
	return ok
}
