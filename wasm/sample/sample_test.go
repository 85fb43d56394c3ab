package sample

import (
	"errors"
	"math"
	"slices"
	"testing"
)

var inf = float32(math.Inf(1))

// softmax in float64 is the definition that the sampler is checked against.
func softmax(logits []float32, temperature float64) []float64 {
	p := make([]float64, len(logits))
	peak := slices.Max(logits)
	var sum float64
	for i, v := range logits {
		p[i] = math.Exp(float64(v-peak) / temperature)
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}

// logs are logits whose softmax is in proportion to p.
func logs(p ...float64) []float32 {
	v := make([]float32, len(p))
	for i := range p {
		v[i] = float32(math.Log(p[i]))
	}
	return v
}

// noisy are n logits of a wide spread without ties.
func noisy(n int) []float32 {
	s := Sampler{random: 42}
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(12 * (s.uniform() - 0.5))
	}
	return v
}

// TestSplitMix64 uses the generator's published sequence for seed 1234567.
func TestSplitMix64(t *testing.T) {
	s := Sampler{random: 1234567}
	for _, want := range []uint64{6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821} {
		if got := s.uniform(); got != float64(want>>11)/(1<<53) {
			t.Errorf("%v, want %v", got, float64(want>>11)/(1<<53))
		}
	}
}

func TestGreedy(t *testing.T) {
	for _, tt := range []struct {
		logits []float32
		want   int32
	}{
		{[]float32{1, 3, 2}, 1},
		{[]float32{3, 1, 3}, 0},
		{[]float32{-1e30, -2, -3}, 1},
	} {
		if c, err := New(Params{Seed: 9}).Pick(tt.logits, nil); err != nil || c.ID != tt.want {
			t.Errorf("%v: %d, %v; want %d", tt.logits, c.ID, err, tt.want)
		}
	}
}

// TestChoice checks that the reported probabilities are the softmax of the logits as they came.
func TestChoice(t *testing.T) {
	logits := noisy(1000)
	want := softmax(logits, 1)
	order := make([]int32, len(logits))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int {
		if logits[a] > logits[b] {
			return -1
		}
		return 1
	})
	near := func(got float32, want float64) bool { return math.Abs(float64(got)-want) <= 1e-6*want }
	s := New(Params{Temperature: 1.7, TopK: 40, TopP: 0.8, MinP: 0.01, Repeat: 1.5, Seed: 3})
	for range 20 {
		c, err := s.Pick(logits, order[:3])
		if err != nil {
			t.Fatal(err)
		}
		if !near(c.Prob, want[c.ID]) || !slices.Equal(c.TopIDs[:], order[:5]) {
			t.Fatalf("token %d has %v, want %v; top %v, want %v", c.ID, c.Prob, want[c.ID], c.TopIDs, order[:5])
		}
		for i, p := range c.TopProbs {
			if !near(p, want[order[i]]) {
				t.Fatalf("top %d has %v, want %v", i, p, want[order[i]])
			}
		}
	}
	c, err := New(Params{}).Pick([]float32{1, 2, 2}, nil)
	if err != nil || c.TopIDs != [5]int32{1, 2, 0, -1, -1} || c.TopProbs[3] != 0 {
		t.Errorf("three tokens, two of them equal: %+v, %v", c, err)
	}
}

