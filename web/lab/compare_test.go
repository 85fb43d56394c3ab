package main

import (
	"slices"
	"strings"
	"testing"

	"kvlens/web/lab/golden"
)

// A comparison by command line: the full cache with itself, and with a recipe that has too little room for the story.
func TestCompare(t *testing.T) {
	prompts, _ := golden.Teach(t)
	p := prompts[0]
	story, rest, _ := strings.Cut(p.Text, "\nQuestion: ")
	question, _, _ := strings.Cut(rest, "\nAnswer:")
	out := run[compareOutput](t, "", "compare", teachManifest(t), "-story", story, "-question", question,
		"-b", "window", "-cap_b", "25%", "-later", "-gold", " a sandwich", "-other", " bread")
	if out.Prompt != len(p.IDs) || out.Text != " a sandwich." || out.Reason != "stop text" || len(out.Tokens) != 3 {
		t.Fatalf("%q (%s) after %d tokens, %d tokens", out.Text, out.Reason, out.Prompt, len(out.Tokens))
	}
	a, b := out.Runs[0], out.Runs[1]
	if a.MaxKL > 1e-6 || a.Agree != 1 || a.Diverged != -1 || a.Text != out.Text || a.Cap != out.Full {
		t.Errorf("full beside full: %+v", a)
	}
	if b.MeanKL <= 0 || b.MaxKL < b.MeanKL || b.Cap*3 > out.Full || b.Peak < b.Cap || b.Budget < 1 || len(b.Retained) != 5 || len(b.Retained[4]) != 6 {
		t.Errorf("a window of a quarter: %+v", b)
	}
	if slices.ContainsFunc(slices.Concat(a.Retained...), func(x float64) bool { return x < 1-1e-9 }) || slices.Min(slices.Concat(b.Retained...)) > 0.9 {
		t.Errorf("retained: %v and %v", a.Retained, b.Retained)
	}
	if len(out.Margin) != 3 || out.Margin[0] <= 0 || out.Margin[1] != out.Margin[0] || out.Margin[2] >= out.Margin[0] {
		t.Errorf("margins %v: the full cache knows what a window has lost", out.Margin)
	}
	for i, tok := range out.Tokens {
		if tok.ID != p.Greedy[i] || !tok.Agree[0] || tok.Prob[0] <= 0.1 || tok.KL[0] > 1e-6 {
			t.Errorf("token %d: %+v, want %d", i, tok, p.Greedy[i])
		}
	}
}
