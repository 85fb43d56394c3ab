package golden

import (
	"fmt"
	"io"
	"math"
	"os"
	"testing"
)

// out is where skips and counts are printed, also without -v.
var out io.Writer = os.Stdout

// Skip prints SKIPPED and why and skips the test; under CI nothing may be left out, so there it fails.
func Skip(t testing.TB, why string) {
	t.Helper()
	fmt.Fprintf(out, "SKIPPED %s: %s\n", t.Name(), why)
	if os.Getenv("CI") == "true" {
		t.Fatalf("SKIPPED: %s", why)
	}
	t.Skip(why)
}

// Counter counts what a test compared.
type Counter struct{ cases, ties int }

// Count starts to count; at the end of the test it prints the numbers, and fails if there was no case.
func Count(t testing.TB) *Counter {
	c := new(Counter)
	t.Cleanup(func() {
		if t.Skipped() {
			return
		}
		fmt.Fprintf(out, "%s: %d cases compared, %d ties\n", t.Name(), c.cases, c.ties)
		if c.cases == 0 && !t.Failed() {
			t.Errorf("golden: no case compared")
		}
	})
	return c
}

// Case counts n compared cases.
func (c *Counter) Case(n int) { c.cases += n }

// Tie counts n cases that the references leave open, so that they were not compared exactly.
func (c *Counter) Tie(n int) { c.ties += n }

// Close checks |got−want| ≤ abs + rel·|want| for each pair and reports the first ten that are not. NaN is never close.
func Close[G, W ~float32 | ~float64](t testing.TB, what string, got []G, want []W, abs, rel float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d values, want %d", what, len(got), len(want))
		return
	}
	bad := 0
	for i := range got {
		g, w := float64(got[i]), float64(want[i])
		if math.Abs(g-w) <= abs+rel*math.Abs(w) {
			continue
		}
		if bad++; bad <= 10 {
			t.Errorf("%s[%d] = %v, want %v (off by %.3g)", what, i, g, w, math.Abs(g-w))
		}
	}
	if bad > 10 {
		t.Errorf("%s: %d of %d values differ", what, bad, len(got))
	}
}

// Greedy compares greedy tokens up to the first step whose margin, the best logit less the second, is below least: from
// there on the references are free to differ. It counts one case, and one tie if that ended the comparison.
func Greedy(t testing.TB, c *Counter, what string, got, want []int32, margin []float64, least float64) {
	t.Helper()
	c.Case(1)
	for i := range want {
		switch {
		case margin[i] < least:
			c.Tie(1)
			return
		case i >= len(got):
			t.Errorf("%s: %d tokens, want %d", what, len(got), len(want))
			return
		case got[i] != want[i]:
			t.Errorf("%s: token %d is %d, want %d (margin %.3g)", what, i, got[i], want[i], margin[i])
			return
		}
	}
	if len(got) > len(want) {
		t.Errorf("%s: %d tokens, want %d", what, len(got), len(want))
	}
}
