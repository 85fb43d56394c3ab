package llama_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"kvlens/wasm/llama"
	"kvlens/wasm/sample"
	"kvlens/wasm/step"
)

// Forced tokens take the place of sampled ones and give the logits that they give as a prompt.
func TestForcedTokens(t *testing.T) {
	m := tiny(t)
	forced := []int32{5, 60, 33, 2}
	o := llama.SessionOptions{F32: true, Tokens: 60}
	s := session(t, m, o)
	prefill(t, s, words(20, 1))
	first := slices.Clone(s.Logits())
	var tokens []llama.Token
	reason, err := s.Generate(ctx, llama.GenerateOptions{Max: 5, Sampler: sample.New(sample.Params{}), Forced: forced}, func(tok llama.Token) error {
		tokens = append(tokens, tok)
		return nil
	})
	if err != nil || reason != llama.ReasonMax || len(tokens) != 5 {
		t.Fatalf("%v, reason %d, %d tokens", err, reason, len(tokens))
	}
	for i, tok := range tokens {
		if tok.Forced != (i < 4) || tok.Position != 20+i || i < 4 && tok.ID != forced[i] || tok.ID != tok.Choice.ID {
			t.Errorf("token %d: %+v", i, tok)
		}
	}
	if p := math.Exp(logProb(first, 5)); math.Abs(p-float64(tokens[0].Choice.Prob)) > 1e-5*p {
		t.Errorf("probability of the forced token %v, want %v", tokens[0].Choice.Prob, p)
	}
	prompt := session(t, m, o)
	prefill(t, prompt, append(words(20, 1), forced...))
	for i, x := range s.Logits() {
		if math.Abs(float64(x-prompt.Logits()[i])) > 1e-4 {
			t.Fatalf("logit %d is %v, want %v", i, x, prompt.Logits()[i])
		}
	}
	if want := generate(t, prompt, 1)[0]; tokens[4].ID != want {
		t.Errorf("after the forced tokens: %d, want %d", tokens[4].ID, want)
	}
}

// Every way to end an answer leaves the last token pending, and the next call goes on as if nothing had happened.
func TestGenerateEnds(t *testing.T) {
	m := tiny(t)
	whole := session(t, m, llama.SessionOptions{Tokens: 60})
	prefill(t, whole, words(20, 1))
	want := generate(t, whole, 12)

	stopped, cancel := context.WithCancel(ctx)
	defer cancel()
	cases := []struct {
		name   string
		ctx    context.Context
		max    int
		stop   func(int32) bool
		emit   func() error
		reason llama.Reason
		tokens int
	}{
		{"limit", ctx, 4, nil, func() error { return nil }, llama.ReasonMax, 4},
		{"no limit", ctx, 0, nil, func() error { return nil }, llama.ReasonMax, 0},
		{"stop id", ctx, 9, func(id int32) bool { return id == want[2] }, func() error { return nil }, llama.ReasonStopID, 1 + slices.Index(want, want[2])},
		{"stop text", ctx, 9, nil, func() error { return llama.ErrStop }, llama.ReasonStopped, 1},
		{"cancelled", stopped, 9, nil, func() error { cancel(); return nil }, llama.ReasonStopped, 1},
	}
	for _, c := range cases {
		s := session(t, m, llama.SessionOptions{Tokens: 60})
		prefill(t, s, words(20, 1))
		var ids []int32
		reason, err := s.Generate(c.ctx, llama.GenerateOptions{Max: c.max, Sampler: sample.New(sample.Params{}), Stop: c.stop}, func(tok llama.Token) error {
			ids = append(ids, tok.ID)
			return c.emit()
		})
		ahead := 0 // tokens that join the answer after Stop, where a backend works ahead
		if onGPU && c.ctx == stopped {
			ahead = step.InFlight - 1
		}
		if err != nil || reason != c.reason || len(ids) < c.tokens || len(ids) > c.tokens+ahead {
			t.Errorf("%s: %v, reason %d, tokens %v", c.name, err, reason, ids)
		}
		if id, ok := s.Pending(); ok != (len(ids) > 0) || ok && id != ids[len(ids)-1] {
			t.Errorf("%s: pending %d, %v", c.name, id, ok)
		}
		if s.Position() != 20+max(0, len(ids)-1) || s.Stored() != s.Position() {
			t.Errorf("%s: position %d, %d stored", c.name, s.Position(), s.Stored())
		}
		ids = append(ids, generate(t, s, 12-len(ids))...)
		if !slices.Equal(ids, want) {
			t.Errorf("%s: %v, want %v", c.name, ids, want)
		}
	}
}

