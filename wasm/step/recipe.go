package step

import (
	"kvlens/cache"
	"kvlens/cache/policy"
)

// Scorer is what an Exec offers that can run recipes which drop tokens. It gathers what [policy] decides on; the
// decisions and the book-keeping of slots are the caller's. The host's positions (cache.List.At) are the truth: a slot
// that the cache calls dead is dead for every run after it.
//
// While a plan is followed,
//   - Store leaves rows out whose slot is cache.NoSlot, begins the accumulated attention of the others at 0 and keeps the
//     bounds of their pages;
//   - Attend sees what the plan lets a query see: keys rotated by rank (Store.Rank; they are stored before RoPE), a
//     compensation token (Store.Virtual), or, for a decoded row, the pages with the largest bounds (Store.PageIn).
//
// In a prompt, each layer goes Begin; QKV, Attend and Observe chunk by chunk; Input; then cache.Cache.Evict and Put,
// Absorb of what is dropped, Store, PutSums. A decoded row goes QKV, Put, Store, Attend, Rows, and then Absorb and Evict.
type Scorer interface {
	// Follow sets the plan for the runs from now on; nil is Full. What it needs enters the ledger, until the plan changes
	// or the program is closed.
	Follow(p *policy.Plan) error
	// Loops are the inner loops of scoring that are fastest here.
	Loops() policy.Loops
	// Begin forgets what Observe gathered and begins a layer.
	Begin(layer int)
	// Observe gathers from the rows [From, To) whose queries Attend has just used: last queries, column sums, spread.
	// Chunks come in order.
	Observe(a *Args, layer int) error
	// Input gives what the plan needs of the layer, after all rows were observed and before they are stored. Valid until
	// the next call, or until the cache changes.
	Input(a *Args, layer int) (*policy.Input, error)
	// Rows gives the attention of the decoded row, whose token is stored, and folds it into the accumulated attention.
	// What the plan's decode rule does not need is nil. Valid until the next call, or until the cache changes.
	Rows(a *Args, layer int) (*policy.StepInput, error)
	// PutSums sets the accumulated attention of slots of one list, after their rows were stored.
	PutSums(a *Args, layer, kvHead int, slots []uint32, sums []float32) error
	// Absorb adds tokens that leave to a list's compensation token, slots of stored ones and rows of K and V, and counts
	// them in cache.List.Absorbed. The list has a record of sums from its first slot on. Slots may be dead, and taken
	// again, but not stored to.
	Absorb(a *Args, layer, kvHead int, slots []uint32, rows []int32) error
	// Move copies what slots of one list hold, after cache.Cache.Compact.
	Move(a *Args, layer, kvHead int, moves []cache.Move) error
	// Relocate copies whole pages within the arena, after cache.Cache.Gather.
	Relocate(a *Args, pages []cache.PageMove) error
}

// Packer is what a Scorer offers that can show what it would store.
type Packer interface {
	// Pack writes rows of K and V of one layer's KV head to dst as Store would write them to their slots, each row's key and
	// then its value.
	Pack(a *Args, layer, kvHead int, rows []int32, dst []byte) error
}
