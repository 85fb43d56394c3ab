package reftest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"kvlens/cache"
	"kvlens/wasm/quant"
	"kvlens/wasm/step"
)

// looker is a session whose queries of the last layer are all in Q.
type looker struct {
	*session
	viewer step.Viewer
	args   step.Args
	layer  int
	n      int
}

func newLooker(t *testing.T, open Open, p pages, n int) *looker {
	t.Helper()
	r := rand.New(rand.NewPCG(17, 19))
	shape := tiny
	shape.RotDim = 0 // rotated, positions would end too early
	m := NewModel(r, shape, n, quant.LayoutF32)
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(r.IntN(tiny.Vocab))
	}
	e := newEngine(t, open, m)
	l := &looker{session: e.session(p, len(ids)), layer: tiny.Layers - 1, n: len(ids)}
	l.prefill(ids, len(ids))
	l.args = step.Args{Cache: l.cache, Arena: l.arena, IDs: ids, To: len(ids)}
	var ok bool
	if l.viewer, ok = e.exec.(step.Viewer); !ok {
		t.Fatal("the backend shows no views")
	}
	return l
}

// look runs views of rows of cells into one buffer, and returns the rows and the sums behind them.
func (l *looker) look(rows, stride, sums int, views ...step.View) ([][]uint8, []float32) {
	l.t.Helper()
	size := int64(rows*stride + 16*sums)
	dst, err := l.b.Alloc(cache.Views, "view", size)
	l.must(err)
	for _, v := range views {
		v.Dst, v.Stride = dst, int64(stride)
		if v.Sums = -1; sums > 0 {
			v.Sums = int64(rows * stride)
		}
		l.must(l.viewer.Look(&l.args, &v))
	}
	data := make([]byte, size)
	l.must(l.b.Read(dst, 0, data))
	l.b.Free(dst)
	if left := l.led.Rows()[cache.Views]; left.Allocated != 0 || left.Logical != 0 {
		l.t.Errorf("a view that is gone holds %+v", left)
	}
	var out [][]uint8
	for i := range rows {
		out = append(out, data[i*stride:][:stride])
	}
	return out, quant.Float32s(data[rows*stride:])
}

// row is the softmax row of a query as the definition has it.
func (l *looker) row(t int) [][]float32 {
	l.t.Helper()
	out := make([][]float32, tiny.Heads)
	for h := range out {
		out[h] = make([]float32, l.n)
	}
	l.must(l.exec.AttentionRow(&l.args, l.layer, t, out))
	return out
}

// near says whether a code stands for a probability, but for the last digit.
func near(code uint8, prob float32) bool {
	return math.Abs(float64(code)-float64(step.Code(float64(prob)))) <= 1
}

// testViews: cells are the codes of attention rows; sums describe the same rows; scores are what the softmax is of.
func testViews(t *testing.T, open Open, tol Tolerance) {
	for _, p := range []pages{exactPages, halfPages} {
		l := newLooker(t, open, p, 280) // more than 64 words of cells, and than are local
		for _, row := range []int{0, 37, l.n - 1} {
			want := l.row(row)
			got, sums := l.look(tiny.Heads, 280, tiny.Heads, step.View{
				Layer: l.layer, Heads: tiny.Heads, Row: row, Rows: 1, Base: row, Pool: 1,
			})
			for h := range want {
				for i, prob := range want[h] {
					if !near(got[h][i], prob) || i > row && got[h][i] != 0 {
						t.Errorf("row %d, head %d, token %d: code %d of %v", row, h, i, got[h][i], prob)
					}
				}
				Compare(t, fmt.Sprintf("sums of row %d, head %d", row, h), sums[4*h:4*h+4], sumsOf(want[h], row), tol)
				scores := make([]float32, l.n)
				l.must(l.viewer.Scores(&l.args, l.layer, h, row, scores))
				Compare(t, fmt.Sprintf("softmax of scores of row %d, head %d", row, h), softmaxOf(scores), want[h], tol)
			}
		}
	}
}

