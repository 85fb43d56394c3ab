//go:build !js

package core

import (
	"math"
	"math/bits"
	"reflect"
	"slices"
	"testing"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/wasm/proto"
)

// under is a recipe by its name, at a share of the full cache.
func under(method string, share float32) proto.SetMemory {
	return proto.SetMemory{Memory: proto.Memory{Share: share, Recipe: proto.Recipe{Method: proto.Setting{Name: method}}}}
}

// held is how many tokens each list keeps.
func held(k proto.Kept) []int {
	out := make([]int, k.Layers*k.KVHeads)
	row := int(k.Tokens+7) / 8
	for i := range out {
		for _, b := range k.Bits[i*row : (i+1)*row] {
			out[i] += bits.OnesCount8(b)
		}
	}
	return out
}

// arena is the size of the arena as the ledger has it.
func arena(rows []proto.LedgerRow) (n uint64) {
	for _, r := range rows {
		switch cache.Kind(r.Kind) {
		case cache.KVF16, cache.KVF32, cache.Positions, cache.Scores, cache.Bounds, cache.Sums, cache.Free:
			n += r.Allocated
		}
	}
	return n
}

// Every recipe that can evict runs at a quarter of the full cache of a story: the arena has that size from the first
// step to the last, and what the page adds up from Kept and evictions never passes the slots and is what the engine says
// at the end.
func TestRecipesAtAQuarter(t *testing.T) {
	p := newPage(t, hooks{})
	model := p.ask(proto.Open{Manifest: builtIn, Backend: "ref"}).ok().opened
	full := cache.Geometry{Layers: int(model.Layers), KVHeads: int(model.KVHeads), HeadDim: int(model.HeadDim), Key: cache.F16, Value: cache.F16}
	lists := int(model.Layers * model.KVHeads)
	for _, m := range policy.Methods() {
		if m.Wrapper || m.Stops {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			p.t = t
			p.ask(under(m.Name, 0.25)).ok()
			g := ask(evening)
			g.Max = 30
			g.Forced = slices.Repeat([]uint32{57}, 29) // no stop text comes in between
			o := p.ask(g).ok()
			prompt := len(o.prompt.IDs)
			if want := uint64(full.Share(prompt+30, 0.25)); o.state.Cap != want {
				t.Fatalf("the cap is %d bytes, want %d", o.state.Cap, want)
			}
			first := o.kept[0]
			slots := int(first.Budget+first.Reserve) * lists
			left := held(first)
			for i, s := range o.steps {
				if got := arena(s.Ledger); got != o.state.Cap {
					t.Fatalf("step %d: the arena has %d bytes of %d", i, got, o.state.Cap)
				}
				if i > 0 {
					for l := range left {
						left[l]++
					}
				}
				for j, layer := range s.Evictions.Layer {
					left[layer*model.KVHeads+s.Evictions.Head[j]]--
				}
				sum := 0
				for _, n := range left {
					sum += n
					if n > int(first.Budget+first.Reserve) && len(slices.Compact(slices.Sorted(slices.Values(first.Caps)))) == 1 {
						t.Fatalf("step %d: %d tokens in a list of %d + %d", i, n, first.Budget, first.Reserve)
					}
				}
				if sum > slots+lists*7 { // ragged lists may use what pages have beyond the even split
					t.Fatalf("step %d: %d tokens in %d slots", i, sum, slots)
				}
			}
			end := o.kept[len(o.kept)-1]
			if got := held(end); !slices.Equal(got, left) {
				t.Errorf("evictions leave %v, the engine says %v", left, got)
			}
			if int(first.Tokens) != prompt || int(end.Tokens) != prompt+29 || end.Recipe != m.Name || slices.Min(held(first)) == prompt {
				t.Errorf("after the prompt %+v", first)
			}
		})
	}
}

// What is kept has a reason that fits its place; what left has none.
func TestReasons(t *testing.T) {
	p := opened(t, hooks{})
	p.ask(under("streamingllm", 0.25)).ok()
	k := p.ask(ask(evening)).ok().kept[0]
	tokens := k.Tokens
	for i := range tokens {
		want := proto.KeptAll
		kept := k.Bits[i/8]>>(i%8)&1 == 1
		switch {
		case i < 4:
			want = proto.KeptSink
		case kept:
			want = proto.KeptRecent
		}
		if got := proto.Keeps(k.Reasons[i]); got != want {
			t.Errorf("position %d, kept %v: reason %d, want %d", i, kept, got, want)
		}
	}
	p.ask(proto.SetMemory{}).ok()
	if k := p.ask(ask(evening)).ok().kept[0]; len(k.Bits)+len(k.Caps)+int(k.Budget) != 0 || k.Tokens != tokens {
		t.Errorf("of the full cache: %+v", k)
	}
}

// A story that is compressed before its question keeps the same tokens whatever is asked, and each question begins from
// them; with the question in the prompt they depend on it.
func TestTheQuestionComesLater(t *testing.T) {
	p := opened(t, hooks{})
	p.ask(under("snapkv", 0.5)).ok()
	later := func(q string) *outcome {
		g := ask(q)
		g.Later = true
		return p.ask(g).ok()
	}
	one := later(evening)
	if whole := p.ask(ask(evening)).ok(); len(one.kept) < 3 || !slices.Equal(one.prompt.IDs, whole.prompt.IDs) {
		t.Fatalf("%d reports, a prompt of %d tokens", len(one.kept), len(one.prompt.IDs))
	}
	two := later(morning)
	again := later(evening)
	if two.state.Cap != one.state.Cap || two.prompt.First != 0 || len(two.prompt.IDs) != len(one.prompt.IDs) {
		t.Errorf("the second question: %+v", two.prompt)
	}
	if !reflect.DeepEqual(again.kept[len(again.kept)-1], one.kept[len(one.kept)-1]) || !alike(again, one) {
		t.Errorf("the first question, asked again, is answered %q, before %q", again.text(), one.text())
	}
	story := one.kept[0]
	for _, o := range []*outcome{one, two, again} { // what stays of the story later was there when it was compressed
		k := o.kept[len(o.kept)-1]
		for l := range int(k.Layers * k.KVHeads) {
			for i := range int(story.Tokens) {
				if k.Bits[l*(int(k.Tokens+7)/8)+i/8]>>(i%8)&1 == 1 && story.Bits[l*(int(story.Tokens+7)/8)+i/8]>>(i%8)&1 == 0 {
					t.Fatalf("list %d: position %d came back", l, i)
				}
			}
		}
	}
	p.ask(proto.Reset{}).ok()
	if got := later(evening); !reflect.DeepEqual(got.kept[0], story) {
		t.Error("the same story is compressed otherwise the second time")
	}
}

// Settings change in the middle of a conversation: it stays, and what it holds fits.
func TestMemoryInTheMiddle(t *testing.T) {
	p := opened(t, hooks{})
	p.ask(ask(evening)).ok()
	whole := p.ask(askOn(morning)).ok()
	stored := whole.prompt.First - 1 // prompt and answer, but for the last token

	p.ask(ask(evening)).ok()
	o := p.ask(under("snapkv", 0.25)).ok()
	k := o.kept[0]
	if k.Tokens != stored || slices.Max(held(k)) > int(k.Budget+k.Reserve) || k.Recipe != "snapkv" || o.state.Position != stored {
		t.Fatalf("another recipe and cap: %+v, %+v", k, o.state)
	}
	if o = p.ask(askOn(morning)).ok(); o.prompt.First != stored+1 {
		t.Errorf("the next turn begins at %d", o.prompt.First)
	}
	before := o.kept[len(o.kept)-1]
	o = p.ask(under("snapkv", 0.12)).ok() // another cap only
	k = o.kept[0]
	if k.Tokens != before.Tokens || slices.Max(held(k)) > int(k.Budget+k.Reserve) || k.Budget >= before.Budget || arena(o.state.Ledger) != o.state.Cap {
		t.Errorf("a lower cap: %+v, before %+v", k, before)
	}
	// What can't be had leaves everything as it is.
	p.ask(under("snapkv", 1e-6)).fails(proto.CodeSmall)
	if f := p.ask(under("full", 0.12)).failure; f == nil || f.Code != proto.CodeTooLong {
		t.Errorf("the full cache under the same cap: %+v", f)
	}
	if o = p.ask(askOn(evening)).ok(); o.kept[0].Recipe != "snapkv" {
		t.Errorf("afterwards: %+v", o.kept[0])
	}
	// The full cache again: computed anew, it is as if nothing had been.
	p.ask(ask(evening)).ok()
	o = p.ask(proto.SetMemory{}).ok()
	if o.state.Stored != stored || o.state.Stored+o.state.Room != 2048 {
		t.Errorf("full again: %+v", o.state)
	}
	if got := p.ask(askOn(morning)).ok(); len(got.tokens()) == 0 || got.prompt.First != whole.prompt.First {
		t.Errorf("full again: %q at %d", got.text(), got.prompt.First)
	}
}

