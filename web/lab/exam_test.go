package main

import (
	"context"
	"io"
	"math"
	"strings"
	"testing"
)

// A head's masses are shares of one softmax row: when the built-in model answers, some heads look at the value and most do not.
func TestExam(t *testing.T) {
	out := run[examOutput](t, "", "exam", teachManifest(t), "-backend", "cpu", "-lengths", "128", "-n", "6", "-seed", "7",
		"-kinds", "meal/plain,code/plain,place/plain,pet/plain,home/plain,finder/plain", "-heads", "-wrong")
	if out.N != 2*3*6 || len(out.Cells) != 2*3 || len(out.Kinds) != 6 {
		t.Fatalf("%d questions, %d cells, kinds %v", out.N, len(out.Cells), out.Kinds)
	}
	if out.Right < 0.95 {
		t.Errorf("%.2f right of %d: %v", out.Right, out.N, out.Wrong)
	}
	sum := 0.0
	for _, c := range out.Cells {
		sum += c.Right * float64(c.N)
	}
	if math.Abs(sum-out.Right*float64(out.N)) > 1e-6 || len(out.Wrong) != out.N-int(math.Round(sum)) {
		t.Errorf("the cells add up to %v, the share is %v of %d with %d wrong", sum, out.Right, out.N, len(out.Wrong))
	}
	looking := 0
	for _, h := range out.Heads {
		if h.Value > h.Tell+1e-6 || h.Tell+h.First > 1+1e-3 || h.Last8 > 1+1e-3 || h.Value < 0 {
			t.Errorf("%+v is no share of a row", h)
		}
		if h.Value > 0.3 {
			looking++
		}
	}
	if looking == 0 || looking > len(out.Heads)/2 {
		t.Errorf("%d of %d heads look at the value", looking, len(out.Heads))
	}
}

// The built-in model keeps what its card says, on stories of which no training document is one: a needle's seed is never a
// document's. The bars are what it reached there, less what chance takes from so few questions.
func TestScores(t *testing.T) {
	for _, c := range []struct {
		what string
		args []string
		n    int
		bar  float64
	}{
		{"known words and wordings", []string{"-depths", "0.3", "-n", "48"}, 2 * 48, 0.97},
		{"new words", []string{"-depths", "0.6", "-n", "24", "-split", "1"}, 2 * 24, 0.93},
		{"new wordings in English", []string{"-depths", "0.6", "-n", "24", "-split", "2", "-langs", "en"}, 24, 0.87},
		{"new wordings in Chinese", []string{"-depths", "0.6", "-n", "24", "-split", "2", "-langs", "zh"}, 24, 0.66},
		{"Xiao Ming's meals", []string{"-lesson"}, 2 * 90, 0.99},
	} {
		args := append([]string{"exam", teachManifest(t), "-backend", "cpu", "-lengths", "128", "-seed", "2026", "-wrong"}, c.args...)
		out := run[examOutput](t, "", args...)
		if out.N != c.n || out.Right < c.bar {
			t.Errorf("%s: %.3f right of %d, want %.2f: %v", c.what, out.Right, out.N, c.bar, out.Wrong)
		}
		t.Logf("%s: %.3f of %d", c.what, out.Right, out.N)
	}
}

func TestExamUsage(t *testing.T) {
	for _, args := range [][]string{
		{"-kinds", "meal/none"}, {"-lengths", "x"}, {"-lengths", "3"}, {"-depths", "2"}, {"-langs", "fr"}, {"-n", "0"}, {"-split", "7"},
	} {
		args = append([]string{"exam", teachManifest(t), "-n", "1"}, args...)
		if code := lab(context.Background(), args, strings.NewReader(""), io.Discard, io.Discard); code != 2 {
			t.Errorf("%v: status %d, want 2", args, code)
		}
	}
}
