package llama_test

import (
	"errors"
	"runtime"
	"testing"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/wasm/llama"
	"kvlens/wasm/sample"
	"kvlens/web/lab/golden"
)

// 2,000 tokens at a quarter of what 400 take: under every recipe that can evict the arena stays as it is, no list is ever
// longer than its budget and the reserve, the logits stay finite, and nothing grows but the note of when tokens left. Row 14 of the pitfalls: caches that
// grow past the cap while decoding.
func TestPitfall14CapHoldsForEver(t *testing.T) {
	needsScorer(t)
	prompt, answer := 300, 2000
	if runtime.GOOS == "js" {
		answer = 200 // there it is the loops that are tried
	}
	for _, r := range evicting(t) {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			led := new(cache.Ledger)
			m := load(t, golden.TeachModel(t), newBackend(t, led), led)
			s := session(t, m, llama.SessionOptions{Tokens: 400, Share: 0.25, Recipe: r.Recipe, Tables: anyTables(m)})
			size := s.Cap()
			if full := s.Cache().Geometry().Share(400, 1); size >= full*3/10 || size < full/4 {
				t.Fatalf("a cap of %d bytes, of %d", size, full)
			}
			prefill(t, s, prose(t, prompt))
			settled := func() int64 { // what is not scratch, which a longer table of rotations makes anew
				return led.Total().Allocated - led.Rows()[cache.Scratch].Allocated - ropeBytes(m, s.Position()) - s.Noted()
			}
			var before int64
			o := llama.GenerateOptions{Max: answer, Sampler: sample.New(sample.Params{})}
			tokens := 0
			_, err := s.Generate(ctx, o, func(tok llama.Token) error {
				if tokens++; tokens == 100 {
					before = settled()
				}
				checkCaps(t, s)
				if most := tok.Choice.TopProbs[0]; !(most > 0) || s.Cap() != size {
					t.Errorf("token %d: probability %v, cap %d", tokens, most, s.Cap())
				}
				if t.Failed() {
					return llama.ErrStop
				}
				return nil
			})
			if err != nil || tokens != answer {
				t.Fatalf("%d tokens, %v", tokens, err)
			}
			if after := settled(); after != before {
				t.Errorf("the ledger grew from %d to %d bytes", before, after)
			}
		})
	}
}

// checkCaps checks that no list is longer than it may be, and all together not than the arena's slots.
func checkCaps(t *testing.T, s *llama.Session) {
	t.Helper()
	g, b := s.Cache().Geometry(), s.Budget()
	sum := 0
	for l, caps := range s.Caps() {
		for h := range caps {
			live := s.Cache().List(l, h).Live
			sum += live
			if live > caps[h]+b.Reserve || live == 0 {
				t.Errorf("position %d: layer %d, KV head %d holds %d, may hold %d and %d", s.Position(), l, h, live, caps[h], b.Reserve)
			}
		}
	}
	if sum > b.Slots || sum == 0 {
		t.Errorf("position %d: %d tokens, %d lists of %d and %d", s.Position(), sum, g.Layers*g.KVHeads, b.Tokens, b.Reserve)
	}
}

// ropeBytes is the size of the table of rotations, which doubles as positions need it.
func ropeBytes(m *llama.Model, positions int) int64 {
	c := m.Config()
	rows := min(c.Context, 2048)
	for rows < positions {
		rows *= 2
	}
	return int64(rows) * int64(c.RotDim) * 4
}

// Recipes that drop nothing stop at the cap, and say what fitted.
func TestStopsAtTheCap(t *testing.T) {
	needsScorer(t)
	m := teach(t)
	stopping := 0
	for _, r := range recipes() {
		if plan(t, r).Decode.Kind != 0 {
			continue
		}
		stopping++
		s := session(t, m, llama.SessionOptions{Tokens: 100, Recipe: r.Recipe})
		prefill(t, s, prose(t, 60))
		reason, err := s.Generate(ctx, llama.GenerateOptions{Max: 200, Sampler: sample.New(sample.Params{})}, drop)
		var full *cache.FullError
		if reason != llama.ReasonFull || !errors.As(err, &full) || full.Asked != 1 || full.Stored != s.Stored() {
			t.Errorf("%s: reason %d, %v", r.name, reason, err)
		}
		if n, want := s.Stored(), s.Cache().Geometry().FullTokens(s.Cap()); n != want || n < 80 {
			t.Errorf("%s: %d tokens stored, want %d", r.name, n, want)
		}
	}
	if stopping != 2 {
		t.Errorf("%d recipes stop", stopping)
	}
}

// A story of 62 tokens at a quarter and at half, as in the design: 16 and 32 slots a list where a token leaves at every
// step; and what SnapKV keeps is not the newest.
func TestShareOfAStory(t *testing.T) {
	needsScorer(t)
	m, ids := teach(t), prose(t, 62)
	for share, slots := range map[float64]int{0.25: 16, 0.5: 32} {
		open := func(method string) *llama.Session {
			s := session(t, m, llama.SessionOptions{Tokens: 62, Share: share, Recipe: policy.Recipe{Method: method}})
			prefill(t, s, ids)
			return s
		}
		window, snap := open("window"), open("snapkv")
		if b := window.Budget(); b.Tokens != slots-1 || b.Reserve != 1 || window.Cap() != int64(slots)*21120/16 {
			t.Errorf("share %v: %+v in %d bytes, want %d slots", share, b, window.Cap(), slots)
		}
		if b := snap.Budget(); b.Reserve != min(max(b.Tokens/8, 1), 16) || snap.Cap() != window.Cap() {
			t.Errorf("share %v: %+v", share, b)
		}
		used, published := snap.Window()
		if want := min(32, max(1, snap.Budget().Tokens/4)); used != want || published != 32 {
			t.Errorf("share %v: a window of %d, published %d; want %d", share, used, published, want)
		}
		other := 0
		for l, heads := range held(snap) {
			for h, kept := range heads {
				if len(kept) != snap.Budget().Tokens {
					t.Errorf("share %v: %d tokens, budget %d", share, len(kept), snap.Budget().Tokens)
				}
				newest := window.Kept(l, h)
				if newest[0] != int32(62-len(newest)) {
					t.Errorf("share %v: the window begins at %d", share, newest[0])
				}
				if kept[0] < int32(62-len(kept)) {
					other++
				}
			}
		}
		if g := snap.Cache().Geometry(); other < g.Layers*g.KVHeads/2 {
			t.Errorf("share %v: SnapKV keeps the newest in all but %d lists", share, other)
		}
	}
}
