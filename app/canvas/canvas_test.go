package canvas

import (
	"bytes"
	"math"
	"testing"
)

// lightness is CIE L* of a colour, from 0 to 100.
func lightness(p Pixel) float64 {
	linear := func(v byte) float64 {
		x := float64(v) / 255
		if x <= 0.04045 {
			return x / 12.92
		}
		return math.Pow((x+0.055)/1.055, 2.4)
	}
	y := 0.2126*linear(p[0]) + 0.7152*linear(p[1]) + 0.0722*linear(p[2])
	if y <= 216.0/24389 {
		return y * 24389 / 27
	}
	return 116*math.Cbrt(y) - 16
}

// Cividis grows evenly from dark to light: each code is lighter than the one before, and none is far from a straight line.
func TestScales(t *testing.T) {
	first, last := lightness(Log[0]), lightness(Log[255])
	if first > 15 || last < 90 {
		t.Errorf("the lightness runs from %.1f to %.1f", first, last)
	}
	for i := 1; i < 256; i++ {
		l := lightness(Log[i])
		if l <= lightness(Log[i-1])-0.05 { // three channels of 8 bits round
			t.Errorf("code %d is darker than the one before", i)
		}
		if want := first + (last-first)*float64(i)/255; math.Abs(l-want) > 2 {
			t.Errorf("code %d has lightness %.1f, on a straight line it were %.1f", i, l, want)
		}
		if Linear[i] != Colour(math.Pow(10, 4*float64(i)/255-4)) {
			t.Errorf("code %d is not shown as its weight", i)
		}
	}
	if Log[0] != Linear[0] || Log[255] != Linear[255] {
		t.Error("nothing and all have two colours each")
	}
	if Colour(-1) != Colour(0) || Colour(2) != Colour(1) || Colour(0)[3] != 255 {
		t.Error("values out of range are not cut")
	}
}

func TestWeight(t *testing.T) {
	for code, want := range map[uint8]float64{0: 0, 255: 1, 51: 10.0 / 1e4 / 1.584893192} { // 10^(0.8 − 4)
		if got := float64(Weight(code)); math.Abs(got-want) > 1e-6 {
			t.Errorf("code %d is %g, want %g", code, got, want)
		}
	}
}

func TestResample(t *testing.T) {
	for _, c := range []struct{ src, want []uint8 }{
		{[]uint8{1, 9, 2, 3, 4, 5}, []uint8{9, 3, 5}},
		{[]uint8{1, 2, 3, 4, 5}, []uint8{1, 3, 5}},
		{[]uint8{7, 8}, []uint8{7, 7, 8, 8}},
		{[]uint8{7, 8}, []uint8{7, 7, 8}},
		{nil, []uint8{0, 0}},
	} {
		dst := bytes.Repeat([]uint8{99}, len(c.want))
		if Resample(dst, c.src); !bytes.Equal(dst, c.want) {
			t.Errorf("%v at %d cells is %v, want %v", c.src, len(dst), dst, c.want)
		}
	}
}

// Whatever the widths, the largest code is still there.
func TestNoNeedleVanishes(t *testing.T) {
	for n := 1; n < 40; n++ {
		for m := 1; m < 40; m++ {
			for at := range n {
				src, dst := make([]uint8, n), make([]uint8, m)
				src[at] = 200
				Resample(dst, src)
				if bytes.IndexByte(dst, 200) < 0 {
					t.Fatalf("%d of %d cells is not among %d", at, n, m)
				}
			}
		}
	}
}

func TestPool(t *testing.T) {
	for _, c := range []struct {
		stride int
		want   []uint8
	}{{1, []uint8{3, 1, 4, 1, 5}}, {2, []uint8{3, 4, 5}}, {9, []uint8{5}}, {0, []uint8{3, 1, 4, 1, 5}}} {
		if got := Pool([]uint8{42}, []uint8{3, 1, 4, 1, 5}, c.stride); !bytes.Equal(got, append([]uint8{42}, c.want...)) {
			t.Errorf("stride %d: %v", c.stride, got)
		}
	}
}

// at is a pixel of a picture.
func (p *Picture) at(x, y int) Pixel { return Pixel(p.Pix[4*(y*p.W+x):]) }

func TestStrips(t *testing.T) {
	var p Picture
	p.Reset(9, 9)
	p.Strips([][][]uint8{{{1, 2, 3}, {4}}, {{5, 6}}}, 2, 2, Log)
	clear := Pixel{}
	for i, want := range []Pixel{Log[1], Log[2], Log[4], clear, Log[5], Log[6], Log[5], Log[6]} {
		if got := p.at(i%2, i/2); got != want {
			t.Errorf("pixel %d, %d is %v, want %v", i%2, i/2, got, want)
		}
	}
	if p.W != 2 || p.H != 4 || len(p.Pix) != 32 {
		t.Errorf("%d × %d pixels in %d bytes", p.W, p.H, len(p.Pix))
	}
}

func TestCells(t *testing.T) {
	var p Picture
	nan := float32(math.NaN())
	p.Cells([]float32{0, 1, nan, 0.5, 7}, 2, 2)
	for i, want := range []Pixel{Colour(0), Colour(1), {}, Colour(0.5)} {
		if got := p.at(i%2, i/2); got != want {
			t.Errorf("cell %d is %v, want %v", i, got, want)
		}
	}
}

// matrix is 4 tokens; key 1 left when there were 3.
func matrix() *Matrix {
	return &Matrix{
		Tokens: 4, Pool: 1, Step: 1,
		Rows: [][]uint8{{10, 0, 0, 0}, {11, 21, 0, 0}, {12, 22, 32, 0}, {13, 0, 33, 43}},
		Left: []uint32{1 << 31, 3, 1 << 31, 1 << 31},
	}
}

func TestDraw(t *testing.T) {
	var p Picture
	m := matrix()
	p.Draw(m, 4, 4, Log, 1)
	for y := range 4 {
		for x := range 4 {
			want := Log[m.Rows[y][x]]
			switch {
			case x > y:
				want = Pixel{} // the future
			case x == 1 && y == 3: // 4 is no multiple of the hatching's period
				want = Pixel{}
			}
			if got := p.at(x, y); got != want {
				t.Errorf("key %d of query %d is %v, want %v", x, y, got, want)
			}
		}
	}
	m.Would = [][]uint8{{0, 0, 0, 0}, {0, 0, 0, 0}, {0, 0, 0, 0}, {0, 99, 0, 0}}
	p.Draw(m, 4, 4, Log, 1)
	if got := p.at(1, 3); (Pixel{got[0], got[1], got[2], 255}) != Log[99] || got[3] == 255 || got[3] == 0 {
		t.Errorf("what an evicted key would have received is %v, want a faint %v", got, Log[99])
	}
}

// What left is hatched from its time on: lines at one distance, and nothing of it before.
func TestHatching(t *testing.T) {
	const side, ratio = 80, 2.0
	var p Picture
	m := matrix()
	p.Draw(m, side, side, Log, ratio)
	lines := 0
	for y := range side {
		for x := range side {
			query, key := y*4/side, x*4/side
			got, gone := p.at(x, y), key == 1 && query >= 3
			switch {
			case got == hatch && !gone:
				t.Fatalf("pixel %d, %d is hatched: key %d of query %d", x, y, key, query)
			case got == hatch:
				lines++
			case gone && got != (Pixel{}):
				t.Fatalf("pixel %d, %d of what left is %v", x, y, got)
			case key <= query && !gone && got != Log[m.Rows[query][key]]:
				t.Fatalf("pixel %d, %d is %v, want the colour of key %d of query %d", x, y, got, key, query)
			}
		}
	}
	if want := 20 * 20 * 2 / 10; lines != want { // 2 of 10 pixels of a quarter of a side
		t.Errorf("%d pixels are hatched, want %d", lines, want)
	}
}

// Where a picture has fewer pixels than tokens, the largest shows, and a column is hatched when all its keys have left.
func TestDrawSmall(t *testing.T) {
	var p Picture
	m := &Matrix{Tokens: 4, Pool: 2, Step: 2, Rows: [][]uint8{{50, 0}, {60, 70}}, Left: []uint32{2, 9, 2, 2}}
	p.Draw(m, 2, 2, Log, 1)
	if p.at(0, 0) != Log[50] || p.at(0, 1) != Log[60] || p.at(1, 0) != (Pixel{}) || p.at(1, 1) == Log[70] {
		t.Errorf("%v", p.Pix)
	}
	p.Draw(m, 1, 1, Log, 1)
	if p.at(0, 0) != Log[70] {
		t.Errorf("one pixel is %v, want the largest code's", p.at(0, 0))
	}
}

// Nothing that does not fit together makes it fail.
func TestDrawNothing(t *testing.T) {
	var p Picture
	for _, m := range []*Matrix{
		{},
		{Tokens: 3, Pool: 1, Step: 1},
		{Tokens: 3, Pool: 0, Rows: [][]uint8{{1}}},
		{Tokens: -1, Pool: 1, Rows: [][]uint8{{1}}},
		{Tokens: 5, Pool: 2, Step: 2, Rows: [][]uint8{{1}, nil, {1, 2, 3, 4, 5, 6, 7, 8}}, Left: []uint32{0}, Would: [][]uint8{{1}}},
	} {
		for _, side := range []int{0, 1, 2, 7} {
			p.Draw(m, side, side, Linear, 1.5)
			if len(p.Pix) != 4*side*side {
				t.Errorf("%d bytes for %d × %d pixels", len(p.Pix), side, side)
			}
		}
	}
}

func TestPlaces(t *testing.T) {
	for _, n := range []int{1, 3, 1024} {
		for i := range n {
			if got := At(Middle(i, n), n); got != i {
				t.Errorf("the middle of %d of %d is in %d", i, n, got)
			}
		}
	}
	if At(-1, 5) != 0 || At(1, 5) != 4 || At(2, 5) != 4 {
		t.Error("places beyond the ends are not cut")
	}
}
