package policy

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"kvlens/cache/policy/stage"
)

// firstOf are the first n candidates of a list in the order in which they may stay, ascending: pins; the newest token, sinks,
// the recent ones from the newest on; then what next gives, those that are best first.
func firstOf(pos, pins []int32, sinks, recent, n int, next []int) []int32 {
	stays := make([]bool, len(pos))
	count := 0
	add := func(i int) {
		if i >= 0 && i < len(pos) && !stays[i] && count < n {
			stays[i] = true
			count++
		}
	}
	// Recent tokens are counted among all, also where some of them are pinned.
	last := max(0, len(pos)-recent)
	for i, p := range pos {
		if slices.Contains(pins, p) {
			add(i)
		}
	}
	for i := len(pos) - 1; i >= last; i-- {
		if !stays[i] {
			add(i)
			break
		}
	}
	for i, p := range pos {
		if int(p) < sinks {
			add(i)
		}
	}
	for i := len(pos) - 1; i >= last; i-- {
		add(i)
	}
	for _, i := range next {
		add(i)
	}
	return stage.Indices(stays)
}

// byWorth orders candidates by what they are worth, of equals the older first; without worth the newest are first.
func byWorth(n int, worth []float32) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case worth == nil:
			return b - a
		case worth[a] > worth[b]:
			return -1
		case worth[a] < worth[b]:
			return 1
		}
		return 0
	})
	return order
}

// TestPinned compares what never leaves with the order in which tokens may stay.
func TestPinned(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	for range 3000 {
		n := 1 + rng.IntN(12)
		pos, pins := make([]int32, n), []int32(nil)
		for i := range pos {
			pos[i] = int32(i)
			if i > 0 {
				pos[i] = pos[i-1] + 1 + int32(rng.IntN(2))
			}
			if rng.IntN(4) == 0 {
				pins = append(pins, pos[i]+int32(rng.IntN(8)/7)) // now and then one that is no candidate
			}
		}
		pins = slices.Compact(pins)
		sinks, recent, limit := rng.IntN(5), rng.IntN(6), 1+rng.IntN(n)
		marked := make([]bool, n)
		count := stage.Pinned(marked, pos, pins, sinks, recent, limit)
		want := firstOf(pos, pins, sinks, recent, limit, nil)
		if got := stage.Indices(marked); !slices.Equal(got, want) || count != len(want) {
			t.Fatalf("%d stay of %v, pinned %v, %d sinks, %d recent: %v (%d), want %v", limit, pos, pins, sinks, recent, got, count, want)
		}
	}
}

