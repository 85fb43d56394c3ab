package core

import (
	"errors"

	"kvlens/wasm/llama"
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
	return e.touch(j, func() error { return e.session.Undo(j.ctx, int(m.Tokens), e.reading(j)) })
}

// pin names the tokens that stay whatever the recipe says.
func (e *engine) pin(j job, m proto.Pin) error {
	if err := e.needModel(); err != nil {
		return err
	}
	most := uint32(e.history.Tokens())
	if len(m.Positions) > int(most) {
		return badRequest("positions", "%d positions in %d tokens", len(m.Positions), most)
	}
	positions := make([]int, len(m.Positions))
	for i, p := range m.Positions {
		if p >= most {
			return badRequest("positions", "position %d of %d tokens", p, most)
		}
		positions[i] = int(p)
	}
	return e.touch(j, func() error {
		err := e.session.Pin(j.ctx, positions)
		if err == nil && m.Again {
			err = e.session.Reread(j.ctx)
		}
		return err
	})
}

// recall brings a token back that has left.
func (e *engine) recall(j job, m proto.Recall) error {
	if err := e.needModel(); err != nil {
		return err
	}
	if !e.memory.Shadow {
		return proto.Failure{Code: proto.CodeNoRecord, Op: "recall", Msg: "no copies are kept", Args: []string{"shadow"}}
	}
	if n := uint32(e.history.Tokens()); m.Position >= n {
		return badRequest("position", "position %d of %d tokens", m.Position, n)
	}
	return e.touch(j, func() error { return e.session.Recall(j.ctx, int(m.Position)) })
}

// touch does something to the cache of a conversation, on the CPU path if the GPU refuses it, and tells what is kept then.
func (e *engine) touch(j job, work func() error) error {
	err := e.lasting(j, e.spent, work)
	if errors.Is(err, llama.ErrRecipe) && e.onGPU() {
		if err = e.move(j, e.memory, err); err == nil {
			err = e.lasting(j, e.spent, work)
		}
	}
	if err != nil {
		return err
	}
	e.tellKept(j)
	e.send(j.id, e.state())
	return nil
}

// explain tells why the tokens of one list are there or are not.
func (e *engine) explain(j job, m proto.Explain) error {
	if err := e.needModel(); err != nil {
		return err
	}
	c := e.model.Config()
	if err := first(
		within("layer", m.Layer, 0, uint32(c.Layers-1)),
		within("kvhead", m.KVHead, 0, uint32(c.KVHeads-1)),
	); err != nil {
		return err
	}
	var x *llama.Explanation
	err := e.lasting(j, e.spent, func() (err error) {
		x, err = e.session.Explain(j.ctx, int(m.Layer), int(m.KVHead))
		return err
	})
	if err != nil {
		return err
	}
	out := proto.Explained{
		Layer: m.Layer, KVHead: m.KVHead, Tokens: uint32(x.Tokens), Kept: x.Kept, Votes: x.Votes, Bytes: uint64(x.Bytes),
	}
	for _, v := range x.Verdicts {
		out.Stage, out.At, out.Rank = append(out.Stage, uint8(v.Decision)), append(out.At, v.At), append(out.Rank, v.Rank)
		out.Score, out.Threshold = append(out.Score, v.Score), append(out.Threshold, v.Threshold)
	}
	for _, h := range x.Voters {
		out.Voters = append(out.Voters, uint32(h))
	}
	e.send(j.id, out)
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
