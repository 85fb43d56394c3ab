package policy

// Run is a plan at work on one session. Layers of a prompt come in order; decoded tokens come layer by layer after it.
// A later prompt of the session calls Prompt again.
type Run struct{}

// NewRun checks that a plan suits a model, its tables and a budget.
func NewRun(p *Plan, s Shape, b Budget, t *Tables) (*Run, error) { panic("contract") }

// Prompt begins a prompt of so many new tokens.
func (r *Run) Prompt(tokens int) { panic("contract") }

// Layer decides what stays of the next layer of the prompt, and, where a method shares a budget as it goes, what stays of
// layers before it: indices then count what stayed of them last. The results are valid until the next call.
func (r *Run) Layer(layer int, in *Input, l Loops) ([]Keep, error) { panic("contract") }

// Step decides which tokens leave a layer's lists after a decoded token was stored: indices, ascending, by KV head.
func (r *Run) Step(layer int, in *StepInput) [][]int32 { panic("contract") }

// Caps are the tokens that each list may hold after the prompt, [layers][n_kv_heads]; layers not reached yet have nil.
func (r *Run) Caps() [][]int { panic("contract") }

// Scores are the last prompt's scores of a layer by KV head, over its candidates: for looking at, nil where position
// alone decides.
func (r *Run) Scores(layer int) [][]float32 { panic("contract") }
