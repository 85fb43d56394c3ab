package policy

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestEveryRecipeHoldsItsBudget runs prompts and long answers under every recipe: no list is ever longer than it may be,
// nothing leaves while all fits, and what is protected stays.
func TestEveryRecipeHoldsItsBudget(t *testing.T) {
	for _, tokens := range []int{1, 5, 20} {
		plansFor(t, tokens, func(t *testing.T, _ string, p *Plan) {
			if p.Decode.Kind == DecodeStop {
				return
			}
			rng := rand.New(rand.NewPCG(1, 2))
			for _, s := range []Shape{{1, 1, 1, 4}, {4, 6, 2, 4}, {3, 4, 4, 2}} {
				for _, first := range []int{1, 16, 62} {
					reserve := reserveOf(p, tokens)
					y := newToy(t, p, s, Budget{Tokens: tokens, Reserve: reserve, Prompt: first}, tablesOf(s, rng), uint64(first))
					y.prompt(first)
					y.held("prompt", 0)
					y.filled(first)
					y.protected()
					for range tokens + 2*reserve {
						y.step()
						y.held("step", reserve)
						y.protected()
					}
					y.prompt(11)
					y.held("later prompt", 0)
					y.protected()
				}
			}
		})
	}
}

// TestListsGrowToTheirBudgets: after a prompt that fitted all lists are as long. Where the next one shares the arena out
// anew, lists that then lack room have it by the time that the answer is as long as what they lack; no step needs more
// than the arena.
func TestListsGrowToTheirBudgets(t *testing.T) {
	s := Shape{4, 6, 2, 4}
	lacked := 0
	plansFor(t, 40, func(t *testing.T, _ string, p *Plan) {
		if p.Decode.Kind == DecodeStop || p.Heads.Kind == HeadsMask { // these have the same budgets in all prompts
			return
		}
		y := newToy(t, p, s, Budget{Tokens: 40, Reserve: reserveOf(p, 40)}, tablesOf(s, rand.New(rand.NewPCG(6, 1))), 2)
		y.prompt(30)
		for range 20 {
			y.step()
		}
		y.prompt(70)
		most := 0
		for l, heads := range y.pos {
			for h, pos := range heads {
				most = max(most, y.run.Caps()[l][h]-len(pos))
			}
		}
		lacked = max(lacked, most)
		for range most {
			y.step()
			if n := count(y.pos); n > y.run.slots() {
				t.Fatalf("%d tokens in %d slots", n, y.run.slots())
			}
		}
		for l, heads := range y.pos {
			for h, pos := range heads {
				if len(pos) < y.run.Caps()[l][h] {
					t.Errorf("layer %d head %d: %d tokens, may hold %d", l, h, len(pos), y.run.Caps()[l][h])
				}
			}
		}
	})
	if lacked == 0 {
		t.Error("no list lacked room: this shows nothing")
	}
}

// TestScoresAreOfThisPrompt: what the last prompt's tokens were worth says nothing of a layer that the next has not reached.
func TestScoresAreOfThisPrompt(t *testing.T) {
	y := newToy(t, mustPlan(t, Recipe{Method: "knorm"}), Shape{2, 2, 1, 2}, Budget{Tokens: 9, Reserve: 1}, nil, 1)
	y.prompt(5)
	if len(y.run.Scores(1)) != 1 || len(y.run.Scores(1)[0]) != 5 || y.run.Caps()[1] == nil {
		t.Errorf("after a prompt: scores %v, budgets %v", y.run.Scores(1), y.run.Caps())
	}
	if y.run.Prompt(5); y.run.Scores(1) != nil || y.run.Caps()[1] != nil {
		t.Errorf("as the next begins: scores %v, budgets %v", y.run.Scores(1), y.run.Caps())
	}
}

// TestEveryRunRepeats: two runs over the same numbers hold the same tokens; so does a copy of a run.
func TestEveryRunRepeats(t *testing.T) {
	s := Shape{3, 6, 2, 4}
	plansFor(t, 12, func(t *testing.T, _ string, p *Plan) {
		var ends [][][][]int32
		for i := range 2 {
			y := newToy(t, p, s, Budget{Tokens: 12, Reserve: reserveOf(p, 12), Prompt: 40}, tablesOf(s, rand.New(rand.NewPCG(3, 4))), 9)
			y.prompt(40)
			for range 5 {
				y.step()
			}
			if i == 1 {
				y.run = y.run.Clone()
			}
			for range 5 {
				y.step()
			}
			y.prompt(7)
			ends = append(ends, y.pos)
		}
		for l := range ends[0] {
			for h := range ends[0][l] {
				if !slices.Equal(ends[0][l][h], ends[1][l][h]) {
					t.Errorf("layer %d head %d: %v and %v", l, h, ends[0][l][h], ends[1][l][h])
				}
			}
		}
	})
}
