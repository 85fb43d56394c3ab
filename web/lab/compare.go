package main

import (
	"context"
	"errors"
	"fmt"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/wasm/chat"
	"kvlens/wasm/heads"
	"kvlens/wasm/llama"
)

type compareInput struct {
	modelInput
	promptInput
	A      string   `json:"a" help:"recipe of run A, as 'snapkv window=8 + adakv'; the default is full"`
	B      string   `json:"b" help:"recipe of run B"`
	CapA   capacity `json:"cap_a" help:"the cap of run A instead of -cap"`
	CapB   capacity `json:"cap_b" help:"the cap of run B instead of -cap"`
	Parity bool     `json:"parity" help:"published triggers, and growth while decoding, instead of a cap that always holds"`
	Tables string   `json:"tables" help:"a file of head tables instead of those that come with the program"`
	Max    int      `json:"max" help:"most tokens of each answer"`
	Later  bool     `json:"later" help:"read and compress the story before the question is there"`
	Gold   string   `json:"gold" help:"a right answer as it follows the prompt: ' a sandwich'"`
	Other  string   `json:"other" help:"a wrong one, to take the margin to"`
}

type compareOutput struct {
	Prompt int              `json:"prompt"` // tokens
	Text   string           `json:"text"`   // the full cache's answer
	Reason string           `json:"reason"` // why that ended
	Full   int64            `json:"full"`   // bytes that the full cache takes
	Tokens []comparedOutput `json:"tokens"`
	Runs   [2]contrastOut   `json:"runs"`             // A and B
	Margin []float64        `json:"margin,omitempty"` // gold less other, log-probability: full, A, B
}

// comparedOutput is a token of the full cache's answer. Lists of three are of full, A and B, lists of two of A and B.
type comparedOutput struct {
	ID    int32         `json:"id"`
	Text  string        `json:"text"`
	Prob  [3]float64    `json:"prob"`
	KL    [2]float64    `json:"kl"` // KL(full‖run) in nats
	Agree [2]bool       `json:"agree"`
	Top   [2]tokenShare `json:"top"` // what the run finds likeliest
}

type contrastOut struct {
	Recipe   policy.Recipe `json:"recipe"`
	Text     string        `json:"text"` // its own answer
	IDs      []int32       `json:"ids"`
	Diverged int           `json:"diverged"` // index of the first token that differs; -1 if none does
	MeanKL   float64       `json:"mean_kl"`
	MaxKL    float64       `json:"max_kl"`
	Agree    float64       `json:"agree"` // share of the full cache's tokens
	Cap      int64         `json:"cap"`
	Peak     int64         `json:"peak"`
	Budget   int           `json:"budget"`
	Rate     float64       `json:"tokens_per_second"` // forced
	Retained [][]float64   `json:"retained"`          // share of the last query's attention, [layers][n_heads]
}

// compare compares two settings with the full cache.
func compare(ctx context.Context, in *compareInput) (any, error) {
	if in.Max < 1 {
		return nil, usageError("max: %d tokens", in.Max)
	}
	s, err := openSource(in.File)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	o := llama.CompareOptions{Max: in.Max}
	if o.Parts, err = s.parts(&in.promptInput, in.Later); err != nil {
		return nil, err
	}
	if in.Gold+in.Other != "" {
		if s.tokErr != nil {
			return nil, s.tokErr
		}
		o.Gold, o.Other = s.tok.Encode(in.Gold), s.tok.Encode(in.Other)
	}
	var out compareOutput
	for i, text := range []string{in.A, in.B} {
		if o.Runs[i], err = in.run(s, text, []capacity{in.CapA, in.CapB}[i]); err != nil {
			return nil, err
		}
		out.Runs[i].Recipe = o.Runs[i].Recipe
	}
	led := new(cache.Ledger)
	b, err := openBackend(in.Backend, led)
	if err != nil {
		return nil, err
	}
	m, err := llama.Load(ctx, s.File, b, llama.Options{Ledger: led})
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	defer func() {
		m.Close()
		_ = b.Close() // there is nothing left that could fail to be written
	}()
	if s.tok != nil {
		o.Stop = s.tok.EOG
	}
	for _, ids := range o.Parts {
		out.Prompt += len(ids)
	}
	return out.of(ctx, m, s, o)
}

// of runs the comparison.
func (out *compareOutput) of(ctx context.Context, m *llama.Model, s *source, o llama.CompareOptions) (any, error) {
	say := [3]*answer{}
	for i := range say {
		say[i] = &answer{s: s, stop: s.stops()}
		if s.tok != nil {
			say[i].decoder = s.tok.NewDecoder()
		}
	}
	c, err := m.Compare(ctx, o, llama.CompareEvents{
		Read: func(run int, ses *llama.Session) { out.Runs[run].Budget = ses.Budget().Tokens },
		Forced: func(c llama.Compared) error {
			t := comparedOutput{ID: c.ID, Prob: c.Prob, KL: c.KL}
			for i, x := range c.Choices[1:] {
				t.Agree[i] = x.ID == c.ID
				t.Top[i] = tokenShare{x.ID, s.text(x.ID), x.Prob}
			}
			if c.Margin != nil {
				out.Margin = c.Margin
			}
			err := say[0].add(llama.Token{ID: c.ID, Position: c.Position, Choice: c.Choices[0]})
			t.Text = say[0].tokens[len(say[0].tokens)-1].Text
			out.Tokens = append(out.Tokens, t)
			return err
		},
		Free: func(run int, t llama.Token, _ bool) error { return say[run+1].add(t) },
	})
	if err != nil {
		return nil, err
	}
	out.Text, out.Reason, out.Full = say[0].text, reasons[c.Reason], c.Full
	if say[0].stopped {
		out.Reason = "stop text"
	}
	for i, r := range c.Runs {
		x := &out.Runs[i]
		x.Text, x.IDs = say[i+1].text, say[i+1].ids
		x.Diverged, x.MeanKL, x.MaxKL, x.Agree = r.Diverged, r.MeanKL, r.MaxKL, float64(r.Agree)/float64(len(c.IDs))
		x.Cap, x.Peak, x.Rate, x.Retained = r.Cap, r.Peak, r.Rate, r.Retained
	}
	return out, nil
}

// run makes the options of one run.
func (in *compareInput) run(s *source, recipe string, limit capacity) (o llama.SessionOptions, err error) {
	if limit == (capacity{}) {
		limit = in.Cap
	}
	o = llama.SessionOptions{Cap: limit.bytes, Share: limit.share, F32: in.F32, Parity: in.Parity}
	o.Recipe.Method = "full"
	if recipe == "" {
		return o, nil
	}
	if o.Recipe, err = parseRecipe(recipe); err != nil {
		return o, err
	}
	o.Tables, err = s.tables(in.Tables)
	if errors.Is(err, heads.ErrUnknown) {
		return o, nil // a recipe that needs them says so
	}
	return o, err
}

// parts gives the prompt in the parts in which it is read.
func (s *source) parts(p *promptInput, later bool) ([][]int32, error) {
	ids, err := s.prompt(p)
	if err != nil || !later {
		return [][]int32{ids}, err
	}
	if p.Story == "" {
		return nil, usageError("later is for a story and its question")
	}
	c, err := chat.NewStory(s.tok, s.manifest.Prompt.Templates)
	if err != nil {
		return nil, fmt.Errorf("later: %w", err)
	}
	story, question := c.Parts(p.Story, p.Question)
	return [][]int32{story, question}, nil
}
