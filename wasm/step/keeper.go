package step

import (
	"errors"

	"kvlens/cache"
	"kvlens/cache/policy"
)

// ErrPlan is wrapped by the errors of Keeper.Runs.
var ErrPlan = errors.New("this backend does not run the plan")

// Keeper is what an Exec offers whose device itself chooses the tokens that stay, by kernels: the caller says how many
// ([policy.Run.Quotas]) and keeps the books by number ([cache.Cache.Hold]), and reads nothing back to do so. Which tokens a
// list holds is asked for once, at the end: the lists are lent from Lend to Return. It is the other way to run recipes
// beside [Scorer], with the same results.
//
// While a plan is followed, Store keeps the bounds of pages (Store.Page). In a prompt, Lend comes first; each layer then
// goes QKV, Attend and Observe chunk by chunk; Weigh; policy.Run.Quotas, which asks Unrest and Highest; and for each of
// the quotas Select, cache.Cache.Hold and Keep. Return ends it. Answers are the [Stepper]'s, between Lend and Return. A token
// that is decoded operation by operation goes Lend, Join; and for each layer QKV, Store, Attend and Drop; Return.
type Keeper interface {
	// Runs says, with an error that wraps ErrPlan, which plans can't be followed.
	Runs(p *policy.Plan) error
	// Follow sets the plan of the runs from now on, and the head tables that it may need; nil is Full. What it needs for an
	// arena enters the ledger, until runs on the arena are under another plan or the arena is freed.
	Follow(p *policy.Plan, t *policy.Tables) error
	// Lend tells the device what a.Cache's lists hold, before a prompt.
	Lend(a *Args, l *Loan) error
	// Observe gathers from the rows [From, To) whose queries Attend has just used. Chunks come in order.
	Observe(a *Args, layer int) error
	// Weigh scores the candidates of a layer whose rows were all observed: its stored tokens and the rows of K and V. What
	// the device found is there for Statistics until the next layer's.
	Weigh(a *Args, layer int) error
	policy.Statistics
	// Select chooses the tokens of a layer that stay, and the slots of the new ones among them. A layer that was stored
	// before in this prompt shrinks.
	Select(a *Args, q *policy.LayerQuotas) error
	// Keep stores what Select chose. The cache holds as many already.
	Keep(a *Args, layer int) error
	// Join gives the next token a place in every list, which Store needs no slots for; the cache counts it. Errors may be
	// *cache.FullError and cache.ErrScattered: then nothing has changed.
	Join(a *Args, rules []Rule) error
	// Rejoin is Join with the newest token that the lists have, whose attention is not accumulated again.
	Rejoin(a *Args, rules []Rule) error
	// Drop lets a layer's lists lose what their rules say, after Attend. The cache counts that.
	Drop(a *Args, layer int) error
	// Left says what the token of a Join made leave, after the last layer's Drop.
	Left(a *Args) ([]Left, error)
	// Pack moves the last tokens of a layer's lists into their dead slots, before cache.Cache.Pack.
	Pack(a *Args, layer int) error
	// Relocate copies whole pages within the arena, after cache.Cache.Gather.
	Relocate(a *Args, pages []cache.PageMove) error
	// Return reads the positions of all lists that are lent, in one piece, and lets a.Cache learn them.
	Return(a *Args) error
}

// MaxPins is how many tokens a device can keep against its plan.
const MaxPins = 16

// Loan is what a prompt under a plan begins with.
type Loan struct {
	Rows int // of the prompt
	Most int // tokens that a list can get while its layer is decided
	// Pins are the positions that stay whatever the plan says, at most MaxPins.
	Pins []int32
	// Turn is the mean rotation of the positions to come, cos and sin [RotDim/2][2], for plans that look ahead
	// (policy.ScoreExpected).
	Turn []float32
}
