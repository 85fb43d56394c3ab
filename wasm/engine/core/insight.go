package core

import (
	"kvlens/wasm/proto"
)

// undo goes back to an earlier moment of the conversation.
func (e *engine) undo(j job, m proto.Undo) error {
	if err := e.needModel(); err != nil {
		return err
	}
	if err := within("tokens", m.Tokens, 0, uint32(e.tokens())); err != nil {
		return err
	}
	err := e.lasting(j, e.spent, func() error {
		return e.session.Undo(j.ctx, int(m.Tokens), e.reading(j))
	})
	if err != nil {
		return err
	}
	e.past = cut(e.past, int(m.Tokens))
	e.tellKept(j)
	e.send(j.id, e.state())
	return nil
}

// tokens is how many tokens the conversation has, the pending one among them.
func (e *engine) tokens() int {
	n := e.session.Position()
	if _, pending := e.session.Pending(); pending {
		n++
	}
	return n
}

// reading tells of prompts that are read.
func (e *engine) reading(j job) func(done, total int) {
	var tell cadence
	return func(done, total int) {
		if tell.now(done == total) {
			e.send(j.id, proto.Progress{Stage: proto.StagePrefill, Done: uint64(done), Total: uint64(total)})
		}
	}
}

// cut gives the turns of a conversation's first tokens.
func cut(turns []past, tokens int) (left []past) {
	for _, t := range turns {
		if tokens <= 0 {
			break
		}
		var kept past
		for _, ids := range t.parts {
			if tokens > 0 {
				kept.parts = append(kept.parts, ids)
			}
			tokens -= len(ids)
		}
		n := min(max(0, tokens), len(t.answer))
		kept.answer = t.answer[:n:n]
		tokens -= n
		left = append(left, kept)
	}
	return left
}
