package step

import (
	"math"
	"testing"
)

func TestCode(t *testing.T) {
	for p, want := range map[float64]uint8{
		1: 255, 0: 0, -1: 0, math.NaN(): 0, 1e-5: 0, 1e-4: 0, 2: 255,
		0.01: 128, // 127.5
		0.1:  191, // 191.25
		1e-3: 64,  // 63.75
	} {
		if got := Code(p); got != want {
			t.Errorf("Code(%v) = %d, want %d", p, got, want)
		}
	}
	if Uncode(0) != 0 || Uncode(255) != 1 {
		t.Errorf("the ends are %v and %v", Uncode(0), Uncode(255))
	}
	for c := range 256 {
		if got := Code(Uncode(uint8(c))); int(got) != c {
			t.Errorf("code %d comes back as %d", c, got)
		}
	}
	// Half a step of 4/255 decades is the largest error.
	for p := 1e-3; p <= 1; p *= 1.0137 {
		if off := math.Abs(math.Log10(Uncode(Code(p)) / p)); off > 2.0/255+1e-12 {
			t.Errorf("%v comes back %v decades off", p, off)
		}
	}
}

// Cells never exceed their limit, cover all tokens, and tell their pool.
func TestPool(t *testing.T) {
	for _, most := range []int{1, 3, 1024} {
		for n := 1; n < 5000; n += 1 + n/50 {
			pool, cells := Pool(n, most)
			if cells > most || pool*cells < n || pool*(cells-1) >= n {
				t.Fatalf("Pool(%d, %d) = %d, %d", n, most, pool, cells)
			}
			if again := (n + cells - 1) / cells; again != pool {
				t.Fatalf("Pool(%d, %d) = %d, %d: the cells tell %d", n, most, pool, cells, again)
			}
		}
	}
	if pool, cells := Pool(1024, MaxCells); pool != 1 || cells != 1024 {
		t.Errorf("1,024 tokens: %d, %d", pool, cells)
	}
}
