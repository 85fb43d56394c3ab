package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"

	"kvlens/app/stories"
	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/wasm/heads"
	"kvlens/wasm/llama"
	"kvlens/wasm/ref"
	"kvlens/wasm/sample"
	"kvlens/wasm/step"
	"kvlens/web/lab/needle"
)

// nearTie is how near to the last that stays a score may be, as a part of it, for two orders of the same sums to choose
// otherwise.
const nearTie = 1e-5

// storyTokens is about how long a story is.
const storyTokens = 160

// evicting are all recipes with one wrapper at most, under which tokens leave.
func evicting() (out []policy.Recipe) {
	for _, m := range policy.Methods() {
		for _, w := range append([]*policy.Method{{}}, policy.Methods()...) {
			r := policy.Recipe{Method: m.Name}
			if w.Name != "" {
				r.Wraps = []policy.Wrap{{Name: w.Name}}
			}
			if p, err := r.Plan(); err == nil && p.Decode.Kind != policy.DecodeStop {
				out = append(out, r)
			}
		}
	}
	return out
}

// pair is the built-in model on the reference path and on WebGPU.
type pair struct {
	*testing.T
	source *source
	tables *policy.Tables
	models [2]*llama.Model
}

func newPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{T: t}
	var err error
	p.source, err = openSource(teachManifest(t))
	p.must(err)
	t.Cleanup(func() { p.must(p.source.Close()) })
	p.tables, err = heads.For(p.source.manifest.SHA256)
	p.must(err)
	for i, open := range []func(*cache.Ledger) (step.Backend, error){
		func(led *cache.Ledger) (step.Backend, error) { return ref.New(led), nil }, newGPU,
	} {
		led := new(cache.Ledger)
		b, err := open(led)
		p.must(err)
		m, err := llama.Load(context.Background(), p.source.File, b, llama.Options{Ledger: led})
		p.must(err)
		p.models[i] = m
		t.Cleanup(func() {
			m.Close()
			p.must(b.Close())
		})
	}
	return p
}

func (p *pair) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

// story is the i-th story as a prompt.
func (p *pair) story(i int) []int32 {
	p.Helper()
	kinds := needle.Told()
	s, err := needle.NewStory(p.source.tok, stories.Spec{
		Lang: []string{"en", "zh"}[i%2], Kind: kinds[i%len(kinds)], Tokens: storyTokens, Depth: float64(i%5) / 4, Seed: uint64(i),
	})
	p.must(err)
	return s.IDs
}

// sessions begin with a prompt under a recipe at 25 %.
func (p *pair) sessions(r policy.Recipe, ids []int32, answer int) (s [2]*llama.Session) {
	p.Helper()
	for i, m := range p.models {
		o := llama.SessionOptions{Recipe: r, Tokens: len(ids) + answer, Share: 0.25, Tables: p.tables, Explain: i == 0}
		if policy.Find(r.Method).Stops { // at the cap; and what it looks up tokens by takes room too
			o.Tokens, o.Share = 2*o.Tokens, 1
		}
		var err error
		s[i], err = m.NewSession(o)
		p.must(err)
		p.must(s[i].Prefill(context.Background(), ids, nil))
	}
	return s
}

// differences counts the lists of two sessions that hold other tokens, and of them those in which every token that one of
// them lacks is as good as worth what the last that stayed is. A list of another length is none of these.
func differences(s [2]*llama.Session) (differ, near int) {
	g := s[0].Cache().Geometry()
	for l := range g.Layers {
		for h := range g.KVHeads {
			want, got := s[0].Kept(l, h), s[1].Kept(l, h)
			if slices.Equal(want, got) {
				continue
			}
			differ++
			if scores := s[0].Scores(l, h); len(want) == len(got) && scores != nil && tied(scores, want, got) {
				near++
			}
		}
	}
	return differ, near
}

// tied says that two sets of a first prompt's tokens differ in near ties alone.
func tied(scores []float32, want, got []int32) bool {
	low, high := float32(math.Inf(1)), float32(math.Inf(-1))
	for _, pos := range want {
		if !slices.Contains(got, pos) {
			low, high = min(low, scores[pos]), max(high, scores[pos])
		}
	}
	for _, pos := range got {
		if !slices.Contains(want, pos) {
			low, high = min(low, scores[pos]), max(high, scores[pos])
		}
	}
	return float64(high-low) <= nearTie*max(1, math.Abs(float64(high)))
}

