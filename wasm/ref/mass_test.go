package ref

import (
	"math/rand/v2"
	"slices"
	"testing"

	"kvlens/wasm/quant"
)

// Columns of a matrix are its weights, whatever its layout and wherever they begin.
func TestColumns(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 7))
	const rows, cols = 7, 96
	for _, l := range []quant.Layout{quant.LayoutF32, quant.LayoutF16, quant.Layout4, quant.Layout8} {
		w := quant.Matrix{Layout: l, Rows: rows, Cols: cols, Data: make([]byte, l.Size(rows, cols))}
		for i := range quant.Uint16s(w.Data) { // scales, and codes of any kind
			quant.Uint16s(w.Data)[i] = quant.ToHalf(float32(r.NormFloat64()))
		}
		for _, c := range [][2]int{{0, 96}, {32, 32}, {64, 32}, {32, 64}, {8, 16}, {40, 32}} {
			m := columns(&w, c[0], c[1], make([]float32, rows*c[1]))
			whole, part := make([]float32, cols), make([]float32, c[1])
			for row := range rows {
				quant.DequantizeRow(whole, w, row)
				quant.DequantizeRow(part, *m, row)
				if want := whole[c[0]:][:c[1]]; !slices.Equal(part, want) {
					t.Errorf("%v, columns %d+%d, row %d: %v, want %v", l, c[0], c[1], row, part, want)
				}
			}
		}
	}
}
