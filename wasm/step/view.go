package step

import "math"

// View says which attention rows become codes, and where they go. A cell is the largest softmax probability of Pool
// neighbouring positions, as [Code] writes it; where rows of several queries share a row of cells, they pool too, so
// that no single token vanishes. Positions that have no token any more, or come after the query's, are 0.
//
// Row r of the turn and head h go to row (h − Head) + (r − Base) div Pool of cells: either one query of several heads
// (Base is its row), or many queries of one head (Base is 0); never several of both. What is there stays where it is larger.
type View struct {
	Layer       int
	Head, Heads int // query heads [Head, Head + Heads)
	Row, Rows   int // chunk rows of Q; chunk row 0 is row Args.From of the turn, so at position Args.Pos + Args.From
	Base        int // the row of the turn whose cells come first; at most Args.From + Row
	Pool        int // at least 1
	Dst         Buffer
	Off, Stride int64 // bytes of the first row of cells, and from one to the next: multiples of 4
	// Sums is where head h's [Sum] goes, as four f32 at byte Sums + 16·(h − Head); −1 for none. Only with one row.
	Sums int64
}

// Viewer is what an Exec offers that looks at attention. It works from the queries in Q and the keys in the cache, as
// Exec.AttentionRow does, and needs no memory unless it is called. What it needs is in the ledger as cache.Views until
// View.Dst is freed.
type Viewer interface {
	Look(a *Args, v *View) error
	// Scores writes the logits q·k/√D of a head for one chunk row: out is [positions]; −Inf where AttentionRow has 0
	// because there is no token or a later one.
	Scores(a *Args, layer, head, row int, out []float32) error
}

// Sum describes the attention of one head for one query. Unlike codes, it is computed from all probabilities.
type Sum struct {
	Sink    float32 // share of the tokens at positions 0…SinkTokens−1
	Local   float32 // share of the last LocalTokens positions, the query's own among them, but for what Sink has
	Entropy float32 // in nats
	Top1    float32 // the largest probability
}

const (
	// SinkTokens is how many first tokens count as the attention sink ("Efficient Streaming Language Models with
	// Attention Sinks", Xiao et al., 2023).
	SinkTokens = 4
	// LocalTokens is how many of the last tokens count as local.
	LocalTokens = 32
	// MaxCells is the largest number of columns, and of rows, of a view.
	MaxCells = 1024
)

// decades is how many powers of ten the codes span below 1.
const decades = 4

// Code writes a probability in a byte: log10 from −4 to 0 as 0…255, to the nearest. What is smaller is 0, as 0 itself.
func Code(p float64) uint8 {
	if !(p > 0) {
		return 0
	}
	return uint8(min(255, max(0, math.Round(255*(1+math.Log10(p)/decades)))))
}

// Uncode is the probability that a code stands for; 0 for code 0.
func Uncode(c uint8) float64 {
	if c == 0 {
		return 0
	}
	return math.Pow(10, decades*(float64(c)/255-1))
}

// Pool is the number of neighbours that share a cell so that n tokens need at most most cells, and the number of cells.
func Pool(n, most int) (pool, cells int) {
	pool = max(1, (n+most-1)/most)
	return pool, (n + pool - 1) / pool
}
