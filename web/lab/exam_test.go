package main

import (
	"context"
	"io"
	"math"
	"strings"
	"testing"
)

// The committed model answers what its card says it can: facts told with the keys first, in both languages. In its answers
// a few heads look at the value and most do not; a head's masses are shares of one softmax row.
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
