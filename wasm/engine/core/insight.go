package core

import (
	"kvlens/wasm/proto"
)

// undo goes back to an earlier moment of the conversation.
func (e *engine) undo(j job, m proto.Undo) error {
	if err := e.needModel(); err != nil {
		return err
	}
	if err := within("tokens", m.Tokens, 0, uint32(e.history.Tokens())); err != nil {
		return err
	}
	err := e.lasting(j, e.spent, func() error {
		return e.session.Undo(j.ctx, int(m.Tokens), e.reading(j))
	})
	if err != nil {
		return err
	}
	e.tellKept(j)
	e.send(j.id, e.state())
	return nil
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
