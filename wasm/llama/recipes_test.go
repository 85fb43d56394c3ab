package llama_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/wasm/llama"
	"kvlens/wasm/step"
	"kvlens/web/lab/golden"
)

// named is a recipe with a name for the test's output.
type named struct {
	name string
	policy.Recipe
}

// recipes are all registered methods with their defaults, all wrappers around SnapKV, and some that compose.
func recipes() []named {
	var out []named
	for _, m := range policy.Methods() {
		if m.Wrapper {
			out = append(out, named{m.Name + "(snapkv)", policy.Recipe{Method: "snapkv", Wraps: []policy.Wrap{{Name: m.Name}}}})
		} else {
			out = append(out, named{m.Name, policy.Recipe{Method: m.Name}})
		}
	}
	return append(out,
		named{"chunkkv(knorm)", policy.Recipe{Method: "knorm", Wraps: []policy.Wrap{{Name: "chunkkv"}}}},
	)
}

// evicting are the recipes under which tokens leave.
func evicting(t testing.TB) []named {
	return slices.DeleteFunc(recipes(), func(r named) bool { return plan(t, r).Decode.Kind == policy.DecodeStop })
}

func plan(t testing.TB, r named) *policy.Plan {
	t.Helper()
	p, err := r.Plan()
	if err != nil {
		t.Fatal(r.name, err)
	}
	return p
}

// anyTables are tables of a model's heads that nobody measured: for tests that need some.
func anyTables(m *llama.Model) *policy.Tables {
	c := m.Config()
	random := rand.New(rand.NewPCG(1, 2))
	rows := func() [][]float32 {
		out := make([][]float32, c.Layers)
		for l := range out {
			out[l] = make([]float32, c.Heads)
			for h := range out[l] {
				out[l][h] = random.Float32()
			}
		}
		return out
	}
	t := &policy.Tables{
		Retrieval: rows(), Semantic: rows(), Induction: rows(), Echo: rows(), Sink: rows(), Local: rows(),
		Errors: make([]float32, c.Layers),
	}
	for l := range t.Errors {
		t.Errors[l] = float32(l+1) * 2 / float32(c.Layers*(c.Layers+1))
	}
	return t
}

// exact is the tiny model on a backend, with pieces of 7 rows.
func exact(t testing.TB, wrap func(step.Backend) step.Backend) *llama.Model {
	t.Helper()
	led := new(cache.Ledger)
	b := newBackend(t, led)
	if wrap != nil {
		b = wrap(b)
	}
	m := load(t, golden.TinyModel(t), b, led)
	m.FixPace(7)
	return m
}

// ownTeach loads the built-in model for one test, for tests that run side by side.
func ownTeach(t testing.TB) *llama.Model {
	led := new(cache.Ledger)
	return load(t, golden.TeachModel(t), newBackend(t, led), led)
}

// needsScorer skips where a device chooses what stays: the host's ways are tried on backends whose host does.
func needsScorer(t testing.TB) {
	t.Helper()
	if onGPU {
		t.Skip("the host chooses nothing on WebGPU")
	}
}

// prose are ids of the built-in model: an English story of so many tokens.
func prose(t testing.TB, n int) []int32 {
	t.Helper()
	prompts, _ := golden.Teach(t)
	var ids []int32
	for i := 0; len(ids) < n; i++ {
		ids = append(ids, prompts[i%len(prompts)].IDs...)
	}
	return ids[:n]
}

// held are the positions of all lists, [layer][KV head].
func held(s *llama.Session) [][][]int32 {
	g := s.Cache().Geometry()
	out := make([][][]int32, g.Layers)
	for l := range out {
		for h := range g.KVHeads {
			out[l] = append(out[l], s.Kept(l, h))
		}
	}
	return out
}
