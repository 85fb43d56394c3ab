//go:build !js

package core

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"kvlens/cache/policy"
	"kvlens/wasm/proto"
)

// Whatever a page asks for, in whatever order, and wherever it says Stop: each request ends once, never in a defect of the
// engine; a failure has a code that the page has words for; the position is what the page can tell from what it has
// heard, and the arena is the cap.
func TestAnyRequests(t *testing.T) {
	const courses, length = 6, 25
	for seed := range uint64(courses) {
		r := rand.New(rand.NewPCG(seed, 2))
		p := opened(t, hooks{})
		var log []string
		position := uint32(0)
		for range length {
			m := anyRequest(r)
			stop, events := -1, 0
			if r.IntN(3) == 0 {
				stop = r.IntN(12)
			}
			p.last++
			id := p.last
			p.send(id, m)
			o := p.wait(id, func(e event) {
				if events++; e.id == id && events > stop && stop >= 0 {
					p.last, stop = p.last+1, -1
					p.send(p.last, proto.Stop{Target: id})
				}
			})
			log = append(log, fmt.Sprintf("%T %+v: %+v %+v", m, m, o.done, o.failure))
			position = after(position, m, o)
			s := p.ask(proto.GetState{}).ok().state
			off := s.Position - position // 1 where Stop was heard when the last token of an answer had been stored already
			code := proto.Code(0)
			if o.failure != nil {
				code = o.failure.Code
			}
			if code == proto.CodeInternal || code == proto.CodeLost || off > 1 || arena(s.Ledger) != s.Cap {
				t.Fatalf("seed %d: position %d, the page counts %d; an arena of %d bytes, a cap of %d:\n%s",
					seed, s.Position, position, arena(s.Ledger), s.Cap, strings.Join(log, "\n"))
			}
		}
		p.ask(proto.Reset{}).ok()
		p.ask(proto.SetMemory{}).ok()
		if o := p.ask(ask(evening)).ok(); o.text() != " a sandwich." {
			t.Fatalf("seed %d: in the end the answer is %q:\n%s", seed, o.text(), strings.Join(log, "\n"))
		}
	}
}

// after is the position after a request, as a page counts it.
func after(position uint32, m proto.Request, o *outcome) uint32 {
	switch m := m.(type) {
	case proto.Reset:
		return 0
	case proto.Undo:
		if o.failure == nil && o.done.Reason != proto.ReasonStopped {
			if m.Tokens == o.state.Position+1 { // the last of them waits for what comes next
				return o.state.Position
			}
			return m.Tokens
		}
	case proto.Generate:
		switch n := uint32(len(o.steps)); {
		case n > 0 && m.Resume:
			return o.steps[n-1].Position
		case m.Resume:
			return position
		case n > 0:
			return o.prompt.First + uint32(len(o.prompt.IDs)) + n - 1
		case o.failure != nil && (o.failure.Code == proto.CodeBadRequest || o.failure.Code == proto.CodeEmpty):
			return position // refused before anything began
		case !m.Continue:
			return 0
		}
	}
	return position
}

// anyRequest is a request with anything in it.
func anyRequest(r *rand.Rand) proto.Request {
	at := one(r, 0, r.Uint32N(20), r.Uint32N(90), r.Uint32N(300), 1<<31)
	text, question := one(r, story, story, strings.Repeat(story+" ", 6), "Ben ate rice.", " ", ""), one(r, evening, morning, evening, "", "x")
	mode := one(r, proto.Story, proto.Story, proto.Story, proto.Raw, proto.Chat)
	limit := one[uint32](r, 1, 5, 12, 12, 0)
	switch r.IntN(16) {
	case 0, 1:
		return proto.SetMemory{Memory: anyMemory(r)}
	case 2:
		return proto.View{Layer: r.Uint32N(6), Head: r.Uint32N(6)}
	case 3:
		if r.IntN(3) == 0 {
			return proto.Reset{}
		}
	case 4:
		return proto.Undo{Tokens: at}
	case 5:
		return proto.Pin{Positions: []uint32{r.Uint32N(90), r.Uint32N(90), at}[:r.IntN(4)], Again: r.IntN(2) == 0}
	case 6:
		return proto.Recall{Position: at}
	case 7:
		return proto.Explain{Layer: r.Uint32N(6), KVHead: r.Uint32N(3)}
	case 8:
		c := proto.Compare{
			Text: text, Question: question, Mode: mode, Max: limit, A: anyMemory(r), B: anyMemory(r), Later: r.IntN(2) == 0,
		}
		if r.IntN(2) == 0 {
			c.Gold, c.Other = one(r, "a sandwich", "bread", ""), one(r, "a cake", "", strings.Repeat("x", 5000))
		}
		return c
	}
	g := proto.Generate{
		Text: text, Question: question, Mode: mode, Continue: r.IntN(2) == 0, Max: limit, Later: r.IntN(2) == 0, Rows: r.IntN(3) == 0,
		Resume: r.IntN(4) == 0, Pause: one[uint32](r, 0, 0, 1, 3),
	}
	if r.IntN(2) == 0 {
		g.Forced = []uint32{57, 57, 57, 57, 57, one[uint32](r, 57, 57, 1<<31)}
	}
	return g
}

func anyMemory(r *rand.Rand) proto.Memory {
	methods := policy.Methods()
	setting := func() (s proto.Setting) {
		m := methods[r.IntN(len(methods))]
		s.Name = m.Name
		for _, k := range m.Knobs {
			if r.IntN(6) == 0 {
				s.Knobs = append(s.Knobs, k.Name)
				s.At = append(s.At, one(r, 1, 0.5, k.Default, 0, -1, 1e9, math.NaN(), math.Inf(1)))
			}
		}
		return s
	}
	m := proto.Memory{
		Recipe: proto.Recipe{Method: setting()}, F32: r.IntN(4) == 0, Parity: r.IntN(4) == 0,
		Explain: r.IntN(4) == 0, Shadow: r.IntN(2) == 0, Undo: r.IntN(2) == 0,
	}
	for r.IntN(4) == 0 {
		m.Recipe.Wraps = append(m.Recipe.Wraps, setting())
	}
	if r.IntN(2) == 0 {
		m.Cap = one[uint64](r, 0, 1, 16, 16*r.Uint64N(200), r.Uint64N(100000), r.Uint64N(100000), 1<<24, 1<<40)
	} else {
		m.Share = one[float32](r, 0, 1e-9, 0.1, 0.25, 0.5, 1, -1, 2, float32(math.NaN()))
	}
	return m
}

// one of some values.
func one[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }
