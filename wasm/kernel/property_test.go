package kernel_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/cache/policy/stage"
	"kvlens/wasm/gpu/gputest"
	"kvlens/wasm/kernel"
	"kvlens/wasm/quant"
	"kvlens/wasm/ref/reftest"
	"kvlens/wasm/step"
)

// talk is a conversation under a plan whose tokens the device chooses.
type talk struct {
	*testing.T
	what   string
	model  *reftest.Model
	b      *kernel.Backend
	exec   step.Exec
	device step.Keeper
	plan   *policy.Plan
	run    *policy.Run
	cache  *cache.Cache
	arena  step.Buffer
	rng    *rand.Rand
	pos    int
	pins   []int32
	ids    int                           // that come; the others of the vocabulary do not
	look   func(a *step.Args, layer int) // at a decoded token's attention; may be nil
}

// must fails the test with the recipe's name.
func (c *talk) must(errs ...error) {
	c.Helper()
	if err := errors.Join(errs...); err != nil {
		c.Fatalf("%s: %v", c.what, err)
	}
}

// newTalk opens a conversation; every random number of it follows from the seed.
func newTalk(t *testing.T, what string, lib *kernel.Library, m *reftest.Model, p *policy.Plan, tokens, prompt int, seed uint64) *talk {
	t.Helper()
	led := new(cache.Ledger)
	c := &talk{T: t, what: what, model: m, b: lib.Backend(led), plan: p, rng: rand.New(rand.NewPCG(seed, 7)), ids: m.Shape.Vocab}
	c.exec = reftest.Load(t, c.b, m)
	c.device = c.exec.(step.Keeper)
	s := &m.Shape
	geo := cache.Geometry{
		Layers: s.Layers, KVHeads: s.KVHeads, HeadDim: s.HeadDim, Key: cache.F16, Value: cache.F16, PageK: 2, PageV: 2,
		Scores: p.Decode.Kind == policy.DecodeSums || p.Decode.Kind == policy.DecodeCap, Sums: p.Store.Virtual, Bound: p.Store.Page,
	}
	size := geo.FullBytes(128)
	var err error
	c.cache, err = cache.New(geo, size, led)
	c.must(err)
	c.arena, err = c.b.Alloc(cache.Free, "arena", size)
	tables := c.tables()
	reserve := 1
	if !p.PerStep() {
		reserve = min(16, max(1, tokens/8))
	}
	run, wrong := policy.NewRun(p, policy.Shape{Layers: s.Layers, Heads: s.Heads, KVHeads: s.KVHeads, HeadDim: s.HeadDim},
		policy.Budget{Tokens: tokens, Reserve: reserve, Prompt: prompt}, tables)
	c.run = run
	c.must(err, wrong, c.device.Follow(p, tables))
	return c
}

func (c *talk) close() {
	c.Helper()
	c.must(c.b.Close())
	c.cache.Close()
}

// tables are head tables at random.
func (c *talk) tables() *policy.Tables {
	rows := func() (out [][]float32) {
		for range c.model.Shape.Layers {
			row := make([]float32, c.model.Shape.Heads)
			for i := range row {
				row[i] = c.rng.Float32()
			}
			out = append(out, row)
		}
		return out
	}
	errs := make([]float32, c.model.Shape.Layers)
	for i := range errs {
		errs[i] = 1 / float32(len(errs))
	}
	return &policy.Tables{Retrieval: rows(), Semantic: rows(), Induction: rows(), Echo: rows(), Sink: rows(), Local: rows(), Errors: errs}
}

// held are the positions that a list holds, ascending.
func (c *talk) held(layer, h int) (pos []int32) {
	l := c.cache.List(layer, h)
	for _, slot := range l.Order() {
		pos = append(pos, int32(l.At[slot]))
	}
	return pos
}

// all are those of all lists.
func (c *talk) all() (out [][]int32) {
	for i := range c.model.Shape.Layers * c.model.Shape.KVHeads {
		out = append(out, c.held(i/c.model.Shape.KVHeads, i%c.model.Shape.KVHeads))
	}
	return out
}

// sinks counts those of a list's candidates: what it holds, and n tokens more.
func (c *talk) sinks(layer, h, n int) int {
	count := max(0, min(c.run.Sinks()-c.pos, n))
	for _, pos := range c.held(layer, h) {
		if int(pos) < c.run.Sinks() {
			count++
		}
	}
	return count
}

func (c *talk) args(n int) *step.Args {
	a := &step.Args{Cache: c.cache, Arena: c.arena, Pos: c.pos, To: n}
	for range n {
		a.IDs = append(a.IDs, int32(c.rng.IntN(c.ids)))
	}
	return a
}

// ops runs operations of one layer over all rows of a, chunk by chunk, and then does something.
func (c *talk) ops(a *step.Args, from, to int, then func() error) {
	c.Helper()
	n := len(a.IDs)
	for a.From = 0; a.From < n; a.From = a.To {
		a.To = min(n, a.From+c.model.Program.Chunk)
		c.must(c.exec.Run(context.Background(), a, from, to), then())
	}
	a.From, a.To = 0, n
}

// prompt reads n tokens side by side.
func (c *talk) prompt(n int) {
	c.Helper()
	s, a, nothing := &c.model.Shape, c.args(n), func() error { return nil }
	before := c.all()
	sizes := make([]*policy.Sizes, s.Layers)
	for l := range sizes {
		sizes[l] = &policy.Sizes{}
		for h := range s.KVHeads {
			sizes[l].Candidates = append(sizes[l].Candidates, len(c.held(l, h))+n)
			sizes[l].Sinks = append(sizes[l].Sinks, c.sinks(l, h, n))
		}
	}
	c.run.Prompt(n)
	loan := &step.Loan{Rows: n, Most: min(c.run.Most(), c.cache.Tokens()+n), Pins: c.pins}
	if c.plan.Score.Kind == policy.ScoreExpected {
		rope := func(pos int) []float32 { return c.model.Rope[pos*s.RotDim:][:s.RotDim] }
		loan.Turn = stage.MeanRotation(rope, s.Neox, c.pos+n, c.plan.Score.Future).CosSin
	}
	c.must(c.exec.Grow(n, 1), c.device.Lend(a, loan))
	c.ops(a, 0, 1, nothing)
	for l := range s.Layers {
		at := 1 + 6*l // QKV, Attend, Store, Project, GateUp, Project
		c.ops(a, at, at+2, func() error {
			err := c.device.Observe(a, l)
			if err == nil {
				err = c.exec.Run(context.Background(), a, at+3, at+6)
			}
			return err
		})
		c.must(c.device.Weigh(a, l))
		quotas, err := c.run.Quotas(l, sizes[l], c.device)
		c.must(err)
		for _, q := range quotas {
			c.must(c.device.Select(a, &q))
			for h, list := range q.Lists {
				c.must(c.cache.Hold(q.Layer, h, list.Limit))
			}
			c.must(c.device.Keep(a, q.Layer))
		}
	}
	c.must(c.device.Return(a))
	c.pos += n
	c.checkPrompt(n, before)
}

// checkPrompt checks what every recipe must keep of a prompt.
func (c *talk) checkPrompt(n int, before [][]int32) {
	c.Helper()
	s := &c.model.Shape
	for i, old := range before {
		layer, h := i/s.KVHeads, i%s.KVHeads
		got := c.held(layer, h)
		candidates := slices.Clone(old)
		for pos := c.pos - n; pos < c.pos; pos++ {
			candidates = append(candidates, int32(pos))
		}
		for _, pos := range got {
			if _, is := slices.BinarySearch(candidates, pos); !is {
				c.Fatalf("%s: layer %d, KV head %d keeps %d, which is no candidate", c.what, layer, h, pos)
			}
		}
		limit := len(candidates)
		if c.plan.Decode.Kind != policy.DecodeStop {
			limit = min(limit, c.run.Caps()[layer][h])
		}
		// Later prompts may find that other layers hold what is theirs until their turn comes.
		if len(got) > limit || len(got) < limit && len(old) == 0 {
			c.Fatalf("%s: layer %d, KV head %d keeps %d of %d, at most %d", c.what, layer, h, len(got), len(candidates), limit)
		}
		if len(got) == len(candidates) {
			continue
		}
		recent := max(c.plan.Protect.Recent, int(c.plan.Protect.Part*float64(len(got))))
		if c.plan.Score.Kind == policy.ScoreNone || layer < c.plan.Score.SkipLayers {
			recent = len(got)
		}
		c.protected(i, got, candidates, recent)
	}
}

// protected checks that what never leaves a list's candidates is there.
func (c *talk) protected(list int, got, candidates []int32, recent int) {
	c.Helper()
	marked := make([]bool, len(candidates))
	stage.Pinned(marked, candidates, c.pins, c.run.Sinks(), recent, len(got))
	for i, never := range marked {
		if never && !slices.Contains(got, candidates[i]) {
			c.Fatalf("%s: list %d keeps %v of %v without %d, which never leaves", c.what, list, got, candidates, candidates[i])
		}
	}
}

// pin pins some of the tokens that all lists have, where the plan lets a device do so and no list has to make room.
func (c *talk) pin() {
	c.Helper()
	if c.plan.Heads.Kind == policy.HeadsAdaptive || c.plan.Select.Kind == policy.SelectCritical {
		return
	}
	lists := c.all()
	pins := slices.DeleteFunc(slices.Clone(lists[0]), func(pos int32) bool {
		return c.rng.IntN(2) == 0 || slices.ContainsFunc(lists, func(l []int32) bool { return !slices.Contains(l, pos) })
	})
	pins = pins[:min(3, len(pins))]
	before := c.run.Clone()
	if moved, err := c.run.Pin(pins); moved || err != nil {
		c.run = before
		return
	}
	c.pins = pins
}

// token decodes one token operation by operation.
func (c *talk) token() {
	c.Helper()
	s, a := &c.model.Shape, c.args(1)
	a.Stored = true
	before := c.all()
	rules, most, tokens := make([]step.Rule, len(before)), 0, make([]int, s.KVHeads)
	for i := range rules {
		q, full := c.run.Rule(i/s.KVHeads, i%s.KVHeads, c.sinks(i/s.KVHeads, i%s.KVHeads, 1))
		rules[i] = step.Rule{Limit: q.Limit, Full: full, Oldest: q.Oldest, Newest: q.Newest}
		most = max(most, len(before[i])+1)
	}
	c.must(c.exec.Grow(1, 1), c.device.Lend(a, &step.Loan{Most: most, Pins: c.pins}), c.device.Join(a, rules))
	run := func(from, to int) { c.must(c.exec.Run(context.Background(), a, from, to)) }
	run(0, 1)
	for l := range s.Layers {
		at := 1 + 6*l
		run(at, at+1)
		run(at+2, at+3)
		run(at+1, at+2)
		if c.look != nil {
			c.look(a, l)
		}
		c.must(c.device.Drop(a, l))
		run(at+3, at+6)
		for h := range tokens {
			tokens[h] = c.cache.List(l, h).Live
		}
		c.run.Hold(l, tokens)
	}
	c.must(c.device.Return(a))
	for i, old := range before {
		got, rule := c.held(i/s.KVHeads, i%s.KVHeads), rules[i]
		want := len(old) + 1
		if want >= rule.Full {
			want = min(want, rule.Limit)
		}
		all := append(old, int32(c.pos))
		for _, pos := range got {
			if !slices.Contains(all, pos) {
				c.Fatalf("%s: list %d holds %d after a token, which it had not", c.what, i, pos)
			}
		}
		if len(got) != want {
			c.Fatalf("%s: list %d holds %d of %d after a token, want %d", c.what, i, len(got), len(all), want)
		}
		if want < len(all) {
			c.protected(i, got, all, rule.Newest)
		}
	}
	c.pos++
}

// talked is what a conversation holds at its ends: two prompts, each with an answer. Where positions are ranks, tokens come
// one by one, and a prompt side by side only once.
func (c *talk) talked(first, second int) (out [][][]int32) {
	defer c.close()
	for i, n := range []int{first, second} {
		if c.plan.Store.Rank && i > 0 {
			for range n {
				c.token()
			}
		} else {
			c.prompt(n)
		}
		out = append(out, c.all())
		c.pin()
		for range 2 {
			c.token()
		}
		out = append(out, c.all())
	}
	return out
}

// Whatever the recipe: what a list keeps of a prompt are candidates of it, as many as it may hold, with all that never leaves,
// pins among it; so it is with a second prompt among what is stored and what is new, and with every decoded token. Twice the
// same comes out, and a budget for everything keeps everything.
func TestEveryRecipe(t *testing.T) {
	dev := gputest.Open(t)
	lib := newLibrary(dev)
	shapes := []step.Shape{
		{Layers: 3, Hidden: 16, Heads: 4, KVHeads: 2, HeadDim: 8, FFN: 16, Vocab: 50, RotDim: 6, Eps: 1e-5},
		{Layers: 2, Hidden: 16, Heads: 3, KVHeads: 3, HeadDim: 8, FFN: 16, Vocab: 50, RotDim: 8, Neox: true, Eps: 1e-5},
		{Layers: 2, Hidden: 16, Heads: 6, KVHeads: 1, HeadDim: 8, FFN: 16, Vocab: 50, RotDim: 8, Eps: 1e-5},
	}
	pinned := 0
	for i, r := range recipes(t) {
		seed := uint64(i)
		plan, err := r.Plan()
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(seed, 1))
		model := reftest.NewModel(rng, shapes[i%3], 4+rng.IntN(9), quant.Layout(seed%2))
		tokens, prompts := 4+rng.IntN(12), [2]int{1 + rng.IntN(30), 1 + rng.IntN(20)}
		p := short(*plan)
		what := fmt.Sprintf("%s %v, seed %d, %d tokens of %v", r.Method, r.Wraps, seed, tokens, prompts)
		once := newTalk(t, what, lib, model, p, tokens, prompts[0]+30, seed)
		a := once.talked(prompts[0], prompts[1])
		pinned += len(once.pins)
		b := newTalk(t, what, lib, model, p, tokens, prompts[0]+30, seed).talked(prompts[0], prompts[1])
		if !slices.EqualFunc(a, b, func(x, y [][]int32) bool { return slices.EqualFunc(x, y, slices.Equal[[]int32]) }) {
			t.Fatalf("%s: %v, and again %v", what, a, b)
		}
		for _, lists := range newTalk(t, what+" with room for all", lib, model, p, 64, 64, seed).talked(prompts[0], prompts[1]) {
			for i, pos := range lists {
				if n := len(pos); n == 0 || int(pos[n-1]) != n-1 {
					t.Fatalf("%s: with room for all, list %d keeps %v", what, i, pos)
				}
			}
		}
	}
	if pinned < 10 {
		t.Errorf("only %d tokens were pinned", pinned)
	}
}
