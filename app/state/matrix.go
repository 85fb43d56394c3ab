package state

import (
	"math"
	"sort"

	"kvlens/wasm/proto"
)

// Matrix is the attention of one head over everything in the cache. The zero value is none.
type Matrix struct {
	Of           Head
	Tokens       int // queries and keys
	Pool, Cells  int // tokens to a cell, cells of a row
	Codes, Would []uint8
	Left         []uint32
	evicted      int
	epoch        uint32
}

// matrixOf takes over a matrix; one whose columns do not fit is none.
func (m Model) matrixOf(e proto.Matrix) (x Matrix, ok bool) {
	layers, heads, _ := m.Shape()
	n, pool, cells := int(e.Tokens), int(e.Pool), int(e.Cells)
	if int(e.Layer) >= layers || int(e.Head) >= heads || e.First != 0 || n < 1 || e.Tokens > 1<<24 || pool < 1 || e.Pool > e.Tokens ||
		cells != (n+pool-1)/pool || cells > 1024 || len(e.Codes) != cells*cells {
		return x, false
	}
	x = Matrix{Of: Head{int(e.Layer), int(e.Head)}, Tokens: n, Pool: pool, Cells: cells, Codes: e.Codes}
	if len(e.Left) == n {
		x.Left = e.Left
		for _, at := range e.Left {
			if at != proto.Stays {
				x.evicted++
			}
		}
	}
	if len(e.Would) == len(e.Codes) {
		x.Would = e.Would
	}
	return x, true
}

// Evicted is how many columns were evicted at some time.
func (x Matrix) Evicted() int { return x.evicted }

// Row is the codes of a query.
func (x Matrix) Row(query int) []uint8 {
	if query < 0 || query >= x.Tokens {
		return nil
	}
	r := query / x.Pool
	return x.Codes[r*x.Cells : (r+1)*x.Cells]
}

// Shown is what there is to see of the picked head: its matrix, or the rows of the last tokens while there is none.
type Shown struct {
	Live       bool // rows of the last tokens only
	Tokens     int  // keys
	First      int  // position of the first query
	Step, Pool int  // queries to a row, tokens to a cell
	Rows       [][]uint8
	Would      [][]uint8
	Left       []uint32
}

// Queries is how many queries the rows are of.
func (s Shown) Queries() int {
	if s.Live {
		return len(s.Rows)
	}
	return s.Tokens
}

// Row is the codes of a query by its position, and nil for those that are not shown.
func (s Shown) Row(query int) []uint8 {
	if r := (query - s.First) / max(1, s.Step); query >= s.First && r < len(s.Rows) {
		return s.Rows[r]
	}
	return nil
}

// WouldRow is what a query would have given if nothing had left, and nil where that is not known.
func (s Shown) WouldRow(query int) []uint8 {
	if r := (query - s.First) / max(1, s.Step); query >= s.First && r < len(s.Would) {
		return s.Would[r]
	}
	return nil
}

// Holds is Has for a list that may not be there.
func (k Kept) Holds(list, p int) bool { return k.in(list, p) }

// Gone is how many of the keys that are shown of a head have left it.
func (m Model) Gone(h Head, s Shown) int {
	if s.Left != nil {
		return m.Attention.Matrix.evicted
	}
	_, _, group := m.Shape()
	list := h.Layer*m.Kept.Heads + h.Head/max(1, group)
	n := 0
	for p := range min(s.Tokens, m.Kept.Tokens) {
		if m.Kept.Layers > 0 && !m.Kept.in(list, p) {
			n++
		}
	}
	return n
}

// Shown is what can be seen of a head.
func (m Model) Shown(h Head) (s Shown, ok bool) {
	layers, heads, _ := m.Shape()
	if h.Layer < 0 || h.Head < 0 || h.Layer >= layers || h.Head >= heads {
		return s, false
	}
	if s, ok = m.matrixOrRows(h, heads); ok && m.Attention.Bare {
		s.Rows, s.Would = bare(s.Rows, s.Pool), bare(s.Would, s.Pool)
	}
	return s, ok
}

func (m Model) matrixOrRows(h Head, heads int) (s Shown, ok bool) {
	if x := m.Attention.Matrix; x.Tokens > 0 && x.Of == h && x.epoch == m.epoch {
		s = Shown{Tokens: x.Tokens, Step: x.Pool, Pool: x.Pool, Left: x.Left}
		for r := range x.Cells {
			s.Rows = append(s.Rows, x.Codes[r*x.Cells:(r+1)*x.Cells])
			if x.Would != nil {
				s.Would = append(s.Would, x.Would[r*x.Cells:(r+1)*x.Cells])
			}
		}
		return s, true
	}
	return m.live(h.Layer*heads + h.Head)
}

// live are the last tokens' rows of a head, as far as they follow each other and have cells of one size.
func (m Model) live(i int) (s Shown, ok bool) {
	gazes := m.Attention.Gazes
	if len(gazes) == 0 {
		return s, false
	}
	last := gazes[len(gazes)-1]
	first := len(gazes) - 1
	for first > 0 && gazes[first-1].Tokens == gazes[first].Tokens-1 && gazes[first-1].Stride() == last.Stride() {
		first--
	}
	s = Shown{Live: true, Tokens: last.Tokens, First: gazes[first].Tokens - 1, Step: 1, Pool: last.Stride()}
	for _, g := range gazes[first:] {
		s.Rows = append(s.Rows, g.Head(i))
	}
	return s, true
}