// TestPinsAreNotShared: what layers share is what is beside the pins of each: of 2 · 20 tokens, 10 each are pinned or the
// window; the other 20 go along the pyramid's line, 19½ and ½, and at least one each.
func TestPinsAreNotShared(t *testing.T) {
	p := mustPlan(t, Recipe{Method: "pyramidkv", Knobs: map[string]float64{"window": 4}})
	r, err := NewRun(p, Shape{2, 1, 1, 2}, Budget{Tokens: 20, Reserve: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Pin([]int32{5, 6, 7, 8, 9, 10}); err != nil {
		t.Fatal(err)
	}
	r.Prompt(60)
	if got := slices.Concat(r.fixed...); !slices.Equal(got, []int{29, 11}) {
		t.Errorf("layers have %v, want 29 and 11", got)
	}
}

// pinnable is the most tokens that can be pinned under a recipe, when none of them is a sink: one place is a new token's.
func pinnable(r *Run) int {
	b := r.mean()
	return max(0, b-r.plan.Protect.Sinks-max(1, r.recent(b)))
}

// pinToy pins tokens of a toy and notes which lists have which of them.
func pinToy(t *testing.T, y *toy, pins []int32) (had [][][]int32) {
	t.Helper()
	if _, err := y.run.Pin(pins); err != nil {
		t.Fatal(err)
	}
	for _, heads := range y.pos {
		var of [][]int32
		for _, pos := range heads {
			of = append(of, slices.DeleteFunc(slices.Clone(pins), func(p int32) bool { return !slices.Contains(pos, p) }))
		}
		had = append(had, of)
	}
	return had
}

// TestEveryRecipeKeepsPins pins as many tokens as it may under every recipe, and lets a conversation go on: what is pinned
// stays in every list that had it, through answers, prompts, a lower budget and a copy of the run; lists are as long as
// without pins; and of the others those stay that the method's own order has first.
func TestEveryRecipeKeepsPins(t *testing.T) {
	pinned, moved := 0, 0
	for _, tokens := range []int{9, 20} {
		plansFor(t, tokens, func(t *testing.T, _ string, p *Plan) {
			if p.Decode.Kind == DecodeStop {
				return
			}
			rng := rand.New(rand.NewPCG(1, uint64(tokens)))
			for _, s := range []Shape{{1, 1, 1, 4}, {4, 6, 2, 4}, {3, 4, 4, 2}} {
				reserve := reserveOf(p, tokens)
				y := newToy(t, p, s, Budget{Tokens: tokens, Reserve: reserve, Prompt: 50}, tablesOf(s, rng), 3)
				y.prompt(50)
				for range 3 {
					y.step()
				}
				most := pinnable(y.run)
				var candidates []int32
				for _, heads := range y.pos {
					candidates = append(candidates, slices.Concat(heads...)...)
				}
				slices.Sort(candidates)
				candidates = slices.Compact(candidates)
				candidates = slices.DeleteFunc(candidates, func(p int32) bool { return int(p) < y.run.plan.Protect.Sinks })
				rng.Shuffle(len(candidates), func(i, j int) { candidates[i], candidates[j] = candidates[j], candidates[i] })
				before := slices.Concat(y.run.Caps()...)
				if len(candidates) > most {
					if _, err := y.run.Pin(candidates[:most+1]); !errors.Is(err, ErrPins) || y.run.Pins() != nil || !slices.Equal(slices.Concat(y.run.Caps()...), before) {
						t.Fatalf("%d pins where %d may be: %v", most+1, most, err)
					}
				}
				if most == 0 {
					continue
				}
				pins := slices.Sorted(slices.Values(candidates[:min(most, len(candidates))]))
				had := pinToy(t, y, pins)
				if caps := slices.Concat(y.run.Caps()...); !slices.Equal(caps, before) {
					moved++
					if sum(caps) > y.run.total() || slices.Min(caps) < len(pins)+1 {
						t.Fatalf("budgets %v became %v for %d pins", before, caps, len(pins))
					}
				}
				y.left = func(l int, in *StepInput, leave [][]int32) {
					for h, pos := range in.Pos {
						if len(leave[h]) == 0 {
							continue
						}
						rule, limit := y.run.rule(l, h), y.run.Caps()[l][h]
						worth, recent := y.run.worth(in, rule)[h], y.run.recent(limit)
						stay := firstOf(pos, pins, y.run.plan.Protect.Sinks, recent, limit, byWorth(len(pos), worth))
						for _, i := range leave[h] {
							if _, stays := slices.BinarySearch(stay, i); stays {
								t.Fatalf("layer %d, head %d: %v leave of %v, want %v to stay", l, h, leave[h], pos, stay)
							}
						}
						if len(leave[h])+len(stay) != len(pos) {
							t.Fatalf("layer %d, head %d: %d leave of %d, %d may stay", l, h, len(leave[h]), len(pos), limit)
						}
					}
				}
				check := func(what string) {
					t.Helper()
					for l, heads := range had {
						for h, of := range heads {
							for _, p := range of {
								pinned++
								if !slices.Contains(y.pos[l][h], p) {
									t.Fatalf("%s: layer %d, head %d: %d of pins %v left %v", what, l, h, p, pins, y.pos[l][h])
								}
							}
						}
					}
				}
				for range 2 * reserve {
					y.step()
					y.held("step", reserve)
					check("step")
				}
				y.run = y.run.Clone()
				y.prompt(23)
				y.held("prompt", 0)
				check("prompt")
				kept := slices.Clone(y.pos)
				for l, heads := range kept {
					for h, pos := range heads {
						from := y.from[l][h]
						if p.Select.Kind != SelectTop {
							continue
						}
						var worth []float32
						if y.run.Scores(l) != nil {
							worth = y.run.Scores(l)[h]
						}
						stay := firstOf(from, pins, y.run.plan.Protect.Sinks, p.Protect.recent(y.run.Caps()[l][h]), len(pos), byWorth(len(from), worth))
						var want []int32
						for _, i := range stay {
							want = append(want, from[i])
						}
						if !slices.Equal(pos, want) {
							t.Fatalf("layer %d, head %d: keeps %v, want %v, pinned %v", l, h, pos, want, pins)
						}
					}
				}
				for range tokens + reserve {
					y.step()
					check("later step")
				}
				err := y.run.Resize(p, Budget{Tokens: tokens / 2, Reserve: 1, Prompt: 50})
				if !errors.Is(err, ErrPins) {
					if err != nil {
						t.Fatal(err)
					}
					reserve = 1
				}
				y.step()
				y.held("another budget", reserve)
				check("another budget")
				y.prompt(40)
				y.held("last prompt", 0)
				check("last prompt")
			}
		})
	}
	if pinned < 10000 || moved < 3 {
		t.Errorf("%d pins looked at, %d budgets shared anew", pinned, moved)
	}
}
