package policy

import (
	"math/rand/v2"
	"slices"
	"testing"

	"kvlens/cache/policy/stage"
)

// What a run says by number is what it does where it sees the tokens: the quotas of a layer, and how many sinks are left
// of lists that were chosen from, once and again.
func TestQuotasAreWhatStays(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 9))
	for range 3000 {
		recent, known := rng.IntN(6), rng.IntN(4) > 0
		p := &Plan{Protect: Protect{Sinks: rng.IntN(6), Recent: recent}, Decode: Decode{Kind: DecodeOldest}}
		if known {
			p.Score.Kind = ScoreNorm
		}
		r, err := NewRun(p, Shape{1, 1, 1, 2}, Budget{Tokens: 9, Reserve: 1}, nil)
		if err != nil {
			t.Fatal(err)
		}
		pos := all(1 + rng.IntN(14))
		for limit := len(pos) + 2; limit > 0; limit -= 1 + rng.IntN(4) { // a list that shrinks
			sz := (&Input{Candidates: []Candidates{{Pos: pos}}}).sizes(p.Protect.Sinks)
			q := r.quotas(0, sz, []int{limit}).Lists[0]
			marked := make([]bool, len(pos))
			for i := range marked {
				marked[i] = q.Limit == len(pos) || i < q.Oldest || i >= len(pos)-q.Newest
			}
			scores := make([]float32, len(pos))
			for i := range scores {
				scores[i] = rng.Float32()
			}
			if left := q.Limit - q.guarded(len(pos)); left > 0 && q.Limit < len(pos) {
				stage.Top(marked, scores, left, nil)
			}
			sc := &scored{Heads: [][]float32{scores}}
			if !known {
				sc.Heads = nil
			}
			kept := stage.Indices(marked)
			if want := pick(p, sc, 0, &Candidates{Pos: pos}, limit); !slices.Equal(kept, want) {
				t.Fatalf("%+v of %v: %v stay, want %v", q, pos, kept, want)
			}
			var next []int32
			for _, i := range kept {
				next = append(next, pos[i])
			}
			want := (&Input{Candidates: []Candidates{{Pos: next}}}).sizes(p.Protect.Sinks)
			if got := r.after(sz, []Quota{q}); !slices.Equal(got.Candidates, want.Candidates) || !slices.Equal(got.Sinks, want.Sinks) {
				t.Fatalf("%+v of %v, %d sinks, leaves %v: sizes %v, want %v", q, pos, p.Protect.Sinks, next, got, *want)
			}
			pos = next
		}
	}
}

// No list gets more tokens while its layer is decided than Most says before.
func TestMost(t *testing.T) {
	s, reached := Shape{3, 4, 2, 4}, 0
	plansFor(t, 20, func(t *testing.T, name string, p *Plan) {
		if p.Decode.Kind == DecodeStop {
			return
		}
		for _, parity := range []bool{false, true} {
			y := newToy(t, p, s, Budget{Tokens: 20, Reserve: 1, Prompt: 60, Parity: parity}, tablesOf(s, rand.New(rand.NewPCG(4, 4))), 3)
			for _, n := range []int{60, 17} {
				y.run.Prompt(n)
				most := y.run.Most()
				held := 0
				for l := range s.Layers {
					sz := &Sizes{make([]int, s.KVHeads), make([]int, s.KVHeads)}
					for h := range sz.Candidates {
						sz.Candidates[h] = y.run.held[l][h] + n
						sz.Sinks[h] = min(p.Protect.Sinks, sz.Candidates[h])
					}
					quotas, err := y.run.Quotas(l, sz, uneven{n})
					if err != nil {
						t.Fatal(err)
					}
					for _, q := range quotas[len(quotas)-1].Lists {
						held = max(held, q.Limit)
					}
				}
				if held > most {
					t.Errorf("%s, parity %v: a list of %d tokens, at most %d were foreseen", name, parity, held, most)
				}
				if held == most {
					reached++
				}
			}
		}
	})
	if reached == 0 {
		t.Error("no list was ever as long as it may be")
	}
}

// uneven is statistics of layers of which the first is worth all, and of heads of which the first wins all.
type uneven struct{ candidates int }

func (u uneven) Unrest(layer int) (entropy, variance float64, err error) {
	return 1, 1 / float64(1+layer*layer), nil
}

func (u uneven) Highest(_ int, c *Contest) ([]int, error) {
	won := make([]int, len(c.Guards))
	won[0] = min(c.Total, u.candidates)
	return won, nil
}
