package policy

// Plan is a recipe as stages with every number filled in:
//
//	score → pool, reduce → allocate (layers, heads) → protect → select → store, and a rule for decoding.
//
// A plan is plain data. This package runs it on arrays; a backend runs it where the model is.
type Plan struct {
	Score   Score
	Pool    Pool
	Reduce  Reduce
	Layers  Layers
	Heads   Heads
	Protect Protect
	Select  Select
	Store   Store
	Decode  Decode
}

// ScoreKind says what a token is worth; more is kept longer.
type ScoreKind uint8

// The kinds of scores.
const (
	ScoreNone      ScoreKind = iota // position alone decides
	ScoreWindow                     // attention that the last Window queries give it
	ScoreIndicator                  // the same, mean + Gamma · variance over the queries (CAKE)
	ScoreColumns                    // attention that all queries gave it (H2O)
	ScoreNorm                       // −‖k‖₂
	ScoreKeyDiff                    // −cos(k, mean direction of the keys)
	ScoreExpected                   // attention that future queries are expected to give it
	ScoreRandom                     // a hash of Seed, layer, KV head and position
)

// Score is the scoring stage.
type Score struct {
	Kind       ScoreKind
	Window     int     // w: queries of the observation window
	Mean       bool    // mean over the window's queries instead of the sum
	Gamma      float64 // ScoreIndicator
	PerQuery   bool    // ScoreColumns: divided by how many queries could look
	Heads      int     // only the first so many semantic retrieval heads of each layer; 0 is all heads
	Future     int     // ScoreExpected: positions ahead
	Covariance bool    // ScoreExpected
	ValueNorm  bool    // ScoreExpected: times ‖v‖₂
	Epsilon    float64 // ScoreExpected
	SkipLayers int     // layers that keep everything they may by recency alone
	Seed       uint64
}

// signed says that scores may be below 0; others are shares of attention, or from 0 on.
func (s *Score) signed() bool { return s.Kind == ScoreNorm || s.Kind == ScoreKeyDiff }

// PoolKind smooths scores along the tokens.
type PoolKind uint8

// The kinds of pooling.
const (
	PoolNone PoolKind = iota
	PoolAvg           // zeros beyond the ends, the divisor is always Size
	PoolMax
)

// Pool is the smoothing stage: stride 1, Size div 2 of padding at both ends.
type Pool struct {
	Kind  PoolKind
	Size  int
	After bool // after the reduction over the group instead of before
}

// ReduceKind makes one row of scores of those of several query heads.
type ReduceKind uint8

// The kinds of reduction. The group axis is the inner one: query head h belongs to KV head h div (n_heads/n_kv_heads).
const (
	ReduceMean  ReduceKind = iota // over the query heads of a KV head
	ReduceMax                     //
	ReduceSum                     //
	ReduceLayer                   // mean over all query heads that were scored: one set for the layer
)

// Reduce is the reduction stage.
type Reduce struct{ Kind ReduceKind }

// LayersKind shares the budget among layers.
type LayersKind uint8

// The kinds of layer budgets.
const (
	LayersUniform LayersKind = iota
	LayersPyramid            // PyramidKV: a line from low layers to high ones
	LayersCake               // CAKE: by entropy and variance of attention, layer after layer
	LayersError              // CompressKV: by measured errors
)

// Layers is the first half of allocation. With Reference, integers are rounded as the method's published code does,
// and may miss the sum; otherwise by largest remainder, so that they meet it.
type Layers struct {
	Kind           LayersKind
	Beta           float64 // pyramid
	Tau1, Tau2     float64 // CAKE
	Floor, Ceiling int     // error: least tokens, and the most as a multiple of B
	Argmax         bool    // error: the paper's tie rule instead of its code's
	KVPress        bool    // pyramid: kvpress' arithmetic instead of the original's
	Reference      bool
}

// HeadsKind shares a layer's budget among its KV heads.
type HeadsKind uint8

// The kinds of head budgets.
const (
	HeadsUniform    HeadsKind = iota
	HeadsImportance           // HeadKV: by measured importance, over all layers and heads
	HeadsAdaptive             // AdaKV: by the scores, within a layer
	HeadsMask                 // RazorAttention, DuoAttention: retrieval heads keep all, others sinks and a window
)

// Heads is the second half of allocation.
type Heads struct {
	Kind      HeadsKind
	Beta      float64 // importance: dynamic share is 1/Beta
	Alpha     float64 // adaptive: share that every head is sure of
	Normalise bool    // adaptive: scores weighted by the mass of their top
	KVPress   bool    // adaptive: kvpress' form, safe tokens first and then the lowest of all heads go
	Retrieval float64 // mask: share of KV heads that count as retrieval heads, by Table
	Echo      float64 // mask: share that counts as echo heads (Razor)
	Local     int     // mask: window of the other heads, at most this
	LocalPart float64 // mask: or this part of the text, where that is more
	Duo       bool    // mask: from retrieval scores (Duo) instead of induction and echo (Razor)
	Reference bool
}

// Protect names what never leaves.
type Protect struct {
	Sinks  int     // first positions
	Recent int     // last tokens; includes the observation window
	Part   float64 // and at least this part of a list's budget is the last tokens (H2O)
}

// recent is how many of the last tokens of a list with so much room never leave.
func (p *Protect) recent(room int) int { return max(p.Recent, int(p.Part*float64(room))) }

// SelectKind picks tokens by score.
type SelectKind uint8

// The kinds of selection.
const (
	SelectTop      SelectKind = iota // the highest; of equals the lower position
	SelectChunks                     // whole chunks of Chunk tokens by their mean (ChunkKV)
	SelectCritical                   // First of the budget by score, the rest by (score + Epsilon)·‖W_o·v‖₁ (CriticalKV)
)

// Select is the selection stage.
type Select struct {
	Kind    SelectKind
	Chunk   int
	First   float64
	Epsilon float64
}

// Store is the last stage.
type Store struct {
	Rank    bool // keys are stored before RoPE and rotated on load by rank, queries too (StreamingLLM)
	Virtual bool // a compensation token stands for what left (RazorAttention)
	Page    int  // Quest: tokens a page, whose bounds choose what a query reads; 0 is off
	Read    int  // Quest: tokens that a query reads
	Whole   int  // Quest: first layers whose queries read everything
}

// PageIn is how many tokens have bounds by which queries of a layer choose what they read; 0 if they read everything.
func (s *Store) PageIn(layer int) int {
	if layer < s.Whole {
		return 0
	}
	return s.Page
}

// DecodeKind says what happens when a list is full while decoding.
type DecodeKind uint8

// The kinds of decode rules.
const (
	DecodeStop   DecodeKind = iota // nothing leaves: the answer ends with a sentence (Full, Quest)
	DecodeCap                      // ours: at B + reserve, back to B by the moving average of attention
	DecodeOldest                   // each step the oldest that is not protected (windows, StreamingLLM, masked heads)
	DecodeSums                     // each step the lowest accumulated attention outside Recent (H2O)
	DecodeRow                      // each step the lowest of the last query's attention (TOVA, CAKE)
)

// Decode is the rule for tokens that come after the prompt.
type Decode struct {
	Kind   DecodeKind
	Decay  float64 // DecodeSums: acc ← Decay·acc + row; DecodeCap: acc ← Decay·acc + (1−Decay)·row
	Pool   Pool    // DecodeRow, over tokens in position order
	Reduce Reduce  // DecodeRow
	Recent int     // DecodeRow: tokens beyond the layer's budget that never leave (CAKE's window)
}
