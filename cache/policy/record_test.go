package policy

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// lostIn notes, for every token that leaves with a step of a toy, what must be said about it: from what tokens are worth
// under the rule, in the order of firstOf.
func checkLosses(t *testing.T, y *toy, d func(layer int, rule DecodeKind) Decision) (seen *int) {
	seen = new(int)
	y.left = func(l int, in *StepInput, leave [][]int32) {
		for h, pos := range in.Pos {
			losses := y.run.Losses(h)
			if len(losses) != len(leave[h]) {
				t.Fatalf("layer %d, head %d: %d tokens leave, %d are explained", l, h, len(leave[h]), len(losses))
			}
			rule, limit := y.run.rule(l, h), y.run.Caps()[l][h]
			worth := y.run.worth(in, rule)[h]
			guards := firstOf(pos, y.run.pins, y.run.plan.Protect.Sinks, y.run.recent(limit), limit, nil)
			for i, at := range leave[h] {
				*seen++
				want := Verdict{Score: float32(math.NaN()), Threshold: float32(math.NaN()), At: uint32(y.next) + 1, Decision: d(l, rule)}
				if worth != nil {
					want.Score, want.Rank = worth[at], 1
					least := math.Inf(1)
					for j, w := range worth {
						if slices.Contains(guards, int32(j)) {
							continue
						}
						if w > worth[at] || w == worth[at] && int32(j) < at {
							want.Rank++
						}
						if !slices.Contains(leave[h], int32(j)) {
							least = min(least, float64(w))
						}
					}
					if !math.IsInf(least, 1) {
						want.Threshold = float32(least)
					}
				}
				if !sameVerdict(losses[i], want) {
					t.Fatalf("layer %d, head %d: %d of %v leaves: %+v, want %+v; worth %v", l, h, pos[at], pos, losses[i], want, worth)
				}
				if list := y.run.Verdicts(l, h); !sameVerdict(list[pos[at]], want) {
					t.Fatalf("layer %d, head %d: recorded %+v, want %+v", l, h, list[pos[at]], want)
				}
			}
			if list := y.run.Verdicts(l, h); len(list) != int(y.next)+1 || !slices.Contains(leave[h], int32(len(pos)-1)) &&
				!sameVerdict(list[y.next], Unscored(DecidedNew, int(y.next)+1)) {
				t.Fatalf("layer %d, head %d: the new token %d: %+v", l, h, y.next, list[len(list)-1])
			}
		}
	}
	return seen
}

func sameVerdict(a, b Verdict) bool {
	same := func(x, y float32) bool { return x == y || x != x && y != y }
	return same(a.Score, b.Score) && same(a.Threshold, b.Threshold) && a.Rank == b.Rank && a.At == b.At && a.Decision == b.Decision
}

// explained fails unless the record of a toy's last prompt says why what stays stays: those whose rank is within as many as
// were chosen by score, and those that are protected, are just what the list has; what stays by score has at least the
// threshold, what left at most; everything was decided now.
func (y *toy) explained() (ranked int) {
	y.t.Helper()
	for l, heads := range y.pos {
		for h, kept := range heads {
			list, from := y.run.Verdicts(l, h), y.from[l][h]
			if len(list) != int(y.next) {
				y.t.Fatalf("layer %d, head %d: %d verdicts for %d tokens", l, h, len(list), y.next)
			}
			chosen := 0
			for _, p := range kept {
				if list[p].Rank > 0 {
					chosen++
				}
			}
			var won []int32
			for i, p := range from {
				v := list[p]
				stays := slices.Contains(kept, p)
				if v.At != uint32(y.next) {
					y.t.Fatalf("layer %d, head %d: %d was decided at %d, not %d", l, h, p, v.At, y.next)
				}
				switch v.Decision {
				case DecidedScore, DecidedCascade:
					ranked++
					if v.Rank == 0 || v.Score != v.Score || chosen > 0 && v.Threshold != v.Threshold {
						y.t.Fatalf("layer %d, head %d: %d by score, but %+v", l, h, p, v)
					}
					if stays && v.Score < v.Threshold || !stays && v.Score > v.Threshold {
						y.t.Fatalf("layer %d, head %d: %d stays %v, but %+v", l, h, p, stays, v)
					}
					if int(v.Rank) <= chosen && v.Decision == DecidedScore {
						won = append(won, p)
					}
				case DecidedPlace:
					if y.run.Scores(l) != nil && len(y.run.Scores(l)) > 0 {
						y.t.Fatalf("layer %d, head %d: %d by place, though there are scores", l, h, p)
					}
					if stays {
						won = append(won, p)
					}
				default: // these only keep
					if !stays || v.Rank != 0 || v.Score == v.Score {
						y.t.Fatalf("layer %d, head %d: %d stays %v, but %+v", l, h, p, stays, v)
					}
					won = append(won, p)
				}
				y.protectedBy(l, h, i, v.Decision)
			}
			if !slices.Equal(won, kept) {
				y.t.Fatalf("layer %d, head %d: %v win, %v stay", l, h, won, kept)
			}
		}
	}
	return ranked
}

