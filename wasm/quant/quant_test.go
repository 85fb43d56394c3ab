package quant

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

var types = []Type{F32, F16, Q4_0, Q4_1, Q8_0}

// patterned fills a block with byte k = (37k+11) mod 256, then writes d = 0.5 and, where there is one, m = 0.25.
func patterned(t Type) []byte {
	_, size := t.Block()
	b := make([]byte, size)
	for k := range b {
		b[k] = byte(37*k + 11)
	}
	binary.LittleEndian.PutUint16(b, 0x3800)
	if t == Q4_1 {
		binary.LittleEndian.PutUint16(b[2:], 0x3400)
	}
	return b
}

// The numbers come from the reference C dequantiser, on the patterned block of each type.
func TestGoldenBlocks(t *testing.T) {
	for _, c := range []struct {
		t                     Type
		sum, weighted         float64
		y0, y1, y15, y16, y31 float32
	}{
		{Q4_0, -10.5, -248.5, -1.5, 1, -4, -1.5, 0},
		{Q4_1, 130.5, 1993, 7.75, 2.25, 5.25, 4.75, 6.25},
		{Q8_0, -88, -3952, 42.5, 61, -64, -45.5, -24},
	} {
		y := make([]float32, 32)
		if err := Dequantize(c.t, y, patterned(c.t)); err != nil {
			t.Fatal(err)
		}
		var sum, weighted float64
		for i, v := range y {
			sum += float64(v)
			weighted += float64(i) * float64(v)
		}
		if sum != c.sum || weighted != c.weighted || y[0] != c.y0 || y[1] != c.y1 || y[15] != c.y15 || y[16] != c.y16 || y[31] != c.y31 {
			t.Errorf("%v: sum %v, weighted %v, y %v", c.t, sum, weighted, y)
		}
	}
}

// random makes rows of finite blocks, with scales over the whole range that a Q4_0 minimum allows.
func random(r *rand.Rand, t Type, rows, cols int) []byte {
	size, _ := t.RowSize(cols)
	b := make([]byte, int64(rows)*size)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	put := func(off int) { binary.LittleEndian.PutUint16(b[off:], uint16(r.UintN(0x7000)|r.UintN(2)<<15)) }
	_, step := t.Block()
	for off := 0; off < len(b); off += step {
		switch t {
		case F32:
			binary.LittleEndian.PutUint32(b[off:], math.Float32bits(float32(r.NormFloat64())))
		case Q4_1:
			put(off)
			put(off + 2)
		default:
			put(off)
		}
	}
	return b
}

