package policy

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestVotesByHand: two query heads read one KV head; the list keeps two of six by the sum of what they say, and the newest.
func TestVotesByHand(t *testing.T) {
	p := &Plan{Score: Score{Kind: ScoreColumns}, Protect: Protect{Recent: 1}, Reduce: Reduce{ReduceSum}}
	p.Decode = capRule
	rows := [][]float32{{.5, .1, .2, .1, .1, 9}, {.1, .2, .1, .4, .2, 9}} // .6 .3 .3 .5 .3
	for _, c := range []struct {
		pool  Pool
		votes []uint8 // two of each head
		kept  []int32
	}{
		{Pool{}, []uint8{1, 0, 1, 0, 0, 0, 0, 1, 0, 1, 0, 0}, []int32{0, 3, 5}},
		// Highest of three neighbours: .5 .5 .2 .2 9 and .2 .2 .4 .4 9; together of the sums .6 .6 .5 .5 18.3.
		{Pool{Kind: PoolMax, Size: 3, After: true}, []uint8{1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 1, 0}, []int32{0, 4, 5}},
	} {
		p.Pool = c.pool
		r, err := NewRun(p, Shape{1, 2, 1, 2}, Budget{Tokens: 3, Reserve: 1}, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Record(true)
		r.Prompt(6)
		keeps, err := r.Layer(0, &Input{Candidates: []Candidates{{Pos: all(6)}}, Columns: rows}, GoLoops)
		if err != nil || !slices.Equal(keeps[0].Heads[0], c.kept) {
			t.Fatalf("%v, kept %v, want %v", err, keeps, c.kept)
		}
		voters, votes := r.Votes(0, 0, 6)
		if !slices.Equal(voters, []int{0, 1}) || !slices.Equal(votes, c.votes) {
			t.Errorf("pool %+v: voters %v, votes %v, want %v", c.pool, voters, votes, c.votes)
		}
	}
}

// TestVotesOfOtherCandidates: a head of a KV head that holds other tokens votes for those that both have.
func TestVotesOfOtherCandidates(t *testing.T) {
	b := &ballot{}
	list := &poll{pos: []int32{0, 2, 3, 5}, guarded: []bool{false, false, false, true}, chosen: 2}
	out := make([]uint8, 6)
	b.vote(out, list, []int32{0, 1, 3, 5}, []float32{-3, 5, -2, 9}) // token 2 has none, though 0 would be more
	if !slices.Equal(out, []uint8{1, 0, 0, 1, 0, 0}) {
		t.Errorf("votes %v", out)
	}
}

// TestVotersAreTheScoredHeads: under CompressKV the heads with the highest semantic scores of a layer vote in all of its
// lists; elsewhere the query heads of a KV head; where keys alone decide, none.
func TestVotersAreTheScoredHeads(t *testing.T) {
	s := Shape{3, 9, 3, 4}
	tables := tablesOf(s, rand.New(rand.NewPCG(7, 7)))
	for _, c := range []struct {
		method string
		voters func(l, h int) []int
	}{
		{"compresskv", func(l, _ int) (out []int) {
			row := tables.Semantic[l]
			for h := range row {
				higher := 0
				for _, x := range row {
					if x > row[h] {
						higher++
					}
				}
				if higher < 4 {
					out = append(out, h)
				}
			}
			return out
		}},
		{"snapkv", func(_, h int) []int { return []int{3 * h, 3*h + 1, 3*h + 2} }},
		{"tova", func(int, int) []int { return all9 }},
		{"cake", func(_, h int) []int { return []int{3 * h, 3*h + 1, 3*h + 2} }},
		{"knorm", func(int, int) []int { return nil }},
		{"streamingllm", func(int, int) []int { return nil }},
	} {
		r := Recipe{Method: c.method}
		if c.method != "streamingllm" && c.method != "knorm" && c.method != "tova" {
			r.Knobs = map[string]float64{"window": 3}
		}
		y := newToy(t, mustPlan(t, r), s, Budget{Tokens: 16, Reserve: 1}, tables, 2)
		y.run.Record(true)
		y.prompt(50)
		for l := range s.Layers {
			for h := range s.KVHeads {
				voters, votes := y.run.Votes(l, h, int(y.next))
				slices.Sort(voters)
				if !slices.Equal(voters, c.voters(l, h)) || len(votes) != len(voters)*50 {
					t.Errorf("%s, layer %d, head %d: voters %v, %d votes, want %v", c.method, l, h, voters, len(votes), c.voters(l, h))
				}
				chosen := 0
				for _, v := range y.run.Verdicts(l, h) {
					if v.Rank > 0 && v.Score >= v.Threshold && v.Decision == DecidedScore {
						chosen++
					}
				}
				for i := range voters {
					sum := 0
					for _, x := range votes[i*50 : (i+1)*50] {
						sum += int(x)
					}
					if sum != chosen {
						t.Errorf("%s, layer %d, head %d: %d votes of one voter, %d tokens were chosen", c.method, l, h, sum, chosen)
					}
				}
			}
		}
	}
}

var all9 = []int{0, 1, 2, 3, 4, 5, 6, 7, 8}
