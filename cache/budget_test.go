package cache

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// The worked examples of the built-in model: a key and a value take 64 bytes each, a position and a score 4, and the
// cap buys so few slots that pages have 2 lanes.
func TestBudgetOfBuiltInModel(t *testing.T) {
	quarter := builtIn.Share(62, .25)
	for _, s := range []struct {
		share float64
		want  int64
	}{
		{.25, 8 * 16 * 132}, // 16,896 bytes
		{.5, 8 * 32 * 132},
		{.75, 8 * 48 * 132},
		{1, 8 * 64 * 132},
		{.26, 8 * (18*128 + 3*32)}, // 17,572 bytes are 17 slots a list and a bit
	} {
		if got := builtIn.Share(62, s.share); got != s.want {
			t.Errorf("a share of %g of 62 tokens is %d bytes, want %d", s.share, got, s.want)
		}
	}
	scores, bound, sums := builtIn, builtIn, builtIn
	scores.Scores, bound.Bound, sums.Sums = true, 16, true
	for name, c := range map[string]struct {
		g               Geometry
		cap             int64
		perStep, ragged bool
		want            Budget
	}{
		"quarter, every step": {builtIn, quarter, true, false, Budget{15, 1, 8 * 16}},
		"quarter, one shot":   {builtIn, quarter, false, false, Budget{15, 1, 8 * 16}},
		"half, every step":    {builtIn, 33792, true, false, Budget{31, 1, 8 * 32}},
		"half, one shot":      {builtIn, 33792, false, false, Budget{29, 3, 8 * 32}},
		// Of a list's 2,112 bytes 14 slots take 7·256 + 2·32 for positions + 2·32 for scores = 1,920, and 15 slots 2,176.
		"quarter with scores": {scores, quarter, true, false, Budget{13, 1, 8 * 14}},
		// A page of bounds takes 2·32·4 = 256: with 14 slots exactly 2,112.
		"quarter with bounds": {bound, quarter, true, false, Budget{13, 1, 8 * 14}},
		"one byte less":       {bound, quarter - 1, true, false, Budget{11, 1, 8 * 12}},
		// A record of sums takes 65·4 = 260, so 272: with 12 slots 6·256 + 64 + 272 = 1,872.
		"quarter with sums": {sums, quarter, true, false, Budget{11, 1, 8 * 12}},
		// 118 slots in 8 lists: ⌈(118 + 8·1)/2⌉ = 63 pages of keys and of values and ⌈(118 + 8·7)/8⌉ = 22 of positions take
		// 63·256 + 22·32 = 16,832. One slot more takes 64·256 + 22·32 = 17,088.
		"quarter, ragged": {builtIn, quarter, true, true, Budget{13, 1, 118}},
		// Where all pages have 8 lanes, 16 of each kind promise 16·8 − 8·7 slots.
		"wide pages, ragged": {builtIn.lanes(8, 8), 16 * 8 * 132, true, true, Budget{8, 1, 72}},
		"two slots a list":   {builtIn, 8 * (256 + 32), true, false, Budget{1, 1, 16}},
		"one slot a list":    {builtIn.lanes(1, 1), 8 * (128 + 32), true, false, Budget{}},
		"a large cap":        {builtIn, builtIn.lanes(8, 8).FullBytes(2048), false, false, Budget{2032, 16, 8 * 2048}},
	} {
		if got := c.g.Budget(c.cap, c.perStep, c.ragged); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestReserveFor(t *testing.T) {
	for b, want := range map[int]int{-1: 1, 0: 1, 1: 1, 15: 1, 16: 2, 127: 15, 128: 16, 5000: 16} {
		if got := ReserveFor(b, false); got != want {
			t.Errorf("a reserve of %d for %d tokens, want %d", got, b, want)
		}
		if got := ReserveFor(b, true); got != 1 {
			t.Errorf("a reserve of %d for %d tokens and a rule for every step", got, b)
		}
	}
}

// randomGeometry is any shape, with any of what recipes keep.
func randomGeometry(r *rand.Rand) Geometry {
	return Geometry{
		Layers: 1 + r.IntN(4), KVHeads: 1 + r.IntN(3), HeadDim: 1 + r.IntN(40),
		Key: Format(r.IntN(2)), Value: Format(r.IntN(2)), PageK: r.IntN(10), PageV: r.IntN(10),
		Scores: r.IntN(2) == 0, Bound: max(0, r.IntN(40)-20), Sums: r.IntN(2) == 0,
	}
}

// B + reserve fits and B + 1 with its reserve does not.
func TestBudgetIsTheLargest(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 4))
		g := randomGeometry(r)
		capBytes := int64(r.IntN(1 << (6 + r.IntN(14))))
		fixed := g.WithPages(capBytes)
		lists := g.Layers * g.KVHeads
		for _, perStep := range []bool{false, true} {
			for _, ragged := range []bool{false, true} {
				name := fmt.Sprintf("seed %d: %+v in %d bytes, every step %v, ragged %v", seed, fixed, capBytes, perStep, ragged)
				takes := func(tokens int) int64 {
					each := tokens + ReserveFor(tokens, perStep)
					if ragged {
						return fixed.RaggedBytes(each * lists)
					}
					return fixed.FullBytes(each)
				}
				b := g.Budget(capBytes, perStep, ragged)
				if takes(b.Tokens+1) <= capBytes {
					t.Errorf("%s: %d tokens, but one more fits", name, b.Tokens)
				}
				if b.Tokens == 0 {
					if b != (Budget{}) {
						t.Errorf("%s: %+v", name, b)
					}
					continue
				}
				if b.Reserve != ReserveFor(b.Tokens, perStep) || takes(b.Tokens) > capBytes || b.Slots < lists*(b.Tokens+b.Reserve) {
					t.Errorf("%s: %+v takes %d", name, b, takes(b.Tokens))
				}
			}
		}
	}
}

