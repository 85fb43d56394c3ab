package step

import (
	"kvlens/cache"
	"kvlens/cache/policy"
)

// Scorer is what an Exec offers that can run recipes which drop tokens. It gathers what [policy] decides on; the
// decisions and the book-keeping of slots are the caller's.
type Scorer interface {
	// Follow sets the plan for the runs from now on; nil is Full. What it needs enters the ledger.
	Follow(p *policy.Plan) error
	// Begin forgets what Observe gathered of a layer.
	Begin(layer int)
	// Observe gathers from the rows [From, To) whose queries Attend has just used: last queries, column sums, spread.
	Observe(a *Args, layer int) error
	// Input gives what the plan needs of the layer, after all rows were observed and before they are stored. Valid until
	// the next call.
	Input(a *Args, layer int) (*policy.Input, error)
	// Rows gives the attention of the decoded row, whose token is stored, and folds it into the accumulated attention.
	// Valid until the next call.
	Rows(a *Args, layer int) (*policy.StepInput, error)
	// PutSums sets the accumulated attention of slots of one list.
	PutSums(a *Args, layer, kvHead int, slots []uint32, sums []float32) error
	// Absorb adds tokens that leave to a list's compensation token: slots of stored ones, rows of K and V.
	Absorb(a *Args, layer, kvHead int, slots []uint32, rows []int32) error
	// Move copies keys, values, positions and accumulated attention from slot to slot of one list.
	Move(a *Args, layer, kvHead int, moves []cache.Move) error
	// Relocate copies whole pages within the arena (see cache.Cache.Compact).
	Relocate(a *Args, pages []cache.PageMove) error
}
