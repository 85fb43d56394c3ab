package choose

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"kvlens/cache"
	"kvlens/wasm/llama"
	"kvlens/wasm/quant"
	"kvlens/wasm/ref"
	"kvlens/wasm/sample"
	"kvlens/wasm/step"
	"kvlens/wasm/weights"
)

// The prompt is longer than a tile of the kernels, so that rows are left over.
const prompt, answered = 11, 4

// Sums of some hundred products of numbers near 1, in float32 and in another order.
const tolerance = 2e-4

// WrongError is a backend whose numbers are not those of the reference path.
type WrongError struct {
	Types []quant.Type
	What  string
}

func (e *WrongError) Error() string {
	return fmt.Sprintf("choose: self-test with weights of %v: %s", e.Types, e.What)
}

// SelfTest runs small random models on a backend and on the reference path: one with the weights of each type, and one
// that mixes them. Each reads a prompt, gets a token, and answers, on pages of both formats. Whatever differs is a
// *WrongError; other errors are the backend's.
func SelfTest(ctx context.Context, b step.Backend, types []quant.Type) error {
	cases := make([][]quant.Type, 0, len(types)+1)
	for _, t := range types {
		cases = append(cases, []quant.Type{t})
	}
	if len(types) > 1 {
		cases = append(cases, types)
	}
	for _, c := range cases {
		want, err := try(ctx, ref.New(new(cache.Ledger)), c)
		if err != nil {
			return err
		}
		got, err := try(ctx, b, c)
		if errors.Is(err, sample.ErrLogits) {
			return &WrongError{c, err.Error()}
		}
		if err != nil {
			return err
		}
		if what := got.differs(want); what != "" {
			return &WrongError{c, what}
		}
	}
	return nil
}

// outcome is what a model gave: rows of logits, and the tokens of its answer with their shares.
type outcome struct {
	logits [][]float32
	answer []llama.Token
}

func try(ctx context.Context, b step.Backend, types []quant.Type) (o *outcome, err error) {
	file := model(types)
	f, err := weights.Open(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		return nil, err
	}
	led := new(cache.Ledger)
	m, err := llama.Load(ctx, f, b, llama.Options{Ledger: led})
	if err != nil {
		return nil, err
	}
	defer m.Close()
	o = new(outcome)
	for _, f32 := range []bool{false, true} {
		s, err := m.NewSession(llama.SessionOptions{F32: f32})
		if err != nil {
			return nil, err
		}
		err = o.run(ctx, s)
		s.Close()
		if err != nil {
			return nil, err
		}
	}
	return o, nil
}

// run reads a prompt with the logits of all its tokens, adds one token, and answers.
func (o *outcome) run(ctx context.Context, s *llama.Session) error {
	ids := make([]int32, prompt)
	for i := range ids {
		ids[i] = int32((7 + 31*i) % vocab)
	}
	err := s.Score(ctx, ids, func(_ int, row []float32) error {
		o.logits = append(o.logits, slices.Clone(row))
		return nil
	})
	if err != nil {
		return err
	}
	if err := s.Decode(ctx, 5); err != nil {
		return err
	}
	o.logits = append(o.logits, slices.Clone(s.Logits()))
	// Forced tokens, so that a near tie does not part the two.
	_, err = s.Generate(ctx, llama.GenerateOptions{Max: answered, Sampler: sample.New(sample.Params{}), Forced: ids[:answered-1]},
		func(t llama.Token) error {
			o.answer = append(o.answer, t)
			return nil
		})
	return err
}

// differs says where two outcomes differ, or "".
func (o *outcome) differs(want *outcome) string {
	if len(o.logits) != len(want.logits) || len(o.answer) != len(want.answer) {
		return fmt.Sprintf("%d and %d rows, want %d and %d", len(o.logits), len(o.answer), len(want.logits), len(want.answer))
	}
	for i, row := range want.logits {
		for j, w := range row {
			if far(o.logits[i][j], w) {
				return fmt.Sprintf("row %d, logit %d: %g, want %g", i, j, o.logits[i][j], w)
			}
		}
	}
	for i, w := range want.answer {
		g := o.answer[i]
		if far(g.Choice.TopProbs[0], w.Choice.TopProbs[0]) || far(g.Choice.Prob, w.Choice.Prob) || g.Forced != w.Forced {
			return fmt.Sprintf("token %d: %+v, want %+v", i, g.Choice, w.Choice)
		}
	}
	return ""
}

// far is written so that a NaN is far.
func far(got, want float32) bool { return !(math.Abs(float64(got-want)) <= tolerance) }
