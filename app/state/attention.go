package state

import (
	"math"

	"kvlens/wasm/proto"
)

// Attention is what the heads look at: the rows of the last tokens, and the matrix of the head that the reader chose.
type Attention struct {
	On      bool // turns are watched
	touched bool // the reader has said whether they are

	Gazes  []Gaze // of the last tokens, the newest last
	Picked Head   // that the reader chose
	Row    int    // position of the query that the reader chose; Newest follows the newest
	Linear bool   // weights are shown as they are, not their logarithms
	Bare   bool   // the first tokens are left out, and the rest of each row adds up to one
	By     Measure

	Matrix Matrix // of the picked head, where it has been computed
	Wanted bool   // it is being computed
	wanted Head
	missed uint32 // epoch of the cache in which it could not be had
}

// attentive is what nobody has looked at yet.
var attentive = Attention{Picked: NoHead, Row: Newest, missed: ^uint32(0)}

// Head is a query head of a layer; NoHead is none.
type Head struct{ Layer, Head int }

// NoHead stands for no head.
var NoHead = Head{-1, -1}

// Newest stands for the newest query that there is.
const Newest = -1

// Gaze is what all heads of one query look at, and four numbers about each.
type Gaze struct {
	Tokens, Cells              int     // keys, and codes to a head
	Codes                      []uint8 // [layers][heads][Cells]: see proto.Step.Rows
	Sink, Local, Entropy, Top1 []float32
}

// What is remembered of rows: the newest ones, as long as they are not too many. A row of 30 heads over 1,024 tokens is
// 30 KiB.
const (
	mostGazes     = 32
	mostGazeBytes = 4 << 20
)

// mostHeads is the largest model whose heads are shown; larger numbers in a description are no model's.
const mostHeads = 1 << 13

// Shape is the open model's layers, query heads of a layer, and query heads to a KV head. All are 0 where they make no sense.
func (m Model) Shape() (layers, heads, group int) {
	o := m.Opened
	if !m.HasOpened || o.Layers == 0 || o.KVHeads == 0 || o.Heads < o.KVHeads || o.Heads%o.KVHeads != 0 ||
		uint64(o.Layers)*uint64(o.Heads) > mostHeads {
		return 0, 0, 0
	}
	return int(o.Layers), int(o.Heads), int(o.Heads / o.KVHeads)
}

// Few reports whether a model has so few heads that each gets a thumbnail of its own.
func Few(layers, heads int) bool { return layers <= 8 && heads <= 12 }

// gaze takes over what a step shows of attention; ok is false for none, and for columns that do not fit the model.
func (m Model) gaze(s proto.Step) (g Gaze, ok bool) {
	layers, heads, _ := m.Shape()
	all := layers * heads
	if len(s.Rows) == 0 || all == 0 || len(s.Rows)%all != 0 || s.RowTokens == 0 || s.RowTokens > 1<<24 {
		return g, false
	}
	g = Gaze{Tokens: int(s.RowTokens), Cells: len(s.Rows) / all, Codes: s.Rows}
	if g.Cells > g.Tokens {
		return g, false
	}
	if h := s.Heads; len(h.Sink) == all && len(h.Local) == all && len(h.Entropy) == all && len(h.Top1) == all {
		g.Sink, g.Local, g.Entropy, g.Top1 = h.Sink, h.Local, h.Entropy, h.Top1
	}
	return g, true
}

// gazed remembers what steps show of attention.
func (m Model) gazed(steps []proto.Step) Model {
	all := m.Attention.Gazes[:len(m.Attention.Gazes):len(m.Attention.Gazes)]
	for _, s := range steps {
		if g, ok := m.gaze(s); ok {
			for len(all) > 0 && all[len(all)-1].Tokens >= g.Tokens { // the reader has gone back
				all = all[: len(all)-1 : len(all)-1]
			}
			all = append(all, g)
		}
	}
	all = all[max(0, len(all)-mostGazes):]
	bytes := 0
	for i := len(all) - 1; i >= 0; i-- {
		if bytes += len(all[i].Codes); bytes > mostGazeBytes && i < len(all)-1 {
			all = all[i+1:]
			break
		}
	}
	m.Attention.Gazes = all
	return m
}

// Bytes is what the remembered rows take.
func (a Attention) Bytes() (n int) {
	for _, g := range a.Gazes {
		n += len(g.Codes) + 4*(len(g.Sink)+len(g.Local)+len(g.Entropy)+len(g.Top1))
	}
	return n
}

// Head is the row of one head, whose number counts through all layers.
func (g Gaze) Head(i int) []uint8 {
	if i < 0 || (i+1)*g.Cells > len(g.Codes) {
		return nil
	}
	return g.Codes[i*g.Cells : (i+1)*g.Cells]
}

// Stride is how many tokens a cell stands for.
func (g Gaze) Stride() int { return (g.Tokens + g.Cells - 1) / max(1, g.Cells) }

// Measure is one of the numbers about a head.
type Measure uint8

// The measures.
const (
	BySink Measure = iota
	ByLocal
	ByEntropy
	ByTop1
	ByKept // the share of all tokens that the head's KV head still holds
	Measures
)

var measureNames = [Measures]string{"sink", "local", "entropy", "top1", "kept"}

