package llama_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/wasm/llama"
	"kvlens/wasm/step"
	"kvlens/web/lab/golden"
)

// farewells are when tokens left their lists, read from what a session holds after each turn.
type farewells [][][]int32 // [layer][KV head][position]

func (f farewells) note(s *llama.Session) {
	for l, lists := range held(s) {
		for h, now := range lists {
			for len(f[l][h]) < s.Position() {
				f[l][h] = append(f[l][h], -1)
			}
			for p := range f[l][h] {
				_, there := slices.BinarySearch(now, int32(p))
				switch {
				case there:
					f[l][h][p] = -1
				case f[l][h][p] < 0:
					f[l][h][p] = int32(s.Position())
				}
			}
		}
	}
}

// The matrix of a list that tokens have left shows what each query saw when it was there, and what it would have given to
// what it no longer saw: over two turns, with a token that is recalled between them where the backend has copies.
func TestMatrixOfDepartures(t *testing.T) {
	const prompt, answer, second, budget = 40, 8, 12, 16
	m := exact(t, nil)
	c := m.Config()
	ids := words(prompt+2*answer+second, 1)
	full := newMasked(t, golden.TinyModel(t), c)
	full.note = true
	for _, id := range ids[:prompt] {
		full.token(id)
	}
	for _, r := range undoable() {
		if plan(t, r).Decode.Kind == policy.DecodeStop {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			s := session(t, m, llama.SessionOptions{
				F32: true, Recipe: r.Recipe, Tables: anyTables(m), Budget: budget, Tokens: len(ids), Shadow: !onGPU,
			})
			f := make(farewells, c.Layers)
			for l := range f {
				f[l] = make([][]int32, c.KVHeads)
			}
			o := full.fork()
			o.virtual = s.Plan().Store.Virtual
			rank := s.Plan().Store.Rank
			if rank {
				o.reset()
				o.rank = true
			}
			feed := func(ids []int32) {
				for _, id := range ids {
					o.look(held(s))
					if err := s.Decode(ctx, id); err != nil {
						t.Fatal(err)
					}
					o.token(id)
					f.note(s)
				}
				o.look(held(s))
			}
			read := func(ids []int32, known bool) {
				if rank { // a stream: every token that leaves moves the others
					if !known {
						prefill(t, s, ids[:budget])
						for _, id := range ids[:budget] {
							o.token(id)
						}
						f.note(s)
						ids = ids[budget:]
					}
					feed(ids)
					return
				}
				prefill(t, s, ids)
				if known {
					for _, id := range ids {
						o.token(id)
					}
				}
				f.note(s)
				o.look(held(s))
			}
			read(ids[:prompt], false)
			feed(ids[prompt:][:answer])
			if !onGPU {
				if err := s.Recall(ctx, recallable(t, s)); err != nil {
					t.Fatal(err)
				}
			}
			f.note(s)
			o.look(held(s))
			read(ids[prompt+answer:][:second], true)
			watch(t, s)
			feed(ids[prompt+answer+second:])
			rows, n, departed := s.Rows(), len(ids), 0
			for layer := range c.Layers {
				head := (3*layer + 1) % c.Heads
				x, err := s.View(ctx, layer, head)
				if err != nil {
					t.Fatal(err)
				}
				want := f[layer][head/(c.Heads/c.KVHeads)]
				if len(x.Left) == 0 {
					x.Left = slices.Repeat([]int32{-1}, n)
				}
				if !slices.Equal(x.Left, want) {
					t.Fatalf("layer %d, head %d: left at %d, want %d", layer, head, x.Left, want)
				}
				departed += n - len(s.Kept(layer, head/(c.Heads/c.KVHeads)))
				for i := range n {
					for j := range n {
						code, would := x.Codes[i*n+j], uint8(0)
						if x.Would != nil {
							would = x.Would[i*n+j]
						}
						if j > i {
							if code != 0 || would != 0 {
								t.Errorf("layer %d, head %d: query %d sees key %d", layer, head, i, j)
							}
							continue
						}
						p, all := o.seen[layer][head][i][j], o.would[layer][head][i][j]
						near(t, "seen", layer, head, i, j, code, p)
						if p > 0 {
							all = 0
						}
						if !onGPU {
							near(t, "would see", layer, head, i, j, would, all)
						}
					}
				}
				line := rows.Codes[(layer*c.Heads+head)*n:][:n]
				for j, code := range x.Codes[(n-1)*n:] {
					if d := int(code) - int(line[j]); d < -1 || d > 1 {
						t.Errorf("layer %d, head %d: key %d is %d in the matrix and %d in the row", layer, head, j, code, line[j])
					}
				}
			}
			if departed < c.Layers*(n-budget-4)/2 {
				t.Errorf("only %d tokens have left", departed)
			}
		})
	}
}

// near compares a code with a probability.
func near(t *testing.T, what string, layer, head, i, j int, code uint8, p float64) {
	t.Helper()
	if got := step.Uncode(code); math.Abs(got-p) > p*(halfStep-1)+2e-4 {
		t.Errorf("layer %d, head %d: query %d %s key %d by %v, want %v", layer, head, i, what, j, got, p)
	}
}

// Where several tokens share a cell, it shows the largest of them. Without a shadow nothing is said of what would have
// been, and a view leaves nothing behind: neither in the session nor in memory.
func TestMatrixPooled(t *testing.T) {
	needsScorer(t)
	led := new(cache.Ledger)
	m := load(t, golden.TinyModel(t), newBackend(t, led), led)
	m.FixPace(7)
	s := small(t, m, policy.Recipe{Method: "h2o"})
	if err := s.Shadow(true); err != nil {
		t.Fatal(err)
	}
	talk(t, s, 1)
	before, sets, held0 := stateOf(s), held(s), led.Total().Allocated
	one, err := s.Retrace(ctx, 1, 2, 1)
	if err != nil {
		t.Fatal(err)
	}
	two, err := s.Retrace(ctx, 1, 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	pool := func(x []uint8) []uint8 {
		out := make([]uint8, two.Cells*two.Cells)
		for i := range one.Cells {
			for j := range one.Cells {
				cell := &out[i/3*two.Cells+j/3]
				*cell = max(*cell, x[i*one.Cells+j])
			}
		}
		return out
	}
	if !slices.Equal(pool(one.Codes), two.Codes) || !slices.Equal(pool(one.Would), two.Would) || slices.Max(two.Would) == 0 {
		t.Error("cells of three tokens are not the largest of them")
	}
	stopped, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := s.View(stopped, 1, 2); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled view: %v", err)
	}
	for stop := 20; stop < 400; stop += 60 {
		if _, err := s.View(&countdown{ctx, stop}, 1, 2); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("a view that is cancelled later: %v", err)
		}
	}
	if now := led.Total().Allocated; now != held0 || !stateOf(s).equal(before) || !equalSets(held(s), sets) {
		t.Errorf("a view leaves %d bytes, or another session", now-held0)
	}
	if err := s.Shadow(false); err != nil {
		t.Fatal(err)
	}
	x, err := s.View(ctx, 1, 2)
	if err != nil || x.Would != nil || !slices.Equal(x.Codes, one.Codes) || !slices.Equal(x.Left, one.Left) {
		t.Errorf("without a shadow: %v", err)
	}
}
