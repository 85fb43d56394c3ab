package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"kvlens/cache"
	"kvlens/wasm/llama"
	"kvlens/wasm/sample"
	"kvlens/wasm/tokenizer"
)

type generateInput struct {
	modelInput
	promptInput
	recipeInput
	Max         int     `json:"max" help:"most tokens to generate"`
	Temperature float32 `json:"temperature" help:"0 is greedy (default)"`
	TopK        int     `json:"top_k" help:"keep that many of the likeliest tokens; 0 is off"`
	TopP        float32 `json:"top_p" help:"keep the likeliest tokens with that share; 0 is off"`
	MinP        float32 `json:"min_p" help:"keep tokens that likely, relative to the likeliest; 0 is off"`
	Repeat      float32 `json:"repeat" help:"repetition penalty; 0 and 1 are off"`
	Seed        uint64  `json:"seed" help:"of the random choices"`
	Forced      []int32 `json:"forced" help:"token ids that replace the first generated ones"`
}

type generateOutput struct {
	Prompt   []int32       `json:"prompt"`
	IDs      []int32       `json:"ids"`
	Text     string        `json:"text"`
	Reason   string        `json:"reason"`
	Tokens   []tokenOutput `json:"tokens"`
	Stored   int           `json:"stored"`
	Room     int           `json:"room"`
	Cap      int64         `json:"cap"`
	Prefill  rate          `json:"prefill"`
	Decode   rate          `json:"decode"`
	Sentence string        `json:"full,omitempty"` // why the cache was full
	Recipe   *recipeOutput `json:"recipe,omitempty"`
}

type tokenOutput struct {
	ID       int32        `json:"id"`
	Text     string       `json:"text"` // that became final with the token
	Position int          `json:"position"`
	Forced   bool         `json:"forced,omitempty"`
	Prob     float32      `json:"prob"`
	Millis   float64      `json:"ms"`
	Top      []tokenShare `json:"top"`
	Evicted  [][3]int     `json:"evicted,omitempty"` // layer, KV head and position of what left for the token before it
}

type tokenShare struct {
	ID   int32   `json:"id"`
	Text string  `json:"text"`
	Prob float32 `json:"prob"`
}

var reasons = map[llama.Reason]string{
	llama.ReasonStopID: "stop id", llama.ReasonMax: "max", llama.ReasonStopped: "stopped", llama.ReasonFull: "full",
}

func generate(ctx context.Context, in *generateInput) (any, error) {
	params := sample.Params{
		Temperature: in.Temperature, TopK: in.TopK, TopP: in.TopP, MinP: in.MinP, Repeat: in.Repeat, Seed: in.Seed,
	}
	if err := params.Validate(); err != nil {
		return nil, errors.Join(errUsage, err)
	}
	if in.Max < 0 {
		return nil, fmt.Errorf("%w: max: %d tokens", errUsage, in.Max)
	}
	s, err := openSource(in.File)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	ids, err := s.prompt(&in.promptInput)
	if err != nil {
		return nil, err
	}
	options, err := in.options(s, len(ids)+in.Max)
	if err != nil {
		return nil, err
	}
	e, err := s.session(ctx, &in.modelInput, options)
	if err != nil {
		return nil, err
	}
	defer e.close()
	begin := time.Now()
	if err := e.Prefill(ctx, ids, nil); err != nil {
		return nil, err
	}
	kept := in.output(e)
	prefilled := time.Now()
	a := answer{s: s, stop: s.stops()}
	var ends func(int32) bool
	if s.tok != nil {
		a.decoder, ends = s.tok.NewDecoder(), s.tok.EOG
	}
	reason, err := e.Generate(ctx, llama.GenerateOptions{
		Max: in.Max, Sampler: sample.New(params), Stop: ends, Forced: in.Forced,
	}, a.add)
	var full *cache.FullError
	if err != nil && !errors.As(err, &full) {
		return nil, err
	}
	out := generateOutput{
		Prompt: ids, IDs: a.ids, Text: a.text, Reason: reasons[reason], Tokens: a.tokens,
		Stored: e.Stored(), Room: e.Room(), Cap: e.Cap(),
		Prefill: newRate(len(ids), prefilled.Sub(begin)),
		Decode:  newRate(e.Position()-len(ids), time.Since(prefilled)),
		Recipe:  kept,
	}
	if a.stopped {
		out.Reason = "stop text"
	}
	if full != nil {
		out.Sentence = full.Error()
	}
	return out, nil
}

// stops are the stop texts of the manifest.
func (s *source) stops() []string {
	if s.manifest == nil {
		return nil
	}
	return s.manifest.Stop
}

// answer collects tokens until a stop text appears; what came after it is discarded.
type answer struct {
	s       *source
	decoder *tokenizer.Decoder // nil without a tokenizer
	stop    []string
	ids     []int32
	text    string
	tokens  []tokenOutput
	stopped bool
}

func (a *answer) add(t llama.Token) error {
	text := ""
	if a.decoder != nil && !a.s.tok.EOG(t.ID) {
		text = a.decoder.Push(t.ID)
	}
	a.ids = append(a.ids, t.ID)
	out := tokenOutput{ID: t.ID, Text: text, Position: t.Position, Forced: t.Forced, Prob: t.Choice.Prob, Millis: t.Millis}
	for i, id := range t.Choice.TopIDs {
		if id >= 0 {
			out.Top = append(out.Top, tokenShare{id, a.s.text(id), t.Choice.TopProbs[i]})
		}
	}
	for _, l := range t.Evicted {
		out.Evicted = append(out.Evicted, [3]int{l.Layer, l.KVHead, l.Position})
	}
	a.tokens = append(a.tokens, out)
	from := len(a.text)
	a.text += text
	if end := stopEnd(a.text, from, a.stop); end >= 0 {
		a.text, a.stopped = a.text[:end], true
		return llama.ErrStop
	}
	return nil
}

// stopEnd is where text ends with the first stop text in it, −1 without one. Only an occurrence that reaches past from
// is new.
func stopEnd(text string, from int, stops []string) int {
	end := -1
	for _, stop := range stops {
		start := max(0, from-len(stop)+1)
		if at := strings.Index(text[start:], stop); stop != "" && at >= 0 && (end < 0 || start+at+len(stop) < end) {
			end = start + at + len(stop)
		}
	}
	return end
}
