package golden

import "testing"

// Behaviour is what was measured of SmolLM2's heads elsewhere, on other samples: [layer][query head].
type Behaviour struct {
	Needle    [][]float64 // attention on a needle while its digits are told
	Induction [][]float64
	Echo      [][]float64
	Sink      [][]float64 // of one conversation: mean attention on the first token
}

// ReadBehaviour reads the tables of behaviour.json. They are information: other samples give other numbers.
func ReadBehaviour(t testing.TB) *Behaviour {
	t.Helper()
	type file struct {
		Needle struct{ All [][]float64 } `json:"retrieval_heads_needle_mass"`
		Random struct {
			Induction, Echo [][]float64
		} `json:"induction"`
		Sinks struct {
			Chat struct {
				Heads [][]float64 `json:"by_query_head"`
			}
		}
	}
	f := load(t, "behaviour.json", func(f *file) int { return len(f.Needle.All) })
	return &Behaviour{f.Needle.All, f.Random.Induction, f.Random.Echo, f.Sinks.Chat.Heads}
}
