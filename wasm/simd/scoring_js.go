package simd

import (
	"fmt"
	"slices"
)

// Gather unpacks lanes of pages, one after the other: slot i is lane i mod lanes of page i div lanes, and the table holds
// the offsets of pages in the arena in words. Lanes hold dim halves or floats; dim is a multiple of 8.
func Gather(out []float32, arena []uint8, table []uint32, lanes int, half bool, slots []uint32, dim int) {
	if lanes <= 0 || dim <= 0 || dim%8 != 0 {
		panic(fmt.Sprintf("simd: pages of %d lanes of %d", lanes, dim))
	}
	if len(slots) == 0 {
		return
	}
	need("lanes", len(out), len(slots)*dim)
	pages := int(slices.Max(slots))/lanes + 1
	need("page table", len(table), pages)
	need("arena", len(arena), int(slices.Max(table[:pages]))*4+lanes*dim*size(half))
	gather(&out[0], &arena[0], &table[0], int32(lanes), flag(half), &slots[0], int32(len(slots)), int32(dim))
}

// Logits sets out[i] = scale·q·k[i] for rows k[i] = k[i·len(q):]. len(q) is a multiple of 4.
func Logits(out, q, k []float32, scale float32) {
	if len(q) == 0 || len(q)%4 != 0 {
		panic(fmt.Sprintf("simd: a query of %d", len(q)))
	}
	if len(out) == 0 {
		return
	}
	need("keys", len(k), len(out)*len(q))
	var scratch [4]float32
	logits(&out[0], &q[0], &k[0], int32(len(out)), int32(len(q)), scale, &scratch[0])
}

// Softmax replaces logits by their softmax; where all are −Inf, by zeros. scratch takes 3 floats more than row has.
func Softmax(row, scratch []float32) {
	if len(row) == 0 {
		return
	}
	need("softmax", len(scratch), len(row)+3)
	softmax(&row[0], int32(len(row)), &scratch[0])
}

// ColumnRows is how many rows of logits Columns needs as scratch.
const ColumnRows = 3

// Columns adds to out[j] the attention that rows queries give to key k[j]: query t is dim floats at t·stride of q and sees
// the keys 0…first+t. Keys lie one after the other; dim is a multiple of 4. Scratch is ColumnRows·(first + rows + 3)
// floats.
func Columns(out, q []float32, rows, stride int, k []float32, dim, first int, scale float32, scratch []float32) {
	if rows <= 0 || dim <= 0 || dim%4 != 0 || stride < dim || first < 0 {
		panic(fmt.Sprintf("simd: %d rows of %d, stride %d, from %d", rows, dim, stride, first))
	}
	keys := first + rows
	row := (keys + 3) &^ 3
	need("queries", len(q), (rows-1)*stride+dim)
	need("keys", len(k), keys*dim)
	need("sums", len(out), keys)
	need("scratch", len(scratch), ColumnRows*row)
	columns(&q[0], int32(rows), int32(stride), &k[0], int32(dim), int32(first+1), scale, &out[0], &scratch[0], int32(row))
}

// Mass adds by·Σ|x[i]| to out[i], for rows x[i] of cols floats that lie one after the other.
func Mass(out, x []float32, cols int, by float32) {
	if cols <= 0 {
		panic(fmt.Sprintf("simd: rows of %d", cols))
	}
	need("rows", len(x), len(out)*cols)
	if len(out) > 0 {
		mass(&out[0], &x[0], int32(len(out)), int32(cols), by)
	}
}
