//go:build !js

package ui

import (
	"testing"

	"kvlens/app/state"
	"kvlens/wasm/proto"
)

// A rule that acts at every token acts in the middle of a prompt, too. Before an answer there is nothing to answer.
func TestWhatARuleDropsWhileReading(t *testing.T) {
	c := newController(words(t, "en"), noHost{})
	c.model.Turns = []state.Turn{
		{Serial: 1, Pieces: []state.Piece{{IDs: []uint32{1, 2, 3}}, {At: 3, IDs: []uint32{4, 5}}}},
		{Serial: 2, First: 8, Pieces: []state.Piece{{At: 8, IDs: []uint32{6, 7, 8, 9}}}},
	}
	for tokens, want := range map[int]int{0: 0, 1: 1, 4: 4, 5: 0, 6: 0, 8: 0, 9: 1, 11: 3, 12: 0, 20: 0} {
		if got := c.reading(tokens); got != want {
			t.Errorf("with %d tokens, %d of a prompt had been read; want %d", tokens, got, want)
		}
	}
	for at, key := range map[int]string{4: "verdict.left.rule.reading", 5: "verdict.left.rule", 7: "verdict.left.rule"} {
		if got := c.verdict(state.Verdict{Known: true, Stage: proto.DecidedRule, At: at}, 0); got != c.t(key) {
			t.Errorf("decided at %d: %q, want %q", at, got, c.t(key))
		}
	}
}