// testMatrix: a matrix in pieces has the rows of its queries, nothing above the diagonal, and pools to what is largest,
// however the pieces fall.
func testMatrix(t *testing.T, open Open, _ Tolerance) {
	l := newLooker(t, open, exactPages, 50)
	const head = 2
	view := func(row, rows, pool int) step.View {
		return step.View{Layer: l.layer, Head: head, Heads: 1, Row: row, Rows: rows, Pool: pool}
	}
	whole, _ := l.look(l.n, 52, 0, view(0, 13, 1), view(13, l.n-13, 1))
	for row := range whole {
		want := l.row(row)[head]
		for i, prob := range want {
			if !near(whole[row][i], prob) || i > row && whole[row][i] != 0 {
				t.Errorf("query %d, key %d: code %d of %v", row, i, whole[row][i], prob)
			}
		}
	}
	for _, pool := range []int{2, 3, 7, 50, 64} {
		cells := (l.n + pool - 1) / pool
		pooled, _ := l.look(cells, (cells+3)&^3, 0, view(0, 10, pool), view(10, 1, pool), view(11, l.n-11, pool))
		for i := range cells {
			for j := range cells {
				var most uint8
				for row := i * pool; row < min(l.n, (i+1)*pool); row++ {
					for col := j * pool; col < min(l.n, (j+1)*pool); col++ {
						most = max(most, whole[row][col])
					}
				}
				if pooled[i][j] != most {
					t.Errorf("pool of %d, cell %d, %d: %d, want %d", pool, i, j, pooled[i][j], most)
				}
			}
		}
	}
	l.refuses()
}

// refuses tries views that are none.
func (l *looker) refuses() {
	l.t.Helper()
	dst, err := l.b.Alloc(cache.Views, "view", 128)
	l.must(err)
	good := step.View{Heads: 1, Rows: 1, Pool: 1, Dst: dst, Stride: 52, Sums: -1}
	l.must(l.viewer.Look(&l.args, &good))
	for name, change := range map[string]func(v *step.View){
		"layer":         func(v *step.View) { v.Layer = tiny.Layers },
		"head":          func(v *step.View) { v.Head = tiny.Heads },
		"heads":         func(v *step.View) { v.Heads = tiny.Heads + 1 },
		"no head":       func(v *step.View) { v.Heads = 0 },
		"row":           func(v *step.View) { v.Row = 1 << 20 },
		"rows":          func(v *step.View) { v.Rows = 1 << 20 },
		"no row":        func(v *step.View) { v.Rows = 0 },
		"both":          func(v *step.View) { v.Heads, v.Rows = 2, 2 },
		"pool":          func(v *step.View) { v.Pool = 0 },
		"base":          func(v *step.View) { v.Base = 1 },
		"narrow":        func(v *step.View) { v.Stride = 48 },
		"stride":        func(v *step.View) { v.Stride = 53 },
		"offset":        func(v *step.View) { v.Off = 2 },
		"past the end":  func(v *step.View) { v.Off = 128 },
		"sums past end": func(v *step.View) { v.Sums = 128 },
		"sums of rows":  func(v *step.View) { v.Rows, v.Sums = 2, 104 },
		"nowhere":       func(v *step.View) { v.Dst = 0 },
	} {
		v := good
		change(&v)
		if l.viewer.Look(&l.args, &v) == nil {
			l.t.Errorf("a view with a wrong %s is shown", name)
		}
	}
	out := make([]float32, l.n)
	for _, c := range [][3]int{{tiny.Layers, 0, 0}, {0, tiny.Heads, 0}, {0, -1, 0}, {0, 0, 1 << 20}, {0, 0, -1}} {
		if l.viewer.Scores(&l.args, c[0], c[1], c[2], out) == nil {
			l.t.Errorf("scores of layer, head, row %d", c)
		}
	}
	if l.viewer.Scores(&l.args, 0, 0, 0, out[1:]) == nil {
		l.t.Error("scores go where there is no room")
	}
	l.b.Free(dst)
}

// sumsOf is the definition of step.Sum.
func sumsOf(row []float32, at int) []float32 {
	s := make([]float32, 4)
	for pos, p := range row {
		if pos < step.SinkTokens {
			s[0] += p
		} else if at-pos < step.LocalTokens {
			s[1] += p
		}
		if p > 0 {
			s[2] -= p * float32(math.Log(float64(p)))
		}
		s[3] = max(s[3], p)
	}
	return s
}

func softmaxOf(x []float32) []float32 {
	out := make([]float32, len(x))
	sum := 0.0
	for _, v := range x {
		sum += math.Exp(float64(v))
	}
	for i, v := range x {
		out[i] = float32(math.Exp(float64(v)) / sum)
	}
	return out
}