// weights are what codes stand for: see proto.Step.Rows.
var weights = func() (w [256]float64) {
	for i := 1; i < len(w); i++ {
		w[i] = math.Pow(10, 4*float64(i)/255-4)
	}
	return w
}()

// Weight is the attention that a code stands for.
func Weight(code uint8) float64 { return weights[code] }

// bare leaves the first tokens out of rows and makes the rest of each add up to one.
func bare(rows [][]uint8, pool int) [][]uint8 {
	first := (sinkTokens + pool - 1) / pool
	out := make([][]uint8, len(rows))
	for r, row := range rows {
		out[r] = make([]uint8, len(row))
		if len(row) <= first {
			continue
		}
		sum := 0.0
		for _, c := range row[first:] {
			sum += weights[c]
		}
		if sum == 0 {
			continue
		}
		up := -math.Log10(sum) * 255 / 4
		for i, c := range row[first:] {
			if c > 0 {
				out[r][first+i] = uint8(max(1, min(255, float64(c)+up)))
			}
		}
	}
	return out
}

// Query is the position of the query whose row is shown: the reader's, or the newest.
func (m Model) Query(s Shown) int {
	if q := m.Attention.Row; q >= s.First && q < s.First+s.Queries() {
		return q
	}
	return s.First + s.Queries() - 1
}

// Seen is a key, or several that share a cell, and what a query gives the most of them.
type Seen struct {
	At, N int // positions
	Code  uint8
	Left  uint32 // when the first of them left; proto.Stays if none has
}

// Top are the keys that a query looks at most, the most first; keys of one weight in their order.
func (s Shown) Top(query, n int) []Seen {
	row := s.Row(query)
	var out []Seen
	for i, code := range row {
		if code == 0 || i*s.Pool >= s.Tokens {
			continue
		}
		x := Seen{At: i * s.Pool, Code: code, Left: proto.Stays}
		x.N = min(s.Pool, s.Tokens-x.At)
		for p := x.At; p < x.At+x.N && p < len(s.Left); p++ {
			x.Left = min(x.Left, s.Left[p])
		}
		out = append(out, x)
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].Code > out[j].Code })
	return out[:min(n, len(out))]
}

// pick chooses a head, and with it the story's scope: its KV head's tokens. No head is every list again.
func (m Model) pick(h Head) Model {
	layers, heads, group := m.Shape()
	a := &m.Attention
	switch {
	case h.Layer >= 0 && h.Layer < layers && h.Head >= 0 && h.Head < heads:
		if h != a.Picked {
			a.Picked, a.Row = h, Newest
		}
		m.Scope = Scope{h.Layer, h.Head / group}
	case a.Picked != NoHead:
		a.Picked, a.Row, m.Scope = NoHead, Newest, Everywhere
	}
	return m
}

// looking asks for the matrix of the picked head once the engine has time, and no longer when it is needed for something
// else.
func (m Model) looking(effects []Effect) (Model, []Effect) {
	a := &m.Attention
	fresh := a.Matrix.Tokens > 0 && a.Matrix.Of == a.Picked && a.Matrix.epoch == m.epoch
	want := m.Phase == Idle && a.Picked != NoHead && m.Follows() && !fresh && a.missed != m.epoch
	switch {
	case want && (!a.Wanted || a.wanted != a.Picked):
		a.Wanted, a.wanted = true, a.Picked
		v := proto.View{Layer: uint32(a.Picked.Layer), Head: uint32(a.Picked.Head)}
		return m, append(effects[:len(effects):len(effects)], Look{v, m.epoch})
	case !want && a.Wanted && !fresh:
		a.Wanted = false
		return m, append(effects[:len(effects):len(effects)], Unlook{})
	}
	return m, effects
}

// viewed takes over a matrix, unless the cache has changed since it was asked for.
func viewed(m Model, e Viewed) Model {
	a := &m.Attention
	if x, ok := m.matrixOf(e.Matrix); ok && e.Epoch == m.epoch && x.Of == a.Picked {
		x.epoch = e.Epoch
		a.Matrix = x
	}
	return m
}

// overlooked ends a request for a matrix.
func overlooked(m Model, e Overlooked) Model {
	a := &m.Attention
	if e.Epoch != m.epoch || e.View != (proto.View{Layer: uint32(a.Picked.Layer), Head: uint32(a.Picked.Head)}) {
		return m
	}
	a.Wanted = false
	if e.Failed {
		a.missed = m.epoch
	}
	return m
}

// attentionSnapshot is what tests read of what heads look at. Codes are of the row that is shown.
func (m Model) attentionSnapshot() map[string]any {
	a := m.Attention
	out := map[string]any{
		"on": a.On, "rows": len(a.Gazes), "bytes": a.Bytes(), "layer": a.Picked.Layer, "head": a.Picked.Head, "wanted": a.Wanted,
		"matrix": a.Matrix.Tokens, "evicted": a.Matrix.evicted, "linear": a.Linear, "bare": a.Bare, "by": a.By.String(),
	}
	if s, ok := m.Shown(a.Picked); ok {
		query := m.Query(s)
		row := make([]int, 0, len(s.Row(query))) // JSON writes bytes as base64
		for _, c := range s.Row(query) {
			row = append(row, int(c))
		}
		out["query"], out["tokens"], out["pool"], out["live"], out["codes"], out["left"] = query, s.Tokens, s.Pool, s.Live, row, s.Left
	}
	return out
}