// TestDistribution draws many tokens and compares their frequencies with the exact distribution of each setting, by
// Pearson's statistic: for k outcomes its mean is k−1 and its variance 2(k−1), so that five standard deviations are
// ample for a fixed seed. An outcome of probability 0 must not occur at all.
func TestDistribution(t *testing.T) {
	base := []float64{0.03, 0.4, 0.05, 0.2, 0.1, 0.22}
	pow := func(p []float64, e float64) []float64 {
		q := make([]float64, len(p))
		for i := range p {
			q[i] = math.Pow(p[i], e)
		}
		return q
	}
	for _, tt := range []struct {
		name   string
		p      Params
		recent []int32
		want   []float64 // up to a factor
	}{
		{"plain", Params{Temperature: 1}, nil, base},
		{"cold", Params{Temperature: 0.5}, nil, pow(base, 2)},
		{"hot", Params{Temperature: 2}, nil, pow(base, 0.5)},
		{"top-k", Params{Temperature: 1, TopK: 3}, nil, []float64{0, 0.4, 0, 0.2, 0, 0.22}},
		{"top-k of all", Params{Temperature: 1, TopK: 99}, nil, base},
		{"top-p: .4+.22 < .63 ≤ .4+.22+.2", Params{Temperature: 1, TopP: 0.63}, nil, []float64{0, 0.4, 0, 0.2, 0, 0.22}},
		{"top-p: .4+.22 ≥ .61", Params{Temperature: 1, TopP: 0.61}, nil, []float64{0, 0.4, 0, 0, 0, 0.22}},
		{"top-p of what top-k left: .4/.82 < .5", Params{Temperature: 1, TopK: 3, TopP: 0.5}, nil, []float64{0, 0.4, 0, 0, 0, 0.22}},
		{"top-p at least one", Params{Temperature: 1, TopP: 1e-9}, nil, []float64{0, 1, 0, 0, 0, 0}},
		{"min-p: at least .24·.4 = .096", Params{Temperature: 1, MinP: 0.24}, nil, []float64{0, 0.4, 0, 0.2, 0.1, 0.22}},
		{"min-p 1 is the likeliest", Params{Temperature: 1, MinP: 1}, nil, []float64{0, 1, 0, 0, 0, 0}},
		{"min-p after top-k", Params{Temperature: 1, TopK: 3, MinP: 0.52}, nil, []float64{0, 0.4, 0, 0, 0, 0.22}},
		// Every logit is a logarithm of a probability, so negative: the penalty multiplies it, p becomes p^1.5.
		{"penalty", Params{Temperature: 1, Repeat: 1.5}, []int32{1, 4, 1, -7, 6}, []float64{0.03, math.Pow(0.4, 1.5), 0.05, 0.2, math.Pow(0.1, 1.5), 0.22}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			logits := logs(base...)
			kept := slices.Clone(logits)
			tt.p.Seed = 2024
			s := New(tt.p)
			var sum float64
			for _, p := range tt.want {
				sum += p
			}
			const draws = 20_000
			count := make([]float64, len(base))
			for range draws {
				c, err := s.Pick(logits, tt.recent)
				if err != nil {
					t.Fatal(err)
				}
				count[c.ID]++
			}
			var chi2, outcomes float64
			for i, p := range tt.want {
				switch expect := draws * p / sum; {
				case expect > 0:
					outcomes++
					chi2 += (count[i] - expect) * (count[i] - expect) / expect
				case count[i] > 0:
					t.Errorf("token %d came %v times, but is excluded", i, count[i])
				}
			}
			if k := outcomes - 1; chi2 > k+5*math.Sqrt(2*k) {
				t.Errorf("χ² = %.1f for %v outcomes: counts %v, want in proportion to %v", chi2, outcomes, count, tt.want)
			}
			if !slices.Equal(kept, logits) {
				t.Error("Pick changed the logits")
			}
		})
	}
}

// TestPenalty checks CTRL's rule on both signs: 3/1.5 = 2 and −1·1.5 = −1.5.
func TestPenalty(t *testing.T) {
	s := New(Params{Repeat: 1.5})
	if _, err := s.Pick([]float32{3, 2.5, -1, -1.2, 0}, []int32{0, 2, 4, 0, -1, 5}); err != nil {
		t.Fatal(err)
	}
	if want := []float32{2, 2.5, -1.5, -1.2, 0}; !slices.Equal(s.scores, want) {
		t.Errorf("%v, want %v", s.scores, want)
	}
}

// TestFilters checks the sets that remain against their definitions on a real vocabulary's size.
func TestFilters(t *testing.T) {
	logits := noisy(49_152)
	prob := softmax(logits, 0.9)
	order := make([]int, len(prob))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		if prob[a] > prob[b] {
			return -1
		}
		return 1
	})
	var sum float64
	for n := 0; ; n++ {
		if sum += prob[order[n]]; sum >= 0.3 {
			order = order[:n+1] // the minimal set: without its last token it falls short
			break
		}
	}
	s := New(Params{Temperature: 0.9, TopP: 0.3, MinP: 0.5, Seed: 5})
	for range 100 {
		c, err := s.Pick(logits, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(order, int(c.ID)) || prob[c.ID] < 0.5*prob[order[0]]*(1-1e-6) {
			t.Fatalf("token %d of probability %v is not among those that remain", c.ID, prob[c.ID])
		}
	}
	// The ranking's order is that of a full sort.
	s.rank.reset(logits, logits, -inf)
	for i, want := range order {
		if got := s.rank.at(i); int(got) != want {
			t.Fatalf("rank %d is token %d, want %d", i, got, want)
		}
	}
}

