package llama

import (
	"context"
	"errors"
	"slices"
)

// History is a conversation as it came about: its tokens, which of them came as prompts and which one by one, and what was
// done between them (Pin, Recall). It outlives its session and its backend.
type History struct {
	ids, pending []int32
	spans        []span
	shadowed     bool // from its start
}

// History is how the session's conversation came about.
func (s *Session) History() History {
	return History{slices.Clone(s.ids), slices.Clone(s.pending), slices.Clone(s.spans), s.shadowed}
}

// Tokens is how many tokens the conversation has, the pending one among them.
func (h *History) Tokens() int { return len(h.ids) + len(h.pending) }

// Answer is the tokens after the last prompt.
func (h *History) Answer() []int32 {
	from := len(h.ids)
	for _, sp := range slices.Backward(h.spans) {
		if sp.prompt {
			break
		}
		from -= sp.tokens
	}
	return slices.Concat(h.ids[from:], h.pending)
}

// ErrNotEmpty says that a session has a conversation already.
var ErrNotEmpty = errors.New("the session is not empty")

// Repeat lets a history happen to an empty session, so that what comes next equals what would have come where it is from:
// prompts as prompts, answers token by token. Where the settings are others, it is as after SetRecipe: what is pinned in
// the end is so from the start, and recalls are not repeated. A backend that makes no copies does not repeat them either.
//
// progress gets tokens × layers and may be nil. If it fails, the session is empty.
func (s *Session) Repeat(ctx context.Context, h History, same bool, progress func(done, total int)) error {
	if s.pos+len(s.pending) > 0 {
		return ErrNotEmpty
	}
	return s.busy("repeat", func() error {
		spans := h.spans
		if !same {
			spans = slices.DeleteFunc((&Session{spans: spans}).pinFirst(), func(sp span) bool { return sp.deed != nil && !sp.deed.lasts })
		}
		err := s.settled(ctx)
		if same {
			s.shadowed = h.shadowed
			s.cast(h.shadowed)
		}
		if err == nil {
			err = s.again(ctx, h.ids, spans, progress)
		}
		if err != nil {
			s.Reset()
			return err
		}
		s.pending = slices.Clone(h.pending)
		s.wished()
		s.remember()
		return nil
	})
}
