package main

import (
	"context"
	"time"
)

type benchInput struct {
	modelInput
	Prompt  int `json:"prompt" help:"tokens of the prefill"`
	Decode  int `json:"decode" help:"tokens to decode"`
	Context int `json:"context" help:"decode again after that many tokens; 0 is off"`
}

type benchOutput struct {
	Backend string     `json:"backend"`
	Detail  string     `json:"detail"`
	Load    float64    `json:"load_seconds"`
	Prefill rate       `json:"prefill"`
	Decode  []decoding `json:"decode"`
}

// decoding is the speed of decoding after so many tokens.
type decoding struct {
	Context int `json:"context"`
	rate
}

// rate is a speed.
type rate struct {
	Tokens  int     `json:"tokens"`
	Seconds float64 `json:"seconds"`
	Rate    float64 `json:"tokens_per_second"`
}

func newRate(tokens int, d time.Duration) rate {
	r := rate{Tokens: tokens, Seconds: d.Seconds()}
	if d > 0 {
		r.Rate = float64(tokens) / d.Seconds()
	}
	return r
}

func bench(ctx context.Context, in *benchInput) (any, error) {
	if in.Prompt < 1 || in.Decode < 1 || in.Context < 0 {
		return nil, usageError("prompt and decode must be above 0, context not below")
	}
	s, err := openSource(in.File)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	begin := time.Now()
	e, err := s.start(ctx, &in.modelInput, max(in.Prompt, in.Context)+in.Decode)
	if err != nil {
		return nil, err
	}
	defer e.close()
	out := benchOutput{Backend: e.info.Name, Detail: e.info.Detail, Load: time.Since(begin).Seconds()}
	contexts := []int{in.Prompt}
	if in.Context > 0 {
		contexts = append(contexts, in.Context)
	}
	for i, n := range contexts {
		e.Reset()
		begin := time.Now()
		if err := e.Prefill(ctx, anyTokens(n, e.model.Config().Vocab), nil); err != nil {
			return nil, err
		}
		if i == 0 {
			out.Prefill = newRate(n, time.Since(begin))
		}
		begin = time.Now()
		for _, id := range anyTokens(in.Decode, e.model.Config().Vocab) {
			if err := e.Decode(ctx, id); err != nil {
				return nil, err
			}
		}
		out.Decode = append(out.Decode, decoding{n, newRate(in.Decode, time.Since(begin))})
	}
	return out, nil
}

// anyTokens are n ids of the vocabulary; the speed does not depend on which.
func anyTokens(n, vocab int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32((7 + 31*i) % vocab)
	}
	return ids
}