// Whatever the lengths of the lists, as many slots as a ragged budget promises can be had.
func TestRaggedSlotsFit(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 6))
		g := randomGeometry(r)
		c, _ := open(t, g, int64(2000+r.IntN(60000)))
		g = c.Geometry()
		lists, left := g.Layers*g.KVHeads, g.Budget(c.Cap(), true, true).Slots
		lengths := make([]int, lists)
		if r.IntN(2) == 0 { // the worst: one slot in the last page of every list but one
			for i := range lengths[1:] {
				n := min(left, 1+g.PageK*r.IntN(3))
				lengths[i+1] = n
				left -= n
			}
		} else {
			for i := range lengths[1:] {
				lengths[i+1] = r.IntN(left + 1)
				left -= lengths[i+1]
			}
		}
		lengths[0] = left
		r.Shuffle(lists, func(i, j int) { lengths[i], lengths[j] = lengths[j], lengths[i] })
		for i, n := range lengths {
			if _, err := c.Put(i/g.KVHeads, i%g.KVHeads, newPositions(r, nil, n)); err != nil {
				t.Fatalf("seed %d: %+v in %d bytes: list %d of lengths %v: %v", seed, g, c.Cap(), i, lengths, err)
			}
		}
	}
}

// Shares are whole pages, at least the share, and less than one page of every list above it.
func TestShare(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 8))
		g := randomGeometry(r)
		tokens, share := 1+r.IntN(300), r.Float64()
		bare := g
		bare.Scores, bare.Bound, bare.Sums = false, 0, false
		full, got := g.Share(tokens, 1), g.Share(tokens, share)
		if own := bare.WithPages(full); own.FullTokens(full) < tokens || own.FullTokens(full-1) >= tokens {
			t.Errorf("seed %d: %d tokens are %d bytes in full, which hold %d", seed, tokens, full, own.FullTokens(full))
		}
		fixed := bare.WithPages(got)
		n := fixed.FullTokens(got)
		if float64(got) < share*float64(full) || fixed.FullBytes(n) != got && got != full {
			t.Errorf("seed %d: %g of %d bytes is %d; %d tokens take %d", seed, share, full, got, n, fixed.FullBytes(n))
		}
		for n > 0 && fixed.FullBytes(n) == got {
			n--
		}
		if float64(fixed.FullBytes(n)) >= share*float64(full) {
			t.Errorf("seed %d: %g of %d bytes is %d, but %d would do", seed, share, full, got, fixed.FullBytes(n))
		}
		if got > full {
			t.Errorf("seed %d: %g of %d bytes is %d", seed, share, full, got)
		}
		if plain := bare.Share(tokens, share); plain != got {
			t.Errorf("seed %d: %d bytes, %d without what recipes keep", seed, got, plain)
		}
	}
}

func TestHostileShares(t *testing.T) {
	full := builtIn.Share(62, 1)
	for _, c := range []struct {
		tokens int
		share  float64
		want   int64
	}{
		{62, math.NaN(), 0},
		{62, 0, 0},
		{62, -1, 0},
		{62, math.Inf(-1), 0},
		{0, .5, 0},
		{-1, .5, 0},
		{math.MinInt, 1, 0},
		{62, math.Inf(1), full},
		{62, 2, full},
		{62, math.SmallestNonzeroFloat64, 0},
		{62, 1e-9, 0},
	} {
		if got := builtIn.Share(c.tokens, c.share); got != c.want {
			t.Errorf("Share(%d, %g) = %d, want %d", c.tokens, c.share, got, c.want)
		}
	}
	if got := builtIn.Share(math.MaxInt, .5); got < MaxCap {
		t.Errorf("half of MaxInt tokens are %d bytes", got)
	}
	// A page of 2 lanes of one f16 takes 16 bytes, as one of 8 lanes does. 500 of 1,600 bytes are 24 slots in narrow pages
	// and would be 26 with 544 bytes, but 512 are 64 slots in wide ones.
	if got := (Geometry{Layers: 1, KVHeads: 1, HeadDim: 1, Key: F16, Value: F16}).Share(200, 500./1600); got != 512 {
		t.Errorf("500 bytes in whole pages are %d, want 512", got)
	}
	bad := Geometry{Layers: -1}
	if bad.Share(62, .5) != 0 || bad.Budget(1<<20, true, true) != (Budget{}) || bad.RaggedBytes(5) != 0 {
		t.Error("an invalid geometry has a share, or a budget")
	}
	for _, capBytes := range []int64{math.MinInt64, -1, 0, 1, 100} {
		for _, ragged := range []bool{false, true} {
			if got := builtIn.Budget(capBytes, false, ragged); got != (Budget{}) {
				t.Errorf("a budget of %+v in %d bytes", got, capBytes)
			}
		}
	}
	for _, ragged := range []bool{false, true} {
		if got, want := builtIn.Budget(math.MaxInt64, false, ragged), builtIn.Budget(MaxCap, false, ragged); got != want || got.Tokens < 1 {
			t.Errorf("a budget of %+v, at most %+v is possible", got, want)
		}
	}
	if builtIn.lanes(8, 8).RaggedBytes(math.MaxInt) < MaxCap || builtIn.RaggedBytes(-1) != 0 {
		t.Error("RaggedBytes of hostile numbers")
	}
}