// failingPicker gives no second token.
type failingPicker struct{ calls int }

func (p *failingPicker) Pick([]float32, []int32) (sample.Choice, error) {
	if p.calls++; p.calls == 2 {
		return sample.Choice{}, sample.ErrLogits
	}
	return sample.Choice{ID: 5}, nil
}

// When no second token can be chosen, the first is in the cache, once.
func TestGenerateFails(t *testing.T) {
	s := session(t, tiny(t), llama.SessionOptions{Tokens: 60})
	prefill(t, s, words(20, 1))
	reason, err := s.Generate(ctx, llama.GenerateOptions{Max: 5, Sampler: new(failingPicker)}, drop)
	if _, pending := s.Pending(); reason != llama.ReasonNone || !errors.Is(err, sample.ErrLogits) || pending || s.Position() != 21 {
		t.Errorf("reason %d, %v, position %d, pending %v", reason, err, s.Position(), pending)
	}
}

func TestBadCalls(t *testing.T) {
	m := tiny(t)
	s := session(t, m, llama.SessionOptions{Tokens: 20})
	g := func(o llama.GenerateOptions) error {
		o.Max, o.Sampler = 3, sample.New(sample.Params{})
		_, err := s.Generate(ctx, o, drop)
		return err
	}
	cases := []struct {
		name string
		err  error
		want error
	}{
		{"empty prompt", s.Prefill(ctx, nil, nil), llama.ErrEmpty},
		{"no prompt", g(llama.GenerateOptions{}), llama.ErrEmpty},
		{"id past the vocabulary", s.Prefill(ctx, []int32{1, 64}, nil), llama.ErrToken},
		{"negative id", s.Decode(ctx, -1), llama.ErrToken},
		{"call within a call", s.PrefillProbe(ctx, []int32{1}, func(*llama.At) error { return s.Decode(ctx, 1) }), llama.ErrBusy},
		{"then it works", s.Prefill(ctx, []int32{1, 2}, nil), nil},
		{"forced id past the vocabulary", g(llama.GenerateOptions{Forced: []int32{64}}), llama.ErrToken},
	}
	for _, c := range cases {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: got %v", c.name, c.err)
		}
	}
	if s.Logits() == nil || s.Position() != 2 {
		t.Errorf("position %d", s.Position())
	}
	s.Reset()
	if s.Logits() != nil {
		t.Error("logits after a reset")
	}
}

// Score's logits are those that decoding token by token gives.
func TestScore(t *testing.T) {
	m := tiny(t)
	ids := words(30, 3)
	o := llama.SessionOptions{F32: true, Tokens: 40}
	one := session(t, m, o)
	var want [][]float32
	for _, id := range ids {
		if err := one.Decode(ctx, id); err != nil {
			t.Fatal(err)
		}
		want = append(want, slices.Clone(one.Logits()))
	}
	s := session(t, m, o)
	prefill(t, s, ids[:9])
	_, err := s.Generate(ctx, llama.GenerateOptions{Max: 1, Sampler: sample.New(sample.Params{}), Forced: ids[9:10]}, drop)
	if err != nil {
		t.Fatal(err)
	}
	rows := 10 // the tenth is pending, so that it belongs to no row of the call
	err = s.Score(ctx, ids[10:], func(i int, logits []float32) error {
		for k, x := range logits {
			if math.Abs(float64(x-want[10+i][k])) > 1e-4 {
				t.Fatalf("row %d, logit %d: %v, want %v", i, k, x, want[10+i][k])
			}
		}
		rows++
		return nil
	})
	if err != nil || rows != len(ids) {
		t.Errorf("%v, %d rows", err, rows)
	}
	for k, x := range s.Logits() {
		if math.Abs(float64(x-want[29][k])) > 1e-4 {
			t.Fatalf("last row, logit %d: %v", k, x)
		}
	}
}
