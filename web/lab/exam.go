package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"kvlens/app/stories"
	"kvlens/wasm/chat"
	"kvlens/wasm/llama"
	"kvlens/wasm/sample"
	"kvlens/wasm/step"
)

type examInput struct {
	modelInput
	Langs   string `json:"langs" help:"languages: en,zh (default)"`
	Kinds   string `json:"kinds" help:"kinds of questions, as meal/back,code/two-step; all by default, in turn"`
	Lengths string `json:"lengths" help:"tokens of the prompt: 128,512 (default 256)"`
	Depths  string `json:"depths" help:"where the needle stands: 0,0.5,1 (default)"`
	Split   int    `json:"split" help:"0 known words and wordings, 1 words, 2 wordings that training held back"`
	N       int    `json:"n" help:"questions for each cell"`
	Seed    uint64 `json:"seed" help:"of the stories"`
	Heads   bool   `json:"heads" help:"measure where the heads look when the answer is due"`
	Wrong   bool   `json:"wrong" help:"list the wrong answers"`
	Lesson  bool   `json:"lesson" help:"ask the lessons' 90 questions about Xiao Ming's meals instead"`
}

type examOutput struct {
	Cells []examCell         `json:"cells"`
	Kinds map[string]float64 `json:"kinds"` // share right over all cells
	Right float64            `json:"right"`
	N     int                `json:"n"`
	Heads []examHead         `json:"heads,omitempty"`
	Wrong []examWrong        `json:"wrong,omitempty"`
}

type examCell struct {
	Lang  string  `json:"lang"`
	Words int     `json:"length"`
	Depth float64 `json:"depth"`
	Right float64 `json:"right"`
	N     int     `json:"n"`
}

type examHead struct {
	Layer int     `json:"layer"`
	Head  int     `json:"head"`
	Value float64 `json:"value"`    // mean mass on the answer, where the story tells it
	Tell  float64 `json:"sentence"` // on its sentence
	First float64 `json:"first"`    // on the first token
	Last8 float64 `json:"last8"`    // on the last eight tokens
}

type examWrong struct {
	Kind     string `json:"kind"`
	Question string `json:"question"`
	Want     string `json:"want"`
	Got      string `json:"got"`
}

// exam asks a model about generated stories and compares its greedy answers with the right ones.
func exam(ctx context.Context, in *examInput) (any, error) {
	kinds, lengths, depths, err := in.plan()
	if err != nil {
		return nil, err
	}
	s, err := openSource(in.File)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if s.tokErr != nil {
		return nil, s.tokErr
	}
	e, err := s.start(ctx, &in.modelInput, slices.Max(lengths)+32)
	if err != nil {
		return nil, err
	}
	defer e.close()
	x := examiner{s: s, e: e, in: in, asked: map[string]int{}}
	out := examOutput{Kinds: map[string]float64{}}
	count := func(text string) int { return len(s.tok.Encode(text)) }
	for _, lang := range strings.Split(in.Langs, ",") {
		if in.Lesson {
			if err := x.cell(ctx, &out, examCell{Lang: lang}, stories.XiaoMing(lang)); err != nil {
				return nil, err
			}
			continue
		}
		for _, length := range lengths {
			for _, depth := range depths {
				asked := make([]stories.Needle, in.N)
				for i := range asked {
					asked[i], err = stories.NewNeedle(stories.Spec{
						Lang: lang, Kind: kinds[i%len(kinds)], Tokens: length, Depth: depth, Split: stories.Split(in.Split),
						Seed: in.Seed<<32 | uint64(len(out.Cells)<<16|i), Count: count,
					})
					if err != nil {
						return nil, errors.Join(errUsage, err)
					}
				}
				if err := x.cell(ctx, &out, examCell{Lang: lang, Words: length, Depth: depth}, asked); err != nil {
					return nil, err
				}
			}
		}
	}
	out.Right /= float64(max(1, out.N))
	for k, n := range x.asked {
		out.Kinds[k] /= float64(n)
	}
	for i := range x.heads {
		h := x.heads[i]
		if x.told > 0 {
			h.Value, h.Tell, h.First, h.Last8 = h.Value/x.told, h.Tell/x.told, h.First/x.told, h.Last8/x.told
		}
		out.Heads = append(out.Heads, h)
	}
	return out, nil
}

