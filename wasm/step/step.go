// Package step defines the step program, which wasm/llama writes once per model, and the interface of the backends that
// run it. It is the meeting point of the three backends (ref, cpu, kernel) and holds no computation.
//
// A program is a list of fused operations over named scratch buffers. The same list serves prefill (many rows) and
// decode (one row); a row is one token. Shapes: T rows, H hidden size, D head_dim, V vocabulary size.
package step

import (
	"context"
	"errors"

	"kvlens/cache"
	"kvlens/wasm/quant"
)

// Buffer is a backend's handle of a piece of memory; 0 is none.
type Buffer int32

// Tensor is a matrix in a backend's memory, packed as its layout says.
type Tensor struct {
	Buf        Buffer
	Off        int64 // bytes from the start of Buf, a multiple of 256
	Layout     quant.Layout
	Rows, Cols int
}

// Stack is a matrix made of blocks of rows (Q over K over V, gate over up). Loading merges neighbours of one layout, so
// that it has one member unless the file mixes types.
type Stack []Tensor

// Name names a scratch buffer of a program. All scratch is f32, row-major.
type Name uint8

const (
	X      Name = iota // [prompt rows][H] residual stream
	K                  // [prompt rows][n_kv_heads·D] keys of the rows in work, one layer
	V                  // [prompt rows][n_kv_heads·D] values of the rows in work, one layer
	Q                  // [chunk rows][n_heads·D] rotated queries
	A                  // [chunk rows][n_heads·D] attention output before the output projection
	F                  // [chunk rows][ffn] SiLU(gate)·up
	N                  // [chunk rows][H] output of the final norm
	Logits             // [logit rows][V]
	Names              // number of names
)

// Op is one fused operation: Embed, QKV, Store, Attend, Project, GateUp, Norm or Head.
type Op interface{ op() }

type (
	// Embed sets X[t] to row ids[t] of Table [V][H].
	Embed struct{ Table Tensor }
	// QKV computes Q, K, V = RoPE(W·(rms(X)·Norm)): RoPE on Q and K only. W is [ (n_heads+2·n_kv_heads)·D ][H].
	QKV struct {
		Layer int
		Norm  Tensor // f32 [1][H]
		W     Stack
	}
	// Attend computes A: causal softmax(q·k/√D)·v over the layer's stored tokens and the rows 0…t of K and V that are
	// not stored yet. Query head h reads KV head h div (n_heads/n_kv_heads). In decode, Store runs first and Attend
	// reads stored tokens only.
	Attend struct{ Layer int }
	// Store writes rows of K and V, and their positions, to the slots of the run; rows whose slot is cache.NoSlot are left
	// out.
	Store struct{ Layer int }
	// Project adds W·In to X: the attention's output projection (In = A) and the MLP's down projection (In = F).
	Project struct {
		Layer int
		In    Name
		W     Tensor // [H][len of In's rows]
	}
	// GateUp computes F = SiLU(g)·u with g, u = W·(rms(X)·Norm). W is [2·ffn][H], gate rows first.
	GateUp struct {
		Layer int
		Norm  Tensor
		W     Stack
	}
	// Norm computes N = rms(X)·Norm, the final norm.
	Norm struct{ W Tensor }
	// Head computes Logits = W·N.
	Head struct{ W Tensor }
)

func (Embed) op()   {}
func (QKV) op()     {}
func (Attend) op()  {}
func (Store) op()   {}
func (Project) op() {}
func (GateUp) op()  {}
func (Norm) op()    {}
func (Head) op()    {}

// Shape holds the sizes of a model, by the field's names.
type Shape struct {
	Layers, Hidden, Heads, KVHeads, HeadDim, FFN, Vocab int
	RotDim                                              int  // rotated channels of a head, even
	Neox                                                bool // RoPE pairs (i, i+RotDim/2) instead of (2i, 2i+1)
	Eps                                                 float32
}

// Program is what a backend compiles. Chunk is the largest number of rows of Q, A, F and N that one run may hold.
type Program struct {
	Shape Shape
	Chunk int
	Ops   []Op
	// Rope holds cos and sin, f32 [positions][RotDim/2][2], made on the host.
	Rope Buffer
}

// LogitRows says for which rows of a run Norm and Head work.
type LogitRows uint8

const (
	LastRow LogitRows = iota // the last row only, into row 0 of N and Logits
	AllRows                  // every row [From, To) into rows 0…
)

// Args are the inputs of one run over rows [From, To) of IDs.
type Args struct {
	Cache    *cache.Cache
	Arena    Buffer
	IDs      []int32 // all rows of this prefill (or the one row of a decode step)
	Pos      int     // position of IDs[0]
	From, To int     // rows that this run works on; To−From ≤ Chunk
	// Slots[kvHead][t] is the slot of row t in the layer of a Store op; nil before the layer's slots are taken.
	Slots  [][]uint32
	Stored bool // the row's K and V are in the cache already (decode, one row): Attend reads the cache only
	Logits LogitRows
}

