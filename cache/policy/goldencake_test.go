package policy

import (
	"fmt"
	"math"
	"testing"

	"kvlens/web/lab/golden"
)

// CAKE's indicator and layer preferences: entropy^(1/τ₁) · variance^(1/τ₂).
func TestGoldenCakeScores(t *testing.T) {
	n := golden.Count(t)
	layers := golden.PolicyInputs(t)
	indicator, runs := golden.Cake(t)
	score := func(l, window int, gamma float64) *scored {
		p := &Plan{
			Score: Score{Kind: ScoreIndicator, Window: window, Gamma: gamma}, Pool: Pool{Kind: PoolAvg, Size: 5},
			Protect: Protect{Recent: window},
		}
		sc, err := scoreLayer(p, tinyShape, l, tinyInput(&layers[l], tinyShape, p), nil, GoLoops)
		if err != nil {
			t.Fatal(err)
		}
		return sc
	}
	for l := range layers {
		sc := score(l, 8, 200)
		for h, want := range indicator[l] {
			golden.Close(t, fmt.Sprintf("layer %d head %d", l, h), sc.Heads[h][:len(want)], want, 1e-5, 1e-4)
			n.Case(1)
		}
	}
	for i, run := range runs {
		if run.Prompt != 0 {
			continue // the inputs are of prompt 0
		}
		var got []float64
		for l := range layers {
			sc := score(l, run.W, run.Gamma)
			got = append(got, math.Pow(sc.Entropy, 1/run.Tau1)*math.Pow(sc.Variance, 1/run.Tau2))
		}
		golden.Close(t, fmt.Sprintf("run %d preferences", i), got, run.Preference, 0, 2e-4)
		n.Case(len(got))
	}
}
