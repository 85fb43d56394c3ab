package main

import (
	"context"
	"time"

	"kvlens/cache"
	"kvlens/wasm/llama"
	"kvlens/wasm/quant"
	"kvlens/wasm/sample"
)

type benchInput struct {
	modelInput
	Prompt    int     `json:"prompt" help:"tokens of the prefill"`
	Decode    int     `json:"decode" help:"tokens to decode"`
	Context   int     `json:"context" help:"decode again after that many tokens; 0 is off"`
	Bandwidth float32 `json:"bandwidth" help:"of the memory, in GB/s, to compare with; 0 is unknown"`
	Recipes   string  `json:"recipes" help:"recipes, separated by ';', whose share of a prefill of 1,024 tokens is measured too"`
}

type benchOutput struct {
	Backend string     `json:"backend"`
	Detail  string     `json:"detail"`
	Load    float64    `json:"load_seconds"`
	Prefill speed      `json:"prefill"`
	Decode  []decoding `json:"decode"`
	Recipes []costs    `json:"recipes,omitempty"`
}

// decoding is the speed of decoding after so many tokens, and of the memory that it reads: the weights and the cache,
// each once a token.
type decoding struct {
	Context int `json:"context"`
	speed
	Bytes int64   `json:"bytes_per_token"`
	Read  float64 `json:"gigabytes_per_second"`
	Share float64 `json:"share_of_bandwidth,omitempty"`
}

// speed is a rate and, on a GPU, how much work the device got and how long a piece of it took.
type speed struct {
	rate
	Dispatches float64 `json:"dispatches_per_token,omitempty"`
	Micros     float64 `json:"microseconds_per_dispatch,omitempty"`
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
	if in.Prompt < 1 || in.Decode < 1 || in.Context < 0 || in.Bandwidth < 0 {
		return nil, usageError("prompt and decode must be above 0, context and bandwidth not below")
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
	if _, _, err := e.bench(ctx, min(in.Prompt, 16), min(in.Decode, 4)); err != nil { // drivers compile what first runs
		return nil, err
	}
	weights, err := s.read()
	if err != nil {
		return nil, err
	}
	for i, n := range contexts {
		prefill, decode, err := e.bench(ctx, n, in.Decode)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			out.Prefill = prefill
		}
		d := decoding{Context: n, speed: decode, Bytes: weights + int64(n+in.Decode/2)*e.tokenBytes()}
		d.Read = float64(d.Bytes) * decode.Rate / 1e9
		if in.Bandwidth > 0 {
			d.Share = d.Read / float64(in.Bandwidth)
		}
		out.Decode = append(out.Decode, d)
	}
	if in.Recipes != "" {
		if out.Recipes, err = s.costs(ctx, &in.modelInput, in.Recipes); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// bench measures one prompt and one answer.
func (e *engine) bench(ctx context.Context, prompt, answer int) (prefill, decode speed, err error) {
	e.Reset()
	vocab := e.model.Config().Vocab
	prefill, err = e.speed(prompt, func() error { return e.Prefill(ctx, anyTokens(prompt, vocab), nil) })
	if err != nil {
		return prefill, decode, err
	}
	// The last token of an answer is not computed, so one more is asked for than counted.
	o := llama.GenerateOptions{Max: answer + 1, Sampler: sample.New(sample.Params{}), Forced: anyTokens(answer+1, vocab)}
	decode, err = e.speed(answer, func() error {
		_, err := e.Generate(ctx, o, func(llama.Token) error { return nil })
		return err
	})
	return prefill, decode, err
}

// speed measures work on so many tokens.
func (e *engine) speed(tokens int, work func() error) (s speed, err error) {
	b, counted := e.backend.(*gpuBackend)
	before := 0
	if counted {
		before = b.dev.dispatches
	}
	begin := time.Now()
	err = work()
	took := time.Since(begin)
	s.rate = newRate(tokens, took)
	if counted {
		n := b.dev.dispatches - before
		s.Dispatches = float64(n) / float64(tokens)
		s.Micros = float64(took.Microseconds()) / float64(n)
	}
	return s, err
}

// read is how many bytes of packed weights one token reads: all, but of an embedding that is not the output matrix too.
func (s *source) read() (int64, error) {
	_, size, err := llama.Check(s.File)
	if err != nil {
		return 0, err
	}
	if _, own := s.Tensor("output.weight"); own {
		t, _ := s.Tensor("token_embd.weight")
		layout, err := quant.LayoutOf(t.Type)
		if err != nil {
			return 0, err
		}
		size -= layout.Size(t.Rows, t.Cols)
	}
	return size, nil
}

// tokenBytes is what one token takes in the cache.
func (e *engine) tokenBytes() int64 {
	c, size := e.model.Config(), 2
	if e.Cache().Geometry().Key == cache.F32 {
		size = 4
	}
	return int64(2 * c.Layers * c.KVHeads * c.HeadDim * size)
}

// anyTokens are n ids of the vocabulary; the speed does not depend on which.
func anyTokens(n, vocab int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32((7 + 31*i) % vocab)
	}
	return ids
}
