package stage

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func near(t *testing.T, what string, got []float32, want []float64, within float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	for i := range got {
		if !(math.Abs(float64(got[i])-want[i]) <= within) {
			t.Errorf("%s[%d] = %v, want %v", what, i, got[i], want[i])
		}
	}
}

func numbers(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

// attention is the plain definition: [n][keys] with zeros above the diagonal.
func attention(q []float32, stride, n int, k []float32, d int) [][]float64 {
	keys := len(k) / d
	out := make([][]float64, n)
	for i := range out {
		out[i] = make([]float64, keys)
		sum := 0.0
		for j := range keys - n + 1 + i {
			dot := 0.0
			for c := range d {
				dot += float64(q[i*stride+c]) * float64(k[j*d+c])
			}
			out[i][j] = math.Exp(dot / math.Sqrt(float64(d)))
			sum += out[i][j]
		}
		for j := range out[i] {
			out[i][j] /= sum
		}
	}
	return out
}

// Two queries on four keys, worked out by hand: rows [.575975 .140029 .283995 0] and [.165119 .334881 .334881 .165119].
func TestAttention(t *testing.T) {
	q, k := []float32{1, 0, 0, 1}, []float32{2, 0, 0, 1, 1, 1, 0, 0}
	prefix, all, row := make([]float32, 2), make([]float32, 4), make([]float32, 4)
	Attention(Go{}, prefix, row, q, 2, 2, k, 2)
	near(t, "prefix", prefix, []float64{.741095, .47491}, 1e-6)
	Attention(Go{}, all, row, q, 2, 2, k, 2)
	near(t, "columns", all, []float64{.741095, .47491, .618876, .165119}, 1e-6)
}

func TestIndicator(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const d, keys, stride, gamma = 4, 9, 10, 200
	for _, n := range []int{1, 2, 5, 9} {
		q, k := numbers(rng, stride*n), numbers(rng, d*keys)
		want, wantH, wantV := make([]float64, keys-n), 0.0, 0.0
		rows := attention(q, stride, n, k, d)
		for j := range want {
			mean, variance := 0.0, 0.0
			for _, r := range rows {
				mean += r[j] / float64(n)
				wantH -= r[j] * math.Log(r[j]+1e-10)
			}
			for _, r := range rows {
				if n > 1 {
					variance += (r[j] - mean) * (r[j] - mean) / float64(n-1)
				}
			}
			wantV += variance
			want[j] = mean + gamma*variance
		}
		out, row, mean, m2 := make([]float32, keys-n), make([]float32, keys), numbers(rng, keys), numbers(rng, keys)
		h, v := Indicator(Go{}, out, row, mean, m2, q, stride, n, k, d, gamma)
		near(t, "indicator", out, want, 1e-4)
		near(t, "entropy and variance", []float32{float32(h), float32(v)}, []float64{wantH, wantV}, 1e-5)
	}
}

// Zero queries look everywhere alike: over m keys an entropy of ln m a query, but for the window's own part, and no
// variance but for what the causal mask makes.
func TestIndicatorOfOneUniformQuery(t *testing.T) {
	const m = 7
	k := make([]float32, m+1)
	k[m] = -1e4 // the query's own key gets nothing
	row, mean, m2, out := make([]float32, m+1), make([]float32, m), make([]float32, m), make([]float32, m)
	h, v := Indicator(Go{}, out, row, mean, m2, []float32{1}, 1, 1, k, 1, 200)
	near(t, "entropy and variance", []float32{float32(h), float32(v)}, []float64{math.Log(m), 0}, 1e-6)
	near(t, "indicator", out, slices.Repeat([]float64{1.0 / m}, m), 1e-6)
}

func TestPool(t *testing.T) {
	x := []float32{.30, .02, .01, .25, .01, .20}
	out := make([]float32, len(x))
	PoolAvg(out, x, 3)
	near(t, "average", out, []float64{.1066667, .11, .0933333, .09, .1533333, .07}, 1e-6)
	PoolMax(out, x, 3)
	near(t, "maximum", out, []float64{.3, .3, .25, .25, .25, .2}, 1e-7)
	PoolAvg(out[:2], x[:2], 5)
	near(t, "shorter than the pool", out[:2], []float64{.064, .064}, 1e-6)
	PoolMax(out[:2], []float32{-3, -2}, 7)
	near(t, "negative", out[:2], []float64{-2, -2}, 0)
	PoolAvg(nil, nil, 5)
	PoolMax(nil, nil, 5)
}

func TestReduce(t *testing.T) {
	rows := [][]float32{{1, 2}, {5, -2}, {0, 3}}
	out := []float32{9, 9}
	Sum(out, rows)
	near(t, "sum", out, []float64{6, 3}, 0)
	Mean(out, rows)
	near(t, "mean", out, []float64{2, 1}, 1e-6)
	Max(out, rows)
	near(t, "max", out, []float64{5, 3}, 0)
}

func TestNorms(t *testing.T) {
	out := make([]float32, 3)
	Norms(out, []float32{3, 4, 0, 0, -5, 12}, 2, -1)
	near(t, "norms", out, []float64{-5, 0, -13}, 1e-6)
}

// Two keys of one direction and one across: their mean direction is (2, 1)/√5.
func TestKeyDiff(t *testing.T) {
	out := make([]float32, 4)
	KeyDiff(out, []float32{2, 0, 7, 0, 0, 3, 0, 0}, make([]float32, 2), 2)
	near(t, "KeyDiff", out, []float64{-2 / math.Sqrt(5), -2 / math.Sqrt(5), -1 / math.Sqrt(5), 0}, 1e-6)
	KeyDiff(out[:2], []float32{1, 0, -1, 0}, make([]float32, 2), 2)
	near(t, "directions that cancel", out[:2], []float64{0, 0}, 0)
}

func TestPerQuery(t *testing.T) {
	sums := []float32{6, 6, 6}
	PerQuery(sums, []int32{0, 3, 5}, 0)
	near(t, "per query", sums, []float64{1, 2, 6}, 1e-6)
	sums = []float32{6, 6, 6, 6}
	PerQuery(sums, []int32{0, 30, 50, 51}, 2)
	near(t, "two of them new", sums, []float64{2, 2, 3, 6}, 1e-6)
}

// Random scores are in [0, 1), near ½ on average, and others for another seed, layer, head or position.
func TestRandom(t *testing.T) {
	pos := make([]int32, 4096)
	for i := range pos {
		pos[i] = int32(i)
	}
	a, b := make([]float32, len(pos)), make([]float32, len(pos))
	Random(a, pos, 1, 0, 0)
	mean := 0.0
	for _, x := range a {
		if !(x >= 0 && x < 1) {
			t.Fatalf("score %v", x)
		}
		mean += float64(x) / float64(len(a))
	}
	if math.Abs(mean-.5) > .02 { // more than four standard deviations of 1/√(12·4096)
		t.Errorf("mean %v", mean)
	}
	for _, other := range [][3]int{{2, 0, 0}, {1, 1, 0}, {1, 0, 1}} {
		Random(b, pos, uint64(other[0]), other[1], other[2])
		same := 0
		for i := range a {
			if a[i] == b[i] {
				same++
			}
		}
		if same > 3 {
			t.Errorf("%v: %d scores are the same", other, same)
		}
	}
	Random(b, pos[7:8], 1, 0, 0)
	if b[0] != a[7] {
		t.Errorf("a token's score depends on its neighbours: %v and %v", b[0], a[7])
	}
}

// For keys k the expectation of exp(q·k/√d) over q ~ N(μ, Σ) is exp(μ·k/√d + ½·kᵀΣk/d): checked by drawing queries.
func TestExpectedIsAnExpectation(t *testing.T) {
	const d, keys, draws = 2, 3, 200_000
	mean, k := []float32{.5, -.3}, []float32{1, 0, -.5, 1, .2, .7}
	l := [2][2]float64{{.8, 0}, {.3, .5}} // Σ = l·lᵀ
	cov := []float32{.64, .24, .24, .34}
	rng := rand.New(rand.NewPCG(5, 6))
	want, sum := make([]float64, keys), 0.0
	for range draws {
		x, y := rng.NormFloat64(), rng.NormFloat64()
		q := [2]float64{float64(mean[0]) + l[0][0]*x, float64(mean[1]) + l[1][0]*x + l[1][1]*y}
		for j := range want {
			e := math.Exp((q[0]*float64(k[2*j]) + q[1]*float64(k[2*j+1])) / math.Sqrt(d))
			want[j] += e
			sum += e
		}
	}
	for j := range want {
		want[j] /= sum
	}
	got := make([]float32, keys)
	Expected(Go{}, got, mean, cov, k, make([]float32, d+1))
	near(t, "expected", got, want, 3e-3)
	lite := make([]float32, keys)
	Expected(Go{}, lite, mean, nil, k, nil)
	near(t, "without covariance", lite, attention(mean, d, 1, append(slices.Clone(k), mean...), d)[0][:keys], 1) // a probability
	if got[0] == lite[0] {
		t.Errorf("covariance changes nothing: %v", got)
	}
}

// A rotated covariance gives rotated keys what it gave them before.
func TestRotationKeepsProducts(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	const d, pairs = 6, 2 // the last two channels stay
	half := numbers(rng, d*d)
	cov := make([]float32, d*d)
	for i := range d {
		for j := range d {
			for c := range d {
				cov[i*d+j] += half[i*d+c] * half[j*d+c]
			}
		}
	}
	for _, neox := range []bool{false, true} {
		r := Rotation{make([]float32, 2*pairs), neox}
		for c := range pairs {
			sin, cos := math.Sincos(rng.Float64() * 6)
			r.CosSin[2*c], r.CosSin[2*c+1] = float32(cos), float32(sin)
		}
		quadratic := func(x, cov []float32) (sum float64) {
			for i := range d {
				for j := range d {
					sum += float64(x[i]) * float64(cov[i*d+j]) * float64(x[j])
				}
			}
			return sum
		}
		x := numbers(rng, d)
		want := quadratic(x, cov)
		turned, y := slices.Clone(cov), slices.Clone(x)
		r.ApplyBoth(turned, d)
		r.Apply(y)
		near(t, "product", []float32{float32(quadratic(y, turned))}, []float64{want}, 1e-4*math.Abs(want))
		if y[d-1] != x[d-1] {
			t.Errorf("a channel beyond the pairs moved")
		}
	}
}

// Over whole turns the mean of rotations is nothing; over one position it is that rotation.
func TestMeanRotation(t *testing.T) {
	rope := func(pos int) []float32 {
		sin, cos := math.Sincos(float64(pos) * math.Pi / 4)
		return []float32{float32(cos), float32(sin)}
	}
	near(t, "one", MeanRotation(rope, true, 2, 1).CosSin, []float64{0, 1}, 1e-6)
	near(t, "whole turns", MeanRotation(rope, true, 3, 16).CosSin, []float64{0, 0}, 1e-6)
}

// No key within its page exceeds the page's score, and one page's bound is reached.
func TestPageScores(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	const d, page = 4, 3
	for range 20 {
		k, q := numbers(rng, d*page), numbers(rng, d)
		bounds, score := numbers(rng, 2*d), make([]float32, 1)
		for j := range page {
			Bound(bounds, k[j*d:][:d], j == 0)
		}
		PageScores(score, q, bounds)
		dots := make([]float32, page)
		Go{}.Dots(dots, q, k, 1)
		if top := slices.Max(dots); top > score[0]+1e-5 {
			t.Errorf("a key scores %v in a page of at most %v", top, score[0])
		}
		Bound(bounds, q, true)
		PageScores(score, q, bounds)
		own := make([]float32, 1)
		Go{}.Dots(own, q, q, 1)
		near(t, "a page of one key", score, []float64{float64(own[0])}, 1e-5)
	}
}

func TestPages(t *testing.T) {
	scores := []float32{3, 1, 3, 9, 0}
	for _, c := range []struct {
		n    int
		want []int32
	}{
		{0, []int32{4}},
		{1, []int32{4}},
		{2, []int32{3, 4}},
		{3, []int32{0, 3, 4}},
		{9, []int32{0, 1, 2, 3, 4}},
	} {
		marked := []bool{true, true, true, true, true}
		Pages(marked, scores, 4, c.n, nil)
		if got := Indices(marked); !slices.Equal(got, c.want) {
			t.Errorf("%d pages: %v, want %v", c.n, got, c.want)
		}
	}
}

func TestDots(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, d := range []int{1, 3, 4, 7, 64} {
		q, k := numbers(rng, d), numbers(rng, 5*d)
		want := make([]float64, 5)
		for i := range want {
			for c := range d {
				want[i] += .5 * float64(q[c]) * float64(k[i*d+c])
			}
		}
		got := make([]float32, 5)
		Go{}.Dots(got, q, k, .5)
		near(t, "dots", got, want, 1e-5)
	}
}

func TestSoftmax(t *testing.T) {
	row := []float32{1000, 1000 + float32(math.Log(3)), float32(math.Inf(-1))}
	Go{}.Softmax(row)
	near(t, "softmax", row, []float64{.25, .75, 0}, 1e-4)
	Go{}.Softmax(nil)
}

// Scoring allocates nothing, whatever the number of tokens.
func TestScoringDoesNotAllocate(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	const d, keys, n = 8, 64, 4
	q, k := numbers(rng, n*d), numbers(rng, keys*d)
	out, row, mean, m2 := make([]float32, keys-n), make([]float32, keys), make([]float32, keys), make([]float32, keys)
	marked, work, cov := make([]bool, keys-n), make([]uint32, 0, keys), numbers(rng, d*d)
	if got := testing.AllocsPerRun(5, func() {
		var l Loops = Go{}
		clear(marked)
		Attention(l, out, row, q, d, n, k, d)
		Indicator(l, out, row, mean, m2, q, d, n, k, d, 200)
		PoolAvg(row[:len(out)], out, 5)
		Norms(row, k, d, -1)
		KeyDiff(row, k, mean[:d], d)
		Expected(l, row, mean[:d], cov, k, m2)
		_, work = Top(marked, out, 9, work)
	}); got != 0 {
		t.Errorf("%v allocations", got)
	}
}
