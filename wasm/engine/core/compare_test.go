//go:build !js

package core

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"kvlens/cache"
	"kvlens/wasm/proto"
	"kvlens/wasm/ref"
	"kvlens/wasm/step"
)

// versus compares two recipes at a share on the story and its question.
func versus(a, b string, share float32) proto.Compare {
	return proto.Compare{
		Text: story, Question: evening, Mode: proto.Story, Max: 24, A: under(a, share).Memory, B: under(b, share).Memory,
	}
}

// The full cache beside itself differs in nothing; beside recipes the answer is still its own, and what they keep is what
// a conversation under them keeps.
func TestCompare(t *testing.T) {
	p := opened(t, hooks{})
	before := p.ask(ask(morning)).ok()
	o := p.ask(versus("full", "full", 1)).ok()
	text := ""
	for i, c := range o.told {
		text += c.Text
		if c.Index != uint32(i) || c.Position != uint32(62+i) || max(c.KL[0], c.KL[1]) > 1e-6 || c.Agree[0]+c.Agree[1] != 2 || c.Top[0] != c.Token || len(c.Margin) != 0 {
			t.Errorf("token %d: %+v", i, c)
		}
		if len(c.Prob) != 3 || math.Abs(float64(c.Prob[0]-c.Prob[1])) > 1e-5 || c.Prob[0] < 0.5 || string(c.Bytes) != c.Text && !strings.HasPrefix(string(c.Bytes), c.Text) {
			t.Errorf("token %d: %+v", i, c)
		}
	}
	if text != " a sandwich." || o.done != (proto.Done{Reason: proto.ReasonStopText, Tokens: 3}) || len(o.prompt.IDs) != 62 || len(o.strayed) != 6 {
		t.Errorf("%q, %+v after %d tokens, %d free", text, o.done, len(o.prompt.IDs), len(o.strayed))
	}
	if o.read.Done != o.read.Total || o.read.Total != 3*62*5 {
		t.Errorf("the prompts were read to %+v", o.read)
	}
	for i, s := range o.sums {
		if s.Run != uint32(i) || s.MaxKL > 1e-6 || s.Agree != 3 || s.Tokens != 3 || s.Diverged != proto.Stays || s.Cap != s.Full || s.Peak <= s.Cap ||
			len(s.Retained) != 30 || slices.Min(s.Retained) < 1-1e-6 || s.Recipe != "full" || s.Rate <= 0 {
			t.Errorf("run %d: %+v", i, s)
		}
	}

	m := versus("snapkv", "streamingllm", 0.25)
	m.Later, m.Gold, m.Other = true, "a sandwich", "bread"
	o = p.ask(m).ok()
	if len(o.sums) != 2 || len(o.told) != 3 || len(o.told[0].Margin) != 3 || o.told[0].Margin[0] < 1 || len(o.told[1].Margin) != 0 {
		t.Fatalf("%d runs, %+v", len(o.sums), o.told)
	}
	for i, s := range o.sums {
		if s.Cap*3 > s.Full || s.MeanKL > s.MaxKL || math.IsNaN(float64(s.MeanKL)) || slices.Max(s.Retained) > 1+1e-6 || slices.Min(s.Retained) > 0.95 {
			t.Errorf("run %d: %+v", i, s)
		}
		free := []uint32{}
		for _, x := range o.strayed {
			if x.Run == uint32(i) {
				if x.Index != uint32(len(free)) || x.Same != (x.Index < s.Diverged) {
					t.Errorf("run %d strays at %d: %+v", i, s.Diverged, x)
				}
				free = append(free, x.Token)
			}
		}
		q := opened(t, hooks{})
		q.ask(under(s.Recipe, 0.25)).ok()
		g := ask(evening)
		g.Later = true
		alone := q.ask(g).ok()
		if !slices.Equal(alone.tokens(), free) || !reflect.DeepEqual(alone.kept[1], s.Kept) || s.Cap != alone.state.Cap {
			t.Errorf("run %d answers %d and keeps %+v, alone %d and %+v", i, free, s.Kept, alone.tokens(), alone.kept[1])
		}
	}
	// The conversation is where it was.
	if got := p.ask(askOn(evening)).ok(); o.state.Position != before.state.Position || got.text() != " a sandwich." || total(o) != total(p.ask(proto.GetState{})) {
		t.Errorf("afterwards: %q, %+v", got.text(), o.state)
	}
}

// sameTold says whether two comparisons tell the same, up to the order of sums (see alike).
func sameTold(a, b *outcome) bool {
	near := func(a, b float32) bool { return math.Abs(float64(a-b)) <= 1e-5 }
	return reflect.DeepEqual(a.strayed, b.strayed) && slices.EqualFunc(a.told, b.told, func(a, b proto.Compared) bool {
		return a.Index == b.Index && a.Token == b.Token && a.Text == b.Text && slices.Equal(a.Agree, b.Agree) && slices.Equal(a.Top, b.Top) &&
			slices.EqualFunc(a.KL, b.KL, near) && slices.EqualFunc(a.Prob, b.Prob, near)
	})
}

