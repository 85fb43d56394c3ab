package core

import (
	"context"
	"errors"
	"runtime"
	"slices"

	"kvlens/wasm/llama"
	"kvlens/wasm/proto"
)

// compare runs two settings of the cache beside a full one. The conversation stays as it is; a setting that the backend
// can't run takes the model to the CPU path meanwhile.
func (e *engine) compare(j job, m *proto.Compare) (done proto.Done, err error) {
	if err := e.needModel(); err != nil {
		return done, err
	}
	if err := checkCompare(m); err != nil {
		return done, err
	}
	parts, err := e.prompts.first(&proto.Generate{
		Text: m.Text, Question: m.Question, System: m.System, Mode: m.Mode, Later: m.Later,
	})
	if err != nil {
		return done, err
	}
	c := &comparing{e: e, j: j, o: llama.CompareOptions{
		Parts: parts, Max: int(m.Max), Stop: e.tok.EOG,
		Runs: [2]llama.SessionOptions{e.options(m.A), e.options(m.B)},
	}}
	if m.Gold+m.Other != "" {
		c.o.Gold, c.o.Other = e.prompts.answer(m, m.Gold), e.prompts.answer(m, m.Other)
	}
	for i := range c.say {
		c.say[i] = &answer{e: e, id: j.id, dec: e.tok.NewDecoder()}
		if m.Mode != proto.Raw {
			c.say[i].stops = e.manifest.Stop
		}
	}
	p := proto.Prompt{}
	p.IDs, p.PieceEnd, p.Text = e.pieces(slices.Concat(parts...))
	e.send(j.id, p)
	done.Reason, err = c.run()
	if errors.Is(err, llama.ErrRecipe) && e.onGPU() {
		if err = e.move(j, e.memory, err); err == nil {
			done.Reason, err = c.run()
			back := j
			back.ctx = context.WithoutCancel(j.ctx)
			err = errors.Join(err, e.move(back, e.memory, nil))
		}
	}
	done.Tokens = uint32(len(c.say[0].ids))
	e.send(j.id, e.state())
	return done, err
}

// comparing is a comparison at work, as it is told to the page. What a lost backend has taken with it is done again,
// unheard.
type comparing struct {
	e    *engine
	j    job
	o    llama.CompareOptions
	say  [3]*answer // of the full cache, A and B
	kept [2]proto.Kept
}

func (c *comparing) run() (proto.Reason, error) {
	var out *llama.Comparison
	err := c.e.lasting(c.j, c.e.spent, func() (err error) {
		out, err = c.once()
		return err
	})
	if err != nil {
		return proto.ReasonNone, err
	}
	for i, r := range out.Runs {
		m := proto.Contrast{
			Run: uint32(i), Recipe: c.kept[i].Recipe, Tokens: uint32(len(out.IDs)),
			MeanKL: float32(r.MeanKL), MaxKL: float32(r.MaxKL), Agree: uint32(r.Agree), Diverged: uint32(r.Diverged),
			Cap: uint64(r.Cap), Peak: uint64(r.Peak), Full: uint64(out.Full), Rate: float32(r.Rate), Kept: c.kept[i],
		}
		for _, heads := range r.Retained {
			m.Retained = append(m.Retained, shorter(heads)...)
		}
		c.e.send(c.j.id, m)
	}
	return c.say[0].reason(out.Reason), nil
}

// once runs the comparison once. Tokens that the page has seen already are not sent again.
func (c *comparing) once() (*llama.Comparison, error) {
	e := c.e
	var again [3]int
	runtime.GC() // the arenas can take the place of what is garbage by now
	return e.model.Compare(c.j.ctx, c.o, llama.CompareEvents{
		Progress: e.reading(c.j),
		Read:     func(run int, s *llama.Session) { c.kept[run] = e.kept(s) },
		Forced: func(t llama.Compared) error {
			return c.say[0].once(&again[0], t.ID, func(text string) proto.Event { return c.compared(&t, text) })
		},
		Free: func(run int, t llama.Token, same bool) error {
			a := c.say[run+1]
			return a.once(&again[run+1], t.ID, func(text string) proto.Event {
				return proto.Strayed{
					Run: uint32(run), Index: uint32(len(a.ids)), Token: uint32(t.ID), Text: text, Bytes: e.tok.Piece(t.ID), Same: same,
				}
			})
		},
	})
}

// once sends what there is to say of a token, unless it was said. again counts the tokens that came.
func (a *answer) once(again *int, id int32, say func(text string) proto.Event) error {
	if *again++; *again > len(a.ids) {
		a.e.send(a.id, say(a.show(id)))
		a.ids = append(a.ids, id)
	}
	if a.text && *again == len(a.ids) {
		return llama.ErrStop
	}
	return nil
}

// compared is a token as the page gets it.
func (c *comparing) compared(t *llama.Compared, text string) proto.Event {
	e := c.e
	out := proto.Compared{
		Index: uint32(len(c.say[0].ids)), Position: uint32(t.Position), Token: uint32(t.ID), Text: text, Bytes: e.tok.Piece(t.ID),
		Prob: shorter(t.Prob[:]), KL: shorter(t.KL[:]), Margin: shorter(t.Margin),
		Agree: make([]uint8, 2), Top: make([]uint32, 2), TopTexts: make([]string, 2),
	}
	for i := range t.KL {
		top := t.Choices[i+1].ID
		if top == t.ID {
			out.Agree[i] = 1
		}
		out.Top[i], out.TopTexts[i] = uint32(top), e.tok.Decode([]int32{top})
	}
	return out
}

// shorter are numbers as they travel.
func shorter(x []float64) []float32 {
	out := make([]float32, len(x))
	for i := range x {
		out[i] = float32(x[i])
	}
	return out
}