// protectedBy fails where a protection that a verdict names does not hold.
func (y *toy) protectedBy(l, h, i int, d Decision) {
	y.t.Helper()
	from := y.from[l][h]
	ok := true
	switch d {
	case DecidedSink:
		ok = int(from[i]) < y.run.plan.Protect.Sinks
	case DecidedRecent:
		ok = i >= len(from)-y.run.plan.Protect.recent(len(from))
	case DecidedPin:
		ok = slices.Contains(y.run.pins, from[i])
	case DecidedMask:
		ok = y.run.mask[l][h] && len(y.pos[l][h]) == len(from)
	case DecidedRoom:
		ok = len(y.pos[l][h]) == len(from)
	case DecidedCascade:
		ok = y.p.Layers.Kind == LayersCake && l < y.shape.Layers-1 && !slices.Contains(y.pos[l][h], from[i])
	case DecidedRule, DecidedCapRule, DecidedCap, DecidedRecall, DecidedNew:
		ok = false
	}
	if !ok {
		y.t.Fatalf("layer %d, head %d: %d of %v is said to be decided by %d", l, h, from[i], from, d)
	}
}

// TestEveryRecipeExplains goes through a prompt, an answer, another prompt with pins, its answer and a lower budget under
// every recipe.
func TestEveryRecipeExplains(t *testing.T) {
	ranked, lost, cascaded := 0, 0, 0
	for _, tokens := range []int{5, 20} {
		plansFor(t, tokens, func(t *testing.T, _ string, p *Plan) {
			if p.Decode.Kind == DecodeStop {
				return
			}
			rng := rand.New(rand.NewPCG(1, uint64(tokens)))
			for _, s := range []Shape{{1, 1, 1, 4}, {4, 6, 2, 4}, {3, 4, 4, 2}} {
				y := newToy(t, p, s, Budget{Tokens: tokens, Reserve: reserveOf(p, tokens), Prompt: 50}, tablesOf(s, rng), 3)
				y.run.Record(true)
				seen := checkLosses(t, y, func(_ int, rule DecodeKind) Decision {
					if rule == DecodeCap {
						return DecidedCapRule
					}
					return DecidedRule
				})
				y.prompt(min(4, tokens))
				y.explained()
				y.prompt(50)
				ranked += y.explained()
				for l := range y.pos {
					for h := range y.pos[l] {
						for _, v := range y.run.Verdicts(l, h) {
							if v.Decision == DecidedCascade {
								cascaded++
							}
						}
					}
				}
				for range tokens {
					y.step()
				}
				if pins := []int32{y.pos[0][0][0]}; pinnable(y.run) > 0 {
					if _, err := y.run.Pin(pins); err != nil {
						t.Fatal(err)
					}
					y.step()
				}
				if y.run.lowered != nil {
					clear(y.run.lowered)
				}
				y.prompt(23)
				ranked += y.explained()
				for range tokens {
					y.step()
				}
				lost += *seen
				seen = checkLosses(t, y, func(int, DecodeKind) Decision { return DecidedCap })
				if y.run.Resize(p, Budget{Tokens: max(2, tokens/2), Reserve: 1, Prompt: 50}) != nil {
					continue // no room for the pin
				}
				y.step()
				if *seen == 0 {
					t.Error("nothing leaves under a lower budget")
				}
			}
		})
	}
	if ranked < 20000 || lost < 10000 || cascaded < 100 {
		t.Errorf("%d ranks of prompts, %d tokens that left in answers, %d in cascades", ranked, lost, cascaded)
	}
}

