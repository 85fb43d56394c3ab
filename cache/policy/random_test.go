package policy

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// anyRecipe draws a method, wrappers in any order, and knobs within their ranges, small ones more often.
func anyRecipe(rng *rand.Rand) Recipe {
	knobs := func(m *Method) map[string]float64 {
		out := map[string]float64{}
		for _, k := range m.Knobs {
			if rng.IntN(2) == 0 {
				continue
			}
			v := k.Min + (k.Max-k.Min)*math.Pow(rng.Float64(), 4)
			if step := max(k.Step, 1); k.Kind != KnobFloat {
				v = k.Min + step*math.Floor((v-k.Min)/step)
			}
			out[k.Name] = v
		}
		return out
	}
	var methods, wrappers []*Method
	for _, m := range Methods() {
		if m.Wrapper {
			wrappers = append(wrappers, m)
		} else {
			methods = append(methods, m)
		}
	}
	m := methods[rng.IntN(len(methods))]
	r := Recipe{Method: m.Name, Knobs: knobs(m)}
	rng.Shuffle(len(wrappers), func(i, j int) { wrappers[i], wrappers[j] = wrappers[j], wrappers[i] })
	for _, w := range wrappers[:rng.IntN(3)] {
		r.Wraps = append(r.Wraps, Wrap{w.Name, knobs(w)})
	}
	return r
}

// TestAnyRecipe: whatever recipe, model, budget and course of a session, lists never hold more than they may and all of
// them together no more than the arena has, what lists may hold sums to no more than that, protected tokens stay, whatever
// the numbers are, and recipes that can't be are refused by name.
func TestAnyRecipe(t *testing.T) {
	rng := rand.New(rand.NewPCG(2026, 11))
	ran := 0
	for range 400 {
		r := anyRecipe(rng)
		p, err := r.Plan()
		var refused *NameError
		if errors.As(err, &refused) {
			continue
		}
		if err != nil {
			t.Fatalf("%+v: %v", r, err)
		}
		if p.Decode.Kind == DecodeStop {
			continue
		}
		ran++
		p.Score.Future = min(p.Score.Future, 8)
		s := shapes[rng.IntN(len(shapes))]
		budget := func() Budget {
			tokens := 1 + rng.IntN(40)
			b := Budget{Tokens: tokens, Reserve: reserveOf(p, tokens), Prompt: rng.IntN(90)}
			if p.Ragged() {
				b.Slots = s.Layers*s.KVHeads*(b.Tokens+b.Reserve) + rng.IntN(s.Layers*s.KVHeads)
			}
			return b
		}
		what := fmt.Sprintf("%+v on %v", r, s)
		y := newToy(t, p, s, budget(), tablesOf(s, rng), rng.Uint64())
		y.odd = rng.IntN(3) == 0
		resized := false
		for range 6 {
			done := ""
			switch rng.IntN(4) {
			case 0, 1:
				done = "prompt"
				y.prompt(1 + rng.IntN(60))
			case 2:
				done = "step"
			default:
				done = "resize"
				if y.next == 0 {
					continue // no tokens to take a step with
				}
				if err := y.run.Resize(p, budget()); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
			}
			if done != "prompt" {
				for range 1 + rng.IntN(12) {
					y.step()
				}
			}
			y.held(what+": "+done, y.run.budget.Reserve)
			// What left for want of room does not come back, and lists may have other room in every prompt.
			if resized = resized || done == "resize" || done == "prompt" && p.Ragged(); !resized {
				y.protected()
			}
			caps := slices.Concat(y.run.Caps()...)
			if all := y.run.total(); done == "resize" && p.Ragged() {
				if y.run.oneSet() {
					all -= all % s.KVHeads
				}
				if sum(caps) != all {
					t.Fatalf("%s: resized: %v sum to %d, want %d", what, caps, sum(caps), all)
				}
			}
			if n := sum(caps); n > y.run.total() || slices.Min(caps) < 1 {
				t.Fatalf("%s: %s: %v sum to %d of %d", what, done, caps, n, y.run.total())
			}
			if n := count(y.pos); n > y.run.slots() {
				t.Fatalf("%s: %s: %d tokens in %d slots", what, done, n, y.run.slots())
			}
		}
	}
	if ran < 100 {
		t.Errorf("only %d recipes ran", ran)
	}
}

// TestCloneIsApart: nothing that a run does afterwards reaches its copy.
func TestCloneIsApart(t *testing.T) {
	s := Shape{3, 6, 2, 4}
	plansFor(t, 12, func(t *testing.T, _ string, p *Plan) {
		if p.Decode.Kind == DecodeStop {
			return
		}
		y := newToy(t, p, s, Budget{Tokens: 12, Reserve: 1, Prompt: 40}, tablesOf(s, rand.New(rand.NewPCG(3, 4))), 9)
		y.prompt(40)
		y.step()
		c := y.run.Clone()
		caps, held := clone(c.caps), clone(c.held)
		y.step()
		y.prompt(30)
		if err := y.run.Resize(p, Budget{Tokens: 5, Reserve: 1}); err != nil {
			t.Fatal(err)
		}
		y.step()
		for l := range caps {
			if !slices.Equal(c.caps[l], caps[l]) || !slices.Equal(c.held[l], held[l]) || c.budget.Tokens != 12 {
				t.Errorf("layer %d: may hold %v and holds %v, was %v and %v", l, c.caps[l], c.held[l], caps[l], held[l])
			}
		}
	})
}