// String is the measure's part of catalogue keys.
func (x Measure) String() string { return measureNames[min(x, Measures-1)] }

func (g Gaze) column(x Measure) []float32 {
	switch x {
	case BySink:
		return g.Sink
	case ByLocal:
		return g.Local
	case ByEntropy:
		return g.Entropy
	}
	return g.Top1
}

// Means are a measure's means over the remembered tokens, head by head; shares from 0 to 1, and the entropy as a share of
// what it can be. Nil where nothing is known.
func (m Model) Means(x Measure) []float32 {
	layers, heads, group := m.Shape()
	out := make([]float32, layers*heads)
	if x == ByKept {
		if m.Kept.Layers != layers || m.Kept.Heads*group != heads || m.Kept.Tokens == 0 {
			return nil
		}
		for i := range out {
			out[i] = float32(m.Kept.Held(i/group)) / float32(m.Kept.Tokens)
		}
		return out
	}
	n := 0
	for _, g := range m.Attention.Gazes {
		column := g.column(x)
		if len(column) != len(out) || len(out) == 0 {
			continue
		}
		most := float32(1)
		if x == ByEntropy {
			most = float32(math.Log(float64(max(2, g.Tokens))))
		}
		for i, v := range column {
			out[i] += v / most
		}
		n++
	}
	if n == 0 {
		return nil
	}
	for i := range out {
		out[i] /= float32(n)
	}
	return out
}

// Habit is what a head has mostly looked at, by its shares alone.
type Habit uint8

// The habits.
const (
	Mixed   Habit = iota // nothing of it clearly
	AtSink               // the first tokens
	AtLocal              // the last tokens
	AtFar                // one token in between
)

// The shares of a step's summaries: proto.HeadSummaries.
const (
	sinkTokens  = 4
	localTokens = 32
)

// Habits are the habits of all heads over the remembered tokens. A share counts if it is more than half of the way from
// what it would be without any preference to all of it; so under short texts, where almost everything is local, few heads
// are called so.
func (m Model) Habits() []Habit {
	sink, local, top := m.Means(BySink), m.Means(ByLocal), m.Means(ByTop1)
	if sink == nil {
		return nil
	}
	n := float32(m.Attention.Gazes[len(m.Attention.Gazes)-1].Tokens)
	clear := func(share, tokens float32) bool {
		even := min(1, tokens/n)
		return even < 1 && share > even+(1-even)/2
	}
	out := make([]Habit, len(sink))
	for i := range out {
		between := 1 - sink[i] - local[i]
		switch {
		case n <= sinkTokens+localTokens: // then the rest is local, whatever the head does
			if clear(sink[i], sinkTokens) {
				out[i] = AtSink
			}
		case clear(sink[i], sinkTokens):
			out[i] = AtSink
		case clear(local[i], localTokens):
			out[i] = AtLocal
		case between > 0.5 && top[i] > 0.5:
			out[i] = AtFar
		}
	}
	return out
}

// Events of the reader and of the engine.
type (
	// Watch has turns watched, or not.
	Watch struct{ On bool }
	// PickHead chooses a head; NoHead lets go of it.
	PickHead struct{ Head }
	// PickRow chooses the query whose row is shown, by its position.
	PickRow struct{ Query int }
	// SetBy chooses what the colours of many heads mean.
	SetBy struct{ By Measure }
	// SetLinear shows weights instead of their logarithms.
	SetLinear struct{ On bool }
	// SetBare leaves the first tokens out of rows.
	SetBare struct{ On bool }
	// Viewed brings a matrix that was asked for at an epoch of the cache.
	Viewed struct {
		proto.Matrix
		Epoch uint32
	}
	// Overlooked ends a request for a matrix.
	Overlooked struct {
		View   proto.View
		Epoch  uint32
		Failed bool
	}
)

func (Watch) event()      {}
func (PickHead) event()   {}
func (PickRow) event()    {}
func (SetBy) event()      {}
func (SetLinear) event()  {}
func (SetBare) event()    {}
func (Viewed) event()     {}
func (Overlooked) event() {}

// Effects.
type (
	// Look asks for a matrix, at an epoch of the cache.
	Look struct {
		proto.View
		Epoch uint32
	}
	// Unlook stops that.
	Unlook struct{}
)

func (Look) effect()   {}
func (Unlook) effect() {}

// attend handles these events; ok is false for others.
func attend(m Model, e Event) (_ Model, ok bool) {
	a := &m.Attention
	switch e := e.(type) {
	case Watch:
		a.On, a.touched = e.On, true
	case PickHead:
		m = m.pick(e.Head)
	case PickRow:
		a.Row = e.Query
	case SetBy:
		a.By = min(e.By, Measures-1)
	case SetLinear:
		a.Linear = e.On
	case SetBare:
		a.Bare = e.On
	case Viewed:
		m = viewed(m, e)
	case Overlooked:
		m = overlooked(m, e)
	default:
		return m, false
	}
	return m, true
}

// introduced is the attention of a model that was just opened. Few heads are watched from the start: that costs little.
func (a Attention) introduced(builtIn bool) Attention {
	n := attentive
	n.On, n.touched, n.Linear, n.Bare, n.By = a.On, a.touched, a.Linear, a.Bare, a.By
	if !n.touched {
		n.On = builtIn
	}
	return n
}