// TestRanksAreOfTheScores compares ranks, scores and thresholds with those that a sort of the scores gives.
func TestRanksAreOfTheScores(t *testing.T) {
	tested := 0
	plansFor(t, 12, func(t *testing.T, _ string, p *Plan) {
		if p.Decode.Kind == DecodeStop || p.Select.Kind != SelectTop || p.Layers.Kind == LayersCake || p.Score.Kind == ScoreNone {
			return
		}
		tested++
		s := Shape{2, 4, 2, 4}
		y := newToy(t, p, s, Budget{Tokens: 12, Reserve: reserveOf(p, 12)}, tablesOf(s, rand.New(rand.NewPCG(1, 1))), 4)
		y.run.Record(true)
		y.prompt(40)
		for l := range y.pos {
			for h, kept := range y.pos[l] {
				scores, list := y.run.Scores(l)[h], y.run.Verdicts(l, h)
				var order []int
				for i := range scores {
					if list[i].Rank > 0 {
						order = append(order, i)
					}
				}
				slices.SortStableFunc(order, func(a, b int) int {
					switch {
					case scores[a] > scores[b]:
						return -1
					case scores[a] < scores[b]:
						return 1
					}
					return 0
				})
				chosen := len(kept) - (len(scores) - len(order))
				for i, at := range order {
					want := Verdict{scores[at], scores[order[max(0, chosen-1)]], uint32(i + 1), 40, DecidedScore}
					if chosen == 0 {
						want.Threshold = float32(math.NaN())
					}
					if !sameVerdict(list[at], want) {
						t.Fatalf("layer %d, head %d, token %d: %+v, want %+v", l, h, at, list[at], want)
					}
				}
			}
		}
	})
	if tested < 10 {
		t.Errorf("%d recipes", tested)
	}
}

// TestVerdictsByHand: whole chunks by their means, the last in part; and values that weigh in after the first by score.
func TestVerdictsByHand(t *testing.T) {
	for _, c := range []struct {
		sel   Select
		row   []float32
		outL1 []float32
		limit int
		want  []Verdict
	}{
		{
			Select{Kind: SelectChunks, Chunk: 2},
			[]float32{.25, .75, 1, .5, .25, 0},
			nil,
			3,
			[]Verdict{
				{.5, .5, 4, 6, DecidedScore},
				{.5, .5, 3, 6, DecidedScore},
				{.75, .5, 1, 6, DecidedScore},
				{.75, .5, 2, 6, DecidedScore},
				{.125, .5, 5, 6, DecidedScore},
				{.125, .5, 6, 6, DecidedScore},
			},
		},
		{
			Select{Kind: SelectCritical, First: 0.5},
			[]float32{4, 3, 2, 1},
			[]float32{1, 1, 3, 8}, // 4 and then 3, 6, 8
			2,
			[]Verdict{{4, 4, 1, 4, DecidedScore}, {3, 8, 4, 4, DecidedScore}, {6, 8, 3, 4, DecidedScore}, {8, 8, 2, 4, DecidedScore}},
		},
		{
			Select{Kind: SelectCritical, First: 1},
			[]float32{4, 3, 2, 1},
			[]float32{1, 1, 3, 8},
			2,
			[]Verdict{{4, 3, 1, 4, DecidedScore}, {3, 3, 2, 4, DecidedScore}, {2, 3, 3, 4, DecidedScore}, {1, 3, 4, 4, DecidedScore}},
		},
	} {
		p := &Plan{Score: Score{Kind: ScoreColumns}, Select: c.sel, Decode: capRule}
		r := newRun(t, p, 1, Budget{Tokens: c.limit, Reserve: 1})
		r.Record(true)
		r.Prompt(len(c.row))
		in := &Input{Candidates: []Candidates{{Pos: all(len(c.row)), OutL1: c.outL1}}, Columns: [][]float32{c.row, c.row}}
		if _, err := r.Layer(0, in, GoLoops); err != nil {
			t.Fatal(err)
		}
		if got := r.Verdicts(0, 0); !slices.EqualFunc(got, c.want, sameVerdict) {
			t.Errorf("%+v: %+v, want %+v", c.sel, got, c.want)
		}
	}
}

// TestMaskedHeadsKeepEverything: where all fits there is nothing for a mask to decide.
func TestMaskedHeadsKeepEverything(t *testing.T) {
	p := mustPlan(t, Recipe{Method: "duo", Knobs: map[string]float64{"sinks": 2}})
	tables := &Tables{Retrieval: [][]float32{{1, 1, 0, 0}}}
	for _, c := range []struct {
		prompt int
		want   Decision
	}{{12, DecidedRoom}, {20, DecidedMask}} {
		r, err := NewRun(p, Shape{1, 4, 2, 2}, Budget{Tokens: 14, Reserve: 1, Prompt: c.prompt}, tables)
		if err != nil {
			t.Fatal(err)
		}
		r.Record(true)
		r.Prompt(c.prompt)
		candidates := Candidates{Pos: all(c.prompt)}
		if _, err := r.Layer(0, &Input{Candidates: []Candidates{candidates, candidates}}, GoLoops); err != nil {
			t.Fatal(err)
		}
		if v := r.Verdicts(0, 0)[5]; v.Decision != c.want {
			t.Errorf("a prompt of %d: decided by %d, want %d", c.prompt, v.Decision, c.want)
		}
	}
}