// name is a recipe in short.
func name(r policy.Recipe) string {
	if len(r.Wraps) > 0 {
		return r.Wraps[0].Name + "(" + r.Method + ")"
	}
	return r.Method
}

// long skips what takes minutes.
func long(t *testing.T) {
	t.Helper()
	if os.Getenv("KVLENS_LONG") == "" || os.Getenv("KVLENS_GPU") != "1" {
		t.Skip("takes long: make recipes")
	}
}

// TestRecipesOnStories: WebGPU keeps of stories what the reference path keeps, but for near ties: of 20 under every method
// and wrapper, of two where a wrapper is around another method than SnapKV.
func TestRecipesOnStories(t *testing.T) {
	long(t)
	p := newPair(t)
	for _, r := range evicting() {
		told, lists, differ, near := 20, 0, 0, 0
		if len(r.Wraps) > 0 && r.Method != "snapkv" {
			told = 2
		}
		for i := range told {
			s := p.sessions(r, p.story(i), 16)
			d, n := differences(s)
			g := s[0].Cache().Geometry()
			lists, differ, near = lists+g.Layers*g.KVHeads, differ+d, near+n
			s[0].Close()
			s[1].Close()
		}
		line := fmt.Sprintf("%-24s %2d stories, %d lists: %d differ, %d of them in near ties", name(r), told, lists, differ, near)
		if t.Log(line); differ > near {
			t.Error(line)
		}
	}
}

// Where two backends may go different ways: a logit or an eviction that was this near to being another.
const (
	clearLogit    = 1e-3
	clearEviction = 1e-5
)

// TestRecipesInAnswers: 256 tokens under every method and wrapper are those of the reference path, until after a near tie
// of logits or of an eviction one of them is another. Many evictions are near ties that change nothing.
func TestRecipesInAnswers(t *testing.T) {
	long(t)
	const answer = 256
	p := newPair(t)
	ids := p.story(0)
	for _, r := range append(evicting(), policy.Recipe{Method: "quest", Knobs: map[string]float64{"read": 32}}) {
		if len(r.Wraps) > 0 && r.Method != "snapkv" {
			continue
		}
		s := p.sessions(r, ids, answer)
		if differ, near := differences(s); differ > near {
			t.Errorf("%s: %d lists of the prompt differ", name(r), differ)
		} else if differ == 0 {
			p.answer(name(r), s, answer)
		}
		s[0].Close()
		s[1].Close()
	}
}

// answer compares greedy answers of so many tokens.
func (p *pair) answer(recipe string, s [2]*llama.Session, n int) {
	p.Helper()
	var got []int32
	o := llama.GenerateOptions{Max: n, Sampler: sample.New(sample.Params{})}
	_, err := s[1].Generate(context.Background(), o, func(t llama.Token) error {
		got = append(got, t.ID)
		return nil
	})
	p.must(err)
	equal, tie := 0, ""
	note := func(what string, gap, clear float64) {
		if gap < clear && tie == "" {
			tie = fmt.Sprintf("; the first near tie, of %s, is a gap of %.1g at token %d", what, gap, equal)
		}
	}
	o.Sampler = sample.New(sample.Params{})
	_, err = s[0].Generate(context.Background(), o, func(t llama.Token) error {
		for _, e := range t.Evicted {
			note("an eviction", math.Abs(float64(e.Score-e.Threshold)), clearEviction)
		}
		logits := slices.Sorted(slices.Values(s[0].Logits()))
		note("logits", float64(logits[len(logits)-1]-logits[len(logits)-2]), clearLogit)
		if equal >= len(got) || got[equal] != t.ID {
			return llama.ErrStop
		}
		equal++
		return nil
	})
	p.must(err)
	lists, _ := differences(s)
	p.Logf("%-20s %d tokens are equal, and after them all lists but %d%s", recipe, equal, lists, tie)
	if tie == "" && (equal < n || lists > 0) {
		p.Errorf("%s: token %d or a list is another, without a near tie", recipe, equal)
	}
}
