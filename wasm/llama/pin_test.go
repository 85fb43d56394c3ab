package llama_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/wasm/llama"
	"kvlens/wasm/ref"
	"kvlens/web/lab/golden"
)

// pinTwo pins two tokens of a session that lists hold, neither the first nor the last, and gives the lists that have them.
func pinTwo(t testing.TB, s *llama.Session) (pins []int, has [][][]bool) {
	t.Helper()
	var all []int32
	for _, heads := range held(s) {
		all = append(all, slices.Concat(heads...)...)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	all = slices.DeleteFunc(all, func(p int32) bool { return p < 8 || int(p) > s.Position()-4 })
	pins = []int{int(all[len(all)/3]), int(all[2*len(all)/3])}
	if err := s.Pin(ctx, []int{pins[1], pins[0], pins[1]}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(s.Pins(), pins) {
		t.Fatalf("pinned %v, want %v", s.Pins(), pins)
	}
	for _, heads := range held(s) {
		var of [][]bool
		for _, kept := range heads {
			var list []bool
			for _, p := range pins {
				list = append(list, slices.Contains(kept, int32(p)))
			}
			of = append(of, list)
		}
		has = append(has, of)
	}
	return pins, has
}

// Pinned tokens stay where they are, whatever comes: answers, prompts, a lower cap, a turn that fails and makes all be
// computed again. The pins of a checkpoint come back with it.
func TestPin(t *testing.T) {
	needsScorer(t)
	m := exact(t, nil)
	for _, r := range evicting(t) {
		t.Run(r.name, func(t *testing.T) {
			s := session(t, m, llama.SessionOptions{Recipe: r.Recipe, Tables: anyTables(m), Tokens: 120, Share: 0.5})
			talk(t, s, 1)
			talk(t, s, 2)
			saved, err := s.Save(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer saved.Close()
			pins, has := pinTwo(t, s)
			look := func(what string) {
				t.Helper()
				checkCaps(t, s)
				now := held(s)
				for l, heads := range has {
					for h, list := range heads {
						for i, had := range list {
							if had && !slices.Contains(now[l][h], int32(pins[i])) {
								t.Fatalf("%s: layer %d, KV head %d lost %d: %v", what, l, h, pins[i], now[l][h])
							}
						}
					}
				}
			}
			look("pinned")
			generate(t, s, 20)
			look("an answer")
			prefill(t, s, words(15, 9))
			look("a prompt")
			before, logits := held(s), slices.Clone(s.Logits())
			stopped, cancel := context.WithCancel(ctx)
			err = s.Prefill(stopped, words(20, 4), func(done, total int) {
				if done > total/2 {
					cancel()
				}
			})
			if err == nil || s.Stored() != 0 {
				t.Fatalf("the cache should have been given up: %v", err)
			}
			if _, err := s.View(ctx, 0, 0); err != nil {
				t.Fatal(err)
			}
			if !equalSets(before, held(s)) || !slices.Equal(logits, s.Logits()) {
				t.Errorf("computed again, with pins %v: holds %v, want %v", pins, held(s), before)
			}
			if err := s.SetCap(ctx, s.Cap()*3/4); err != nil {
				t.Fatal(err)
			}
			look("a lower cap")
			generate(t, s, 20)
			look("its answer")
			if err := s.Pin(ctx, nil); err != nil || len(s.Pins()) != 0 {
				t.Fatalf("%v, pins %v", err, s.Pins())
			}
			generate(t, s, 9)
			checkCaps(t, s)
		})
	}
}

// Another recipe keeps what is pinned in all of its lists, though it reads what came before the pin anew, and goes back if
// it has no room for the pins. Pins of a moment are those that the session had then.
func TestPinsAndRecipes(t *testing.T) {
	needsScorer(t)
	m := exact(t, nil)
	for _, r := range recipes() {
		s := session(t, m, llama.SessionOptions{Tables: anyTables(m), Tokens: 120, Share: 0.5})
		talk(t, s, 1)
		pins := []int{9, 21, 33}
		if err := s.Pin(ctx, pins); err != nil {
			t.Fatal(err)
		}
		if err := s.SetRecipe(ctx, r.Recipe); err != nil {
			t.Fatal(r.name, err)
		}
		for l, heads := range held(s) {
			for h, kept := range heads {
				for _, p := range pins {
					if !slices.Contains(kept, int32(p)) {
						t.Errorf("%s: layer %d, KV head %d: no %d in %v", r.name, l, h, p, kept)
					}
				}
			}
		}
		if !slices.Equal(s.Pins(), pins) {
			t.Errorf("%s: pins %v", r.name, s.Pins())
		}
		s.Close()
	}
	s, other := small(t, m, policy.Recipe{Method: "snapkv"}), small(t, m, policy.Recipe{Method: "snapkv"})
	many := make([]int, 20)
	for i := range many {
		many[i] = i
	}
	for _, s := range []*llama.Session{s, other} {
		talk(t, s, 1)
	}
	for _, pins := range [][]int{many, {-1}, {s.Position()}, {1 << 40}} {
		if err := s.Pin(ctx, pins); !errors.Is(err, llama.ErrPins) || s.Pins() != nil {
			t.Errorf("pins %v: %v, pinned %v", pins, err, s.Pins())
		}
	}
	same(t, "refused pins", s, other)
	full := session(t, m, llama.SessionOptions{Tokens: 60, Share: 0.75})
	prefill(t, full, words(40, 1))
	if err := full.Pin(ctx, append(many, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37)); err != nil {
		t.Fatal(err)
	}
	before := slices.Clone(full.Logits())
	if err := full.SetRecipe(ctx, policy.Recipe{Method: "h2o"}); !errors.Is(err, llama.ErrPins) {
		t.Errorf("got %v", err)
	}
	if full.Recipe().Method != "full" || len(full.Pins()) != 38 || !slices.Equal(before, full.Logits()) || full.Stored() != 40 {
		t.Errorf("a recipe without room for the pins leaves %s, %d pins, %d stored", full.Recipe().Method, len(full.Pins()), full.Stored())
	}
}

// Where lists differ in length, those that are too short for the pins get room from the others, which let go at once what
// they have beyond it. A cap that has no room for the pins is refused before anything is given up.
func TestPinsMakeRoom(t *testing.T) {
	needsScorer(t)
	m := exact(t, nil)
	moved := 0
	for _, r := range evicting(t) {
		if !plan(t, r).Ragged() {
			continue
		}
		s := session(t, m, llama.SessionOptions{Recipe: r.Recipe, Tables: anyTables(m), Tokens: 120, Share: 0.5})
		talk(t, s, 1)
		talk(t, s, 2)
		before := slices.Concat(s.Caps()...)
		var pins []int
		for p := 9; s.Pin(ctx, append(pins, p)) == nil; p += 2 {
			pins = append(pins, p)
		}
		checkCaps(t, s)
		if !slices.Equal(s.Pins(), pins) || len(pins) < 3 {
			t.Errorf("%s: pinned %v, want %v", r.name, s.Pins(), pins)
		}
		if !slices.Equal(slices.Concat(s.Caps()...), before) {
			moved++
		}
		now, size := held(s), s.Cap()
		if err := s.SetCap(ctx, size/2); !errors.Is(err, llama.ErrPins) || s.Cap() != size || !equalSets(now, held(s)) {
			t.Errorf("%s: half the cap: %v", r.name, err)
		}
	}
	if moved < 5 {
		t.Errorf("lists of %d recipes get room", moved)
	}
}

// Undo goes back to what was pinned at a moment.
func TestPinsAndUndo(t *testing.T) {
	needsScorer(t)
	m := exact(t, nil)
	for _, r := range evicting(t) {
		s := undoer(t, m, r, true)
		prefill(t, s, words(30, 1))
		generate(t, s, 6)
		at := s.Position()
		before := held(s)
		pins, _ := pinTwo(t, s)
		generate(t, s, 6)
		middle := held(s)
		generate(t, s, 6)
		if err := s.Undo(ctx, at+6, nil); err != nil || !slices.Equal(s.Pins(), pins) || !equalSets(middle, held(s)) {
			t.Errorf("%s: back after the pin: %v, pins %v, holds %v, want %v", r.name, err, s.Pins(), held(s), middle)
		}
		if err := s.Undo(ctx, at, nil); err != nil || s.Pins() != nil || !equalSets(before, held(s)) {
			t.Errorf("%s: back before the pin: %v, pins %v, holds %v, want %v", r.name, err, s.Pins(), held(s), before)
		}
	}
}

// Pins stay on a device as they stay on the host: through an answer, a second prompt and a lower cap both hold the same.
// What the device can't count is refused, and changes nothing.
func TestPinsOnGPU(t *testing.T) {
	needsKeeper(t)
	const prompt, tokens = 44, 12
	led := new(cache.Ledger)
	host := load(t, golden.TeachModel(t), ref.New(led), led)
	device := ownTeach(t)
	ids := prose(t, prompt+2*tokens+16)
	refused, others := 0, 0
	for _, r := range recipes() {
		if r.Method == "full" {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			o := llama.SessionOptions{Recipe: r.Recipe, F32: true, Tokens: len(ids), Share: 0.4, Tables: anyTables(host)}
			if plan(t, r).Decode.Kind == policy.DecodeStop {
				o.Share, o.Tokens = 1, 2*len(ids)
			}
			want, got := session(t, host, o), session(t, device, o)
			prefill(t, want, ids[:prompt])
			prefill(t, got, ids[:prompt])
			if !equalSets(held(want), held(got)) {
				others++
				t.Skip("another choice in the prompt, which TestKeptOnGPU judges")
			}
			kept := want.Kept(1, 0)
			pins := []int{int(kept[len(kept)/4]), int(kept[len(kept)/3])}
			if err := want.Pin(ctx, pins); err != nil {
				t.Fatal(err)
			}
			p := plan(t, r)
			err := got.Pin(ctx, pins)
			if p.Heads.Kind == policy.HeadsAdaptive || p.Select.Kind == policy.SelectCritical {
				refused++
				if !errors.Is(err, llama.ErrRecipe) || got.Pins() != nil {
					t.Errorf("got %v, pins %v", err, got.Pins())
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			sameKept(t, "pinned", want, got)
			if !sameLeft(t, forced(t, want, ids[prompt:][:tokens]), forced(t, got, ids[prompt:][:tokens])) {
				return
			}
			sameKept(t, "answer", want, got)
			prefill(t, want, ids[prompt+tokens:][:16])
			prefill(t, got, ids[prompt+tokens:][:16])
			if !equalSets(held(want), held(got)) {
				others++
				t.Skip("another choice in the second prompt")
			}
			for l, heads := range held(got) {
				for h, now := range heads {
					if l == 1 && h == 0 && !slices.Contains(now, kept[len(kept)/3]) {
						t.Errorf("%d is pinned, list %d %d has %v", kept[len(kept)/3], l, h, now)
					}
				}
			}
			golden.Close(t, "logits after the second prompt", got.Logits(), want.Logits(), logitAbs, rel)
		})
	}
	if refused < 3 {
		t.Errorf("%d recipes refuse pins", refused)
	}
	mostlyAlike(t, others)
}