// plan reads the lists of the settings.
func (in *examInput) plan() (kinds []stories.Kind, lengths []int, depths []float64, err error) {
	if in.N < 1 || in.Split < 0 {
		return nil, nil, nil, usageError("n is at least 1 and split at least 0")
	}
	kinds = stories.Kinds()
	if in.Kinds != "" {
		kinds = nil
		for _, name := range strings.Split(in.Kinds, ",") {
			k, err := stories.ParseKind(name)
			if err != nil {
				return nil, nil, nil, errors.Join(errUsage, err)
			}
			kinds = append(kinds, k)
		}
	}
	for _, t := range strings.Split(in.Lengths, ",") {
		n, err := strconv.Atoi(t)
		if err != nil {
			return nil, nil, nil, usageError("lengths: %v", err)
		}
		lengths = append(lengths, n)
	}
	for _, t := range strings.Split(in.Depths, ",") {
		d, err := strconv.ParseFloat(t, 64)
		if err != nil {
			return nil, nil, nil, usageError("depths: %v", err)
		}
		depths = append(depths, d)
	}
	return kinds, lengths, depths, nil
}

// examiner asks questions, each in an empty session, and watches the heads where that is wanted.
type examiner struct {
	s     *source
	e     *engine
	in    *examInput
	asked map[string]int // questions of each kind
	heads []examHead     // sums
	told  float64        // stories that count in them
}

// cell asks the questions of a cell and adds it to the output.
func (x *examiner) cell(ctx context.Context, out *examOutput, c examCell, questions []stories.Needle) error {
	for _, n := range questions {
		got, err := x.ask(ctx, n)
		if err != nil {
			return err
		}
		kind := n.Kind.String()
		x.asked[kind]++
		c.N++
		switch {
		case got == n.Answer:
			c.Right++
			out.Kinds[kind]++
		case x.in.Wrong:
			out.Wrong = append(out.Wrong, examWrong{kind, n.Question, n.Answer, got})
		}
	}
	out.N += c.N
	out.Right += c.Right
	c.Right /= float64(max(1, c.N))
	out.Cells = append(out.Cells, c)
	return nil
}

func (x *examiner) ask(ctx context.Context, n stories.Needle) (string, error) {
	x.e.Reset()
	ids := chat.Raw(x.s.tok, n.Prompt())
	var err error
	if x.in.Heads && n.Value.To > 0 {
		err = x.look(ctx, n, ids)
	} else {
		err = x.e.Prefill(ctx, ids, nil)
	}
	if err != nil {
		return "", fmt.Errorf("prefill of %d tokens: %w", len(ids), err)
	}
	a := answer{s: x.s, decoder: x.s.tok.NewDecoder(), stop: []string{".", "。", "\n"}}
	_, err = x.e.Generate(ctx, llama.GenerateOptions{Max: 16, Sampler: sample.New(sample.Params{}), Stop: x.s.tok.EOG}, a.add)
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(strings.TrimRight(a.text, ".。\n")), nil
}

// look prefills a prompt and adds up where each head looks from its last token, from which the first token of the answer is
// told.
func (x *examiner) look(ctx context.Context, n stories.Needle, ids []int32) error {
	if err := x.e.Prefill(ctx, ids[:len(ids)-1], nil); err != nil {
		return err
	}
	span := func(s stories.Span) (from, to int) { // its tokens
		return len(chat.Raw(x.s.tok, strings.TrimSuffix(n.Text[:s.From], " "))), len(chat.Raw(x.s.tok, n.Text[:s.To]))
	}
	valueFrom, valueTo := span(n.Value)
	tellFrom, tellTo := span(n.Sentence)
	heads := x.e.model.Config().Heads
	x.told++
	return x.e.DecodeProbe(ctx, ids[len(ids)-1], func(at *llama.At) error {
		if _, ok := at.Op.(step.Attend); !ok {
			return nil
		}
		rows, err := at.Attention(0)
		if err != nil {
			return err
		}
		for h, row := range rows {
			i := at.Layer*heads + h
			for len(x.heads) <= i {
				x.heads = append(x.heads, examHead{Layer: len(x.heads) / heads, Head: len(x.heads) % heads})
			}
			head := &x.heads[i]
			for p, mass := range row {
				m := float64(mass)
				if p >= valueFrom && p < valueTo {
					head.Value += m
				}
				if p >= tellFrom && p < tellTo {
					head.Tell += m
				}
				if p == 0 {
					head.First += m
				}
				if p >= len(row)-8 {
					head.Last8 += m
				}
			}
		}
		return nil
	})
}