func TestExp(t *testing.T) {
	for x := 0.0; x > -800; x = x*1.01 - 1e-4 {
		if got, want := exp(x), math.Exp(x); math.Abs(got-want) > 1e-9*want+1e-300 {
			t.Errorf("e^%v = %v, want %v", x, got, want)
		}
	}
}

func TestSeed(t *testing.T) {
	logits := noisy(500)
	run := func(seed uint64) (ids []int32) {
		s := New(Params{Temperature: 1.5, Seed: seed})
		for range 30 {
			c, err := s.Pick(logits, nil)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, c.ID)
		}
		return ids
	}
	if !slices.Equal(run(7), run(7)) {
		t.Error("one seed, two answers")
	}
	if slices.Equal(run(7), run(8)) {
		t.Error("two seeds, one answer")
	}
}

func TestUnusableLogits(t *testing.T) {
	nan := float32(math.NaN())
	for _, logits := range [][]float32{nil, {}, {1, nan, 2}, {nan}, {1, 2, inf}, {-inf, 1, 2}, {0, 0, 0}, {5}} {
		if _, err := New(Params{Temperature: 1}).Pick(logits, nil); !errors.Is(err, ErrLogits) {
			t.Errorf("%v: error %v", logits, err)
		}
	}
}

// TestExtremes: settings out of range and huge logits still give a token.
func TestExtremes(t *testing.T) {
	logits := []float32{math.MaxFloat32, -math.MaxFloat32, 0, 1}
	for _, v := range []float32{-1, 0, 1e-38, 1, 1e30, inf, float32(math.NaN())} {
		p := Params{Temperature: v, TopP: v, MinP: v, Repeat: v, TopK: int(math.Float32bits(v) % 5)}
		for range 5 {
			if c, err := New(p).Pick(logits, []int32{0, 1, 2, 3}); err != nil || c.ID < 0 || int(c.ID) >= len(logits) {
				t.Errorf("%+v: %+v, %v", p, c, err)
			}
		}
	}
}

func TestValidate(t *testing.T) {
	nan := float32(math.NaN())
	for _, tt := range []struct {
		p     Params
		field string
	}{
		{Params{}, ""},
		{Params{Temperature: 1, TopK: 40, TopP: 1, MinP: 1, Repeat: 1.2}, ""},
		{Params{Temperature: -1}, "temperature"},
		{Params{Temperature: nan}, "temperature"},
		{Params{TopP: 1.01}, "top_p"},
		{Params{MinP: nan}, "min_p"},
		{Params{Repeat: inf}, "repeat"},
		{Params{TopK: -1}, "top_k"},
	} {
		var bad *ParamError
		err := tt.p.Validate()
		if errors.As(err, &bad) != (tt.field != "") || bad != nil && bad.Field != tt.field {
			t.Errorf("%+v: %v, want %q", tt.p, err, tt.field)
		}
	}
}

func TestPickAllocatesNothing(t *testing.T) {
	logits := noisy(49_152)
	s := New(Params{Temperature: 0.8, TopK: 50, TopP: 0.95, MinP: 0.05, Repeat: 1.1})
	recent := []int32{1, 2, 3}
	if n := testing.AllocsPerRun(10, func() {
		if _, err := s.Pick(logits, recent); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations per token", n)
	}
}

func BenchmarkPick(b *testing.B) {
	logits := noisy(49_152)
	for name, p := range map[string]Params{
		"greedy":  {},
		"plain":   {Temperature: 0.8},
		"filters": {Temperature: 0.8, TopK: 50, TopP: 0.95, MinP: 0.05, Repeat: 1.1},
		"top-p":   {Temperature: 0.8, TopP: 0.95},
	} {
		b.Run(name, func(b *testing.B) {
			s := New(p)
			for b.Loop() {
				if _, err := s.Pick(logits, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A sampler made of another's state, or moved past its draws, draws what that one draws next.
func TestStateAndSkip(t *testing.T) {
	p := Params{Temperature: 1, TopP: 0.9, Seed: 42}
	logits := []float32{1, 2, 3, 2.5, 0.5, -1, 2.2}
	first, skipped := New(p), New(p)
	for range 5 {
		if _, err := first.Pick(logits, nil); err != nil {
			t.Fatal(err)
		}
	}
	copied := New(first.State())
	skipped.Skip(5)
	for i := range 20 {
		want, _ := first.Pick(logits, nil)
		a, _ := copied.Pick(logits, nil)
		b, _ := skipped.Pick(logits, nil)
		if a != want || b != want {
			t.Fatalf("draw %d: %d and %d, want %d", i, a.ID, b.ID, want.ID)
		}
	}
}