func TestRecipesThatAreRefused(t *testing.T) {
	p := opened(t, hooks{})
	set := func(r proto.Recipe) *outcome { return p.ask(proto.SetMemory{Memory: proto.Memory{Recipe: r}}) }
	knob := func(name string, at ...float64) proto.Setting {
		return proto.Setting{Name: "snapkv", Knobs: []string{name}, At: at}
	}
	set(proto.Recipe{Method: proto.Setting{Name: "adakv"}}).fails(proto.CodeBadRequest, "recipe")
	set(proto.Recipe{Method: knob("window", math.NaN())}).fails(proto.CodeBadRequest, "snapkv.window")
	set(proto.Recipe{Method: knob("size", 1)}).fails(proto.CodeBadRequest, "snapkv.size")
	set(proto.Recipe{Method: knob("window")}).fails(proto.CodeBadRequest, "recipe")
	set(proto.Recipe{Wraps: make([]proto.Setting, 99)}).fails(proto.CodeBadRequest, "recipe")
	set(proto.Recipe{Method: proto.Setting{Name: "snapkv"}, Wraps: []proto.Setting{{Name: "chunkkv"}, {Name: "criticalkv"}}}).fails(proto.CodeBadRequest, "recipe")
	for _, share := range []float32{-1, 2, float32(math.NaN())} {
		p.ask(under("snapkv", share)).fails(proto.CodeBadRequest, "share")
	}
	p.ask(proto.SetMemory{Memory: proto.Memory{Share: 0.5, Cap: 1 << 20}}).fails(proto.CodeBadRequest, "share")
	if o := p.ask(ask(evening)).ok(); o.text() != " a sandwich." {
		t.Errorf("after all that the answer is %q", o.text())
	}
}

// A recipe takes the model from the graphics processor, and back to the full cache it returns; the conversation goes
// with it both times.
func TestARecipeMovesTheModel(t *testing.T) {
	p := newPage(t, hooks{choose: breaking("cpu")})
	if o := p.ask(proto.Open{Manifest: builtIn, Backend: "webgpu"}).ok(); o.opened.Backend != "webgpu" || !o.opened.Tables {
		t.Fatalf("opened: %+v", o.opened)
	}
	p.ask(ask(evening)).ok()
	o := p.ask(under("snapkv", 0.25)).ok()
	if len(o.moved) != 1 || o.moved[0].Backend != "ref" || o.moved[0].BackendWhy != proto.WhyRecipe || !o.moved[0].Recipe || o.state.Position != 64 {
		t.Fatalf("moved %+v, %+v", o.moved, o.state)
	}
	if o = p.ask(under("tova", 0.25)).ok(); len(o.moved) != 0 {
		t.Errorf("another recipe moves it again: %+v", o.moved)
	}
	o = p.ask(proto.SetMemory{}).ok()
	if len(o.moved) != 1 || o.moved[0].Backend != "webgpu" || !o.moved[0].Recipe || o.state.Stored != 64 {
		t.Errorf("back: %+v, %+v", o.moved, o.state)
	}
	if o = p.ask(askOn(morning)).ok(); o.text() != " bread." {
		t.Errorf("the conversation goes on with %q", o.text())
	}
	// Opened with a recipe, it is put there at once.
	q := newPage(t, hooks{choose: breaking("cpu")})
	if o := q.ask(proto.Open{Manifest: builtIn, Backend: "webgpu", Memory: under("h2o", 0.5).Memory}).ok(); o.opened.Backend != "ref" || o.opened.BackendWhy != proto.WhyRecipe {
		t.Errorf("opened: %+v", o.opened)
	}
}

// The default cap is one whether a session is opened under it or comes to it later.
func TestTheDefaultCap(t *testing.T) {
	p := opened(t, hooks{})
	want := p.ask(ask(evening)).ok().state.Cap
	p.ask(proto.SetMemory{Memory: proto.Memory{Cap: 1 << 20}}).ok()
	if got := p.ask(proto.SetMemory{}).ok().state.Cap; got != want {
		t.Errorf("%d bytes, want %d", got, want)
	}
}