// A comparison that is stopped wherever it is leaves no byte behind, and can be run again.
func TestCompareStopped(t *testing.T) {
	p := opened(t, hooks{})
	p.ask(ask(morning)).ok()
	m := versus("h2o", "snapkv", 0.3)
	whole := 0
	p.last++
	p.send(p.last, m)
	first := p.wait(p.last, func(event) { whole++ }).ok()
	for at := range whole - 1 {
		p.last++
		id := p.last
		p.send(id, m)
		n := 0
		o := p.wait(id, func(e event) {
			if e.id != id {
				return
			}
			if n++; n == at+1 {
				p.last++
				p.send(p.last, proto.Stop{Target: id})
			}
		}).ok()
		if o.done.Reason == proto.ReasonStopText {
			continue // it was quicker
		}
		if o.done.Reason != proto.ReasonStopped || len(o.sums) != 0 || total(o) != total(first) {
			t.Fatalf("stopped after %d events: %+v, %d bytes, before %d", at, o.done, total(o), total(first))
		}
	}
	if o := p.ask(m).ok(); !sameTold(o, first) {
		t.Error("once more it is another")
	}
}

func TestCompareRefuses(t *testing.T) {
	p := newPage(t, hooks{})
	p.ask(versus("h2o", "h2o", 0.5)).fails(proto.CodeBadRequest, "model")
	p = opened(t, hooks{})
	before := p.ask(ask(morning)).ok()
	for _, c := range []struct {
		code   proto.Code
		args   []string
		change func(m *proto.Compare)
	}{
		{proto.CodeEmpty, []string{"question"}, func(m *proto.Compare) { m.Question = " " }},
		{proto.CodeBadRequest, []string{"mode"}, func(m *proto.Compare) { m.Mode = 9 }},
		{proto.CodeBadRequest, []string{"mode"}, func(m *proto.Compare) { m.Mode = proto.Chat }},
		{proto.CodeBadRequest, []string{"max"}, func(m *proto.Compare) { m.Max = 0 }},
		{proto.CodeBadRequest, []string{"max"}, func(m *proto.Compare) { m.Max = 1 << 31 }},
		{proto.CodeBadRequest, []string{"text"}, func(m *proto.Compare) { m.Text = strings.Repeat("x", maxText+1) }},
		{proto.CodeBadRequest, []string{"share"}, func(m *proto.Compare) { m.A.Share = float32(math.NaN()) }},
		{proto.CodeBadRequest, []string{"cap"}, func(m *proto.Compare) { m.B.Share, m.B.Cap = 0, 1<<40 }},
		{proto.CodeBadRequest, []string{"recipe"}, func(m *proto.Compare) { m.B.Recipe.Method.Name = "magic" }},
		{proto.CodeBadRequest, []string{"snapkv.window"}, func(m *proto.Compare) {
			m.A.Recipe.Method = proto.Setting{Name: "snapkv", Knobs: []string{"window"}, At: []float64{math.Inf(1)}}
		}},
		{proto.CodeBadRequest, []string{"gold"}, func(m *proto.Compare) { m.Gold = "bread" }},
		{proto.CodeBadRequest, []string{"gold"}, func(m *proto.Compare) { m.Gold, m.Other = "bread", "bread" }},
		{proto.CodeBadRequest, []string{"gold"}, func(m *proto.Compare) { m.Gold, m.Other = strings.Repeat("x", maxAnswer+1), "y" }},
		{proto.CodeSmall, nil, func(m *proto.Compare) { m.B.Share = 1e-6 }},
	} {
		m := versus("h2o", "snapkv", 0.5)
		c.change(&m)
		p.ask(m).fails(c.code, c.args...)
	}
	if f := p.ask(versus("full", "h2o", 0.25)).failure; f == nil || f.Code != proto.CodeTooLong {
		t.Errorf("a full cache under a quarter: %+v", f)
	}
	if o := p.ask(proto.Reset{}).ok(); total(o) > total(before) {
		t.Errorf("what was refused left %d bytes of %d", total(o), total(before))
	}
}

// A recipe that the graphics processor does not run takes the model to the CPU path for as long as the comparison takes;
// what a lost device had said already is not said again.
func TestCompareMoves(t *testing.T) {
	p := newPage(t, hooks{choose: breaking("cpu")})
	p.ask(proto.Open{Manifest: builtIn, Backend: "webgpu"}).ok()
	first := p.ask(ask(morning)).ok()
	m := versus("h2o", "full", 0.3)
	m.B.Share = 1
	o := p.ask(m).ok()
	if len(o.moved) != 2 || o.moved[0].Backend != "ref" || o.moved[0].BackendWhy != proto.WhyRecipe || o.moved[1].Backend != "webgpu" || len(o.sums) != 2 || o.state.Stored != first.state.Stored {
		t.Errorf("moved %+v, %d runs, %+v", o.moved, len(o.sums), o.state)
	}
	alone := p.ask(versus("full", "full", 1)).ok()
	if len(alone.moved) != 0 {
		t.Errorf("the full cache moves it: %+v", alone.moved)
	}

	for _, after := range []int{30, 150, 230, 300} {
		var made []*fragile
		q := newPage(t, hooks{choose: func(_ Wish, led *cache.Ledger) (step.Backend, string, error) {
			made = append(made, &fragile{Backend: ref.New(led), left: -1})
			return made[len(made)-1], proto.WhyTested, nil
		}})
		q.ask(proto.Open{Manifest: builtIn, Backend: "webgpu"}).ok()
		q.ask(ask(morning)).ok()
		made[0].left = after
		o := q.ask(versus("full", "full", 1)).ok()
		if len(o.moved) != 1 || !sameTold(o, alone) || o.state.Stored != first.state.Stored {
			t.Errorf("lost after %d operations: moved %+v, %d tokens, %d free, %+v", after, o.moved, len(o.told), len(o.strayed), o.done)
		}
	}
}
