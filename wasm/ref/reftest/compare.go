// Package reftest is the behavioural test suite of step.Backend: every operation on random small shapes against the
// float64 oracle, and properties that hold without an oracle. Each backend's own tests call [Run].
package reftest

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// Tolerance is how far a number may be off: |got−want| ≤ Abs + Rel·|want|.
type Tolerance struct{ Abs, Rel float64 }

// Float32 suits backends that compute in float32: sums of a few hundred products of numbers near 1, at 6e−8 a rounding.
var Float32 = Tolerance{1e-5, 1e-5}

// Compare fails the test if numbers are off, and shows the first ten that are.
func Compare(t testing.TB, what string, got, want []float32, tol Tolerance) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d numbers, want %d", what, len(got), len(want))
	}
	var lines []string
	off := 0
	for i, w := range want {
		g := got[i]
		// Written so that a NaN is off.
		if math.Abs(float64(g)-float64(w)) <= tol.Abs+tol.Rel*math.Abs(float64(w)) {
			continue
		}
		off++
		if len(lines) < 10 {
			lines = append(lines, fmt.Sprintf("\t[%d] got %v, want %v", i, g, w))
		}
	}
	if off > 0 {
		t.Errorf("%s: %d of %d numbers are off:\n%s", what, off, len(want), strings.Join(lines, "\n"))
	}
}
