package core

import (
	"kvlens/wasm/llama"
	"kvlens/wasm/proto"
)

// look fills the columns of a Step that show attention, if the turn is watched.
func (e *engine) look(s *proto.Step) {
	rows := e.session.Rows()
	if rows == nil {
		return
	}
	s.Rows, s.RowTokens = rows.Codes, uint32(rows.Tokens)
	for _, sum := range rows.Sums {
		s.Heads.Sink = append(s.Heads.Sink, sum.Sink)
		s.Heads.Local = append(s.Heads.Local, sum.Local)
		s.Heads.Entropy = append(s.Heads.Entropy, sum.Entropy)
		s.Heads.Top1 = append(s.Heads.Top1, sum.Top1)
	}
}

// view shows the attention of one head.
func (e *engine) view(j job, v proto.View) error {
	if err := e.needModel(); err != nil {
		return err
	}
	c := e.model.Config()
	if err := first(
		within("layer", v.Layer, 0, uint32(c.Layers-1)),
		within("head", v.Head, 0, uint32(c.Heads-1)),
	); err != nil {
		return err
	}
	var x *llama.Matrix
	err := e.lasting(j, e.spent, func() (err error) {
		x, err = e.session.View(j.ctx, int(v.Layer), int(v.Head))
		return err
	})
	if err != nil {
		return err
	}
	m := proto.Matrix{
		Layer: v.Layer, Head: v.Head, Tokens: uint32(x.Tokens), Pool: uint32(x.Pool), Cells: uint32(x.Cells), Codes: x.Codes,
		Would: x.Would,
	}
	for _, at := range x.Left {
		m.Left = append(m.Left, uint32(at)) // −1 becomes Stays
	}
	e.send(j.id, m)
	e.send(j.id, e.state())
	return nil
}