// Exec is a compiled program with its scratch. It is used from one goroutine.
type Exec interface {
	// Grow makes room for prompts of rows tokens (X, K, V) and logitRows rows of logits.
	Grow(rows, logitRows int) error
	// Run runs ops [from, to) of the program on a.
	Run(ctx context.Context, a *Args, from, to int) error
	// Scratch gives the buffer behind a name, for reading.
	Scratch(n Name) Buffer
	// AttentionRow writes the softmax row of Q's row (chunk row) for one layer: out is [n_heads][positions], 0 where there
	// is no token or a later one. Of a [Keeper], it has slots in place of positions, which under the full recipe are the
	// same.
	AttentionRow(a *Args, layer, row int, out [][]float32) error
	Close()
}

// Info describes a backend for the page's chip and for the choice of slabs.
type Info struct {
	Name      string // "ref", "cpu" or "webgpu"
	Detail    string // adapter, SIMD level or number of cores
	MaxBuffer int64  // largest single buffer in bytes, 0 if unlimited
}

// ErrMemory is wrapped by the errors of Alloc where there is not enough memory.
var ErrMemory = errors.New("not enough memory")

// Backend owns memory and runs programs. Every byte it is asked for is in the ledger that it was made with.
type Backend interface {
	Info() Info
	// Alloc returns zeroed memory of size bytes. Kind cache.Free is for arenas: the bytes enter the ledger as allocated,
	// and a cache.Cache over the arena moves them to the kinds of its pages.
	Alloc(kind cache.Kind, name string, size int64) (Buffer, error)
	Upload(dst Buffer, off int64, src []byte) error
	Read(src Buffer, off int64, dst []byte) error
	Free(b Buffer)
	Compile(p *Program) (Exec, error)
	Close() error
}

// Sampling are the settings of a token's choice, with the meaning that package sample gives them.
type Sampling struct {
	Temperature, TopP, MinP, Repeat float32
	TopK                            int
	Random                          uint64 // state of the generator
}

// Answer is what a Stepper works on.
type Answer struct {
	Cache   *cache.Cache
	Arena   Buffer
	Pos     int   // of the next token
	Pending int32 // the token at Pos if it is known; −1: it is chosen from row 0 of Logits
	Sampling
	Stop   []int32 // ids that end the answer; at most MaxStops
	Recent []int32 // what the repetition penalty applies to, latest last; those that are chosen join
	// Rules are those of the lists, [layers·n_kv_heads], where a [Keeper] follows a plan under which tokens leave; the lists
	// are lent. Otherwise they are nil.
	Rules []Rule
	Watch bool // choices say what left
}

// Rule is what happens to a list while tokens are decoded: with Full tokens, the newest among them, some leave so that
// Limit stay, so many of the oldest and of the newest among them, and so many pins that are neither when the answer begins.
type Rule struct{ Limit, Full, Oldest, Newest, Pins int }

// Left is a token that left a list.
type Left struct {
	List     int // layer · n_kv_heads + KV head
	Position int32
	// Worth is what it was worth, Threshold the least worth that stayed without protection, and Rank its place among all that
	// were compared, 1 for the best. Where age alone decides they are NaN and 0.
	Worth, Threshold float32
	Rank             int
}

const (
	// MaxStops is the largest number of stop ids of an Answer.
	MaxStops = 16
	// InFlight is how many steps may be submitted and not waited for.
	InFlight = 4
	// RecentTokens is how many tokens the repetition penalty looks back.
	RecentTokens = 64
)

// Choice is one token of an Answer. The probabilities are the plain softmax's.
type Choice struct {
	ID       int32 // −1 if the answer had ended before
	Prob     float32
	TopIDs   [5]int32
	TopProbs [5]float32
	Left     []Left // for the token before it, by list and position, if the answer is watched
}

// ErrLogits is wrapped by Next where the logits hold NaN or infinity, or are all equal.
var ErrLogits = errors.New("logits unusable")

// Stepper is what an Exec offers whose decode runs without its host: each step stores the token before it, computes
// logits and chooses the next token, which stays where the next step finds it. Steps after a stop id store nothing.
type Stepper interface {
	// Begin starts an answer; one that was not ended is. Grow(1, 1) comes before.
	Begin(a *Answer) error
	// Submit queues a step, which takes a slot in every list of the cache unless it is the first and nothing is pending.
	// The step's choice is forced, unless that is −1. A *cache.FullError or cache.ErrScattered means that nothing was queued.
	// Where lists have rules, the cache counts a step's tokens when it has been waited for.
	Submit(forced int32) error
	// Next waits for the oldest step that was not waited for.
	Next(ctx context.Context) (Choice, error)
	// End waits for what is in flight and drops it.
	End()
}