// pack repacks rows at once or row by row.
func pack(t *testing.T, typ Type, src []byte, rows, cols int, rowwise bool) Matrix {
	t.Helper()
	l, err := LayoutOf(typ)
	if err != nil {
		t.Fatal(err)
	}
	m := Matrix{Layout: l, Rows: rows, Cols: cols, Data: make([]byte, l.Size(rows, cols))}
	scaleOff, _ := l.Planes(rows, cols)
	if !rowwise {
		codes, scales := m.Data[:rows*l.CodeBytes(cols)], m.Data[scaleOff:]
		if err := Repack(typ, src, cols, codes, scales); err != nil {
			t.Fatal(err)
		}
		return m
	}
	size, _ := typ.RowSize(cols)
	for r := range rows {
		if err := Repack(typ, src[int64(r)*size:][:size], cols, m.Codes(r), m.Scales(r)); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

func TestRepackIsExact(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, typ := range types {
		for _, s := range [][2]int{{1, 32}, {3, 96}, {5, 576}} {
			rows, cols := s[0], s[1]
			src := random(r, typ, rows, cols)
			want, got := make([]float32, rows*cols), make([]float32, cols)
			if err := Dequantize(typ, want, src); err != nil {
				t.Fatal(err)
			}
			for _, rowwise := range []bool{false, true} {
				m := pack(t, typ, src, rows, cols, rowwise)
				for row := range rows {
					DequantizeRow(got, m, row)
					for i, v := range got {
						if w := want[row*cols+i]; v != w { // equal for +0 and −0: a zero's sign has no weight
							t.Fatalf("%v [%d][%d], row by row %v: %v, want %v", typ, row, i, rowwise, v, w)
						}
					}
				}
			}
		}
	}
}

func TestRepackRefuses(t *testing.T) {
	half := func(h ...uint16) []byte { return Bytes(h) }
	block := func(typ Type, head []byte) []byte {
		_, size := typ.Block()
		b := make([]byte, size)
		copy(b, head)
		return b
	}
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	for name, c := range map[string]struct {
		t   Type
		src []byte
		bad bool
	}{
		"f32 NaN":                 {F32, Bytes([]float32{nan}), true},
		"f32 infinite":            {F32, Bytes([]float32{inf}), true},
		"f32 largest":             {F32, Bytes([]float32{math.MaxFloat32}), false},
		"f16 NaN":                 {F16, half(0x7E00), true},
		"f16 infinite":            {F16, half(0xFC00), true},
		"Q4_0 scale NaN":          {Q4_0, block(Q4_0, half(0x7C01)), true},
		"Q4_0 scale 8,192":        {Q4_0, block(Q4_0, half(0x7000)), true}, // −65,536 is no half float
		"Q4_0 scale below 8,192":  {Q4_0, block(Q4_0, half(0x6FFF)), false},
		"Q4_0 smallest subnormal": {Q4_0, block(Q4_0, half(0x0001)), false},
		"Q4_1 minimum infinite":   {Q4_1, block(Q4_1, half(0x3800, 0x7C00)), true},
		"Q4_1 scale NaN":          {Q4_1, block(Q4_1, half(0xFE00, 0)), true},
		"Q8_0 scale infinite":     {Q8_0, block(Q8_0, half(0x7C00)), true},
	} {
		n, _ := c.t.Block()
		l, _ := LayoutOf(c.t)
		err := Repack(c.t, c.src, n, make([]byte, l.CodeBytes(n)), make([]byte, l.ScaleBytes(n)))
		if errors.Is(err, ErrScale) != c.bad || !c.bad && err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRepackChecksSizes(t *testing.T) {
	src := patterned(Q4_1)
	for name, err := range map[string]error{
		"half a block":   Repack(Q4_1, src[:19], 32, make([]byte, 16), make([]byte, 4)),
		"short codes":    Repack(Q4_1, src, 32, make([]byte, 15), make([]byte, 4)),
		"no scales":      Repack(Q4_1, src, 32, make([]byte, 16), nil),
		"odd columns":    Repack(Q4_1, src, 31, make([]byte, 16), make([]byte, 4)),
		"no columns":     Repack(Q4_1, src, 0, nil, nil),
		"unknown type":   Repack(14, src, 32, make([]byte, 16), make([]byte, 4)),
		"dequantise odd": Dequantize(Q4_1, make([]float32, 31), src),
		"dequantise cut": Dequantize(Q4_1, make([]float32, 32), src[:19]),
		"dequantise ?":   Dequantize(99, make([]float32, 32), src),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestPlanes(t *testing.T) {
	for _, c := range []struct {
		l               Layout
		rows, cols      int
		scaleOff, total int64
	}{
		{LayoutF32, 1, 3, 12, 12},
		{LayoutF16, 3, 5, 30, 30},
		{Layout4, 3, 96, 144, 144 + 36}, // 3·3 groups of 16 + 4 bytes
		{Layout8, 49_152, 576, 28_311_552, 28_311_552 + 1_769_472},
		{Layout8, 1 << 20, 1 << 20, 1 << 40, 1<<40 + 1<<36}, // beyond 32 bits
	} {
		if off, total := c.l.Planes(c.rows, c.cols); off != c.scaleOff || total != c.total {
			t.Errorf("%v %d×%d: planes %d, %d, want %d, %d", c.l, c.rows, c.cols, off, total, c.scaleOff, c.total)
		}
	}
}

func TestRowsWithoutScales(t *testing.T) {
	m := Matrix{Layout: LayoutF32, Rows: 2, Cols: 3, Data: Bytes([]float32{1, 2, 3, 4, 5, 6})}
	row := make([]float32, 3)
	if DequantizeRow(row, m, 1); row[0] != 4 || row[2] != 6 || len(m.Scales(1)) != 0 {
		t.Errorf("row 1 = %v", row)
	}
}

func TestViewsShareMemory(t *testing.T) {
	words := []uint32{0x3F800000, 0xFF800001}
	b := Bytes(words)
	if len(b) != 8 || b[3] != 0x3F || Float32s(b)[0] != 1 || Uint16s(b)[1] != 0x3F80 || Int8s(b)[7] != -1 {
		t.Fatalf("bytes %x", b)
	}
	Uint32s(b)[1] = 7
	if words[1] != 7 || Bytes([]float32(nil)) != nil || Float32s(nil) != nil {
		t.Error("a view is a copy")
	}
	for name, f := range map[string]func(){
		"misaligned": func() { Float32s(b[1:5]) },
		"cut":        func() { Uint32s(b[:6]) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s view did not panic", name)
				}
			}()
			f()
		}()
	}
}

func BenchmarkRepack(b *testing.B) {
	for _, t := range []Type{Q4_1, Q8_0} {
		b.Run(t.String(), func(b *testing.B) {
			const rows, cols = 512, 576
			src := random(rand.New(rand.NewPCG(5, 6)), t, rows, cols)
			l, _ := LayoutOf(t)
			codes, scales := make([]byte, rows*l.CodeBytes(cols)), make([]byte, rows*l.ScaleBytes(cols))
			b.SetBytes(int64(len(src)))
			for b.Loop() {
				if err := Repack(t, src, cols, codes, scales); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
