package reftest

import (
	"testing"
)

// Run runs the whole suite on a backend. Operations are held to tol from equal inputs; properties, which compare whole
// models on the same backend, to ten times that.
func Run(t *testing.T, open Open, tol Tolerance) {
	t.Run("Ops", func(t *testing.T) {
		for _, c := range opCases() {
			t.Run(c.String(), func(t *testing.T) { testOps(t, open, c, tol) })
		}
	})
	wide := Tolerance{10 * tol.Abs, 10 * tol.Rel}
	for _, p := range []struct {
		name string
		test func(*testing.T, Open, Tolerance)
	}{
		{"Definition", testDefinition},
		{"LastRow", testLastRow},
		{"Chunks", testChunks},
		{"Decode", testDecode},
		{"Pages", testPages},
		{"HalfPages", testHalfPages},
		{"Neox", testNeox},
		{"Sessions", testSessions},
		{"Rollback", testRollback},
		{"Views", testViews},
		{"Matrix", testMatrix},
	} {
		t.Run(p.name, func(t *testing.T) { p.test(t, open, wide) })
	}
	t.Run("Recipes", func(t *testing.T) { testRecipes(t, open) })
	t.Run("Memory", func(t *testing.T) { testMemory(t, open) })
	t.Run("Errors", func(t *testing.T) { testErrors(t, open) })
}
