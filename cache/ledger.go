package cache

// Kind is what a piece of memory is for.
type Kind uint8

// The kinds of the ledger, in the order in which the page lists them.
const (
	Weights     Kind = iota // packed weights
	KVF32                   // key and value pages of f32
	KVF16                   // key and value pages of f16
	Positions               // position pages
	Free                    // arena bytes that no page uses
	Aux                     // page tables, RoPE table, orders
	Scratch                 // activations
	Staging                 // repack tiles, read-back
	Checkpoints             // copies for undo
	Views                   // attention rows and matrices on screen
	HostCold                // compressed pages outside the arena
	Shadow                  // copies of evicted keys and values, for inspection only
	Kinds                   // number of kinds
)

// Row is one line of the ledger, in bytes. Allocated − Logical is padding.
type Row struct{ Logical, Allocated, Peak int64 }

// Ledger counts what the engine asked the device or host for. Safe for one goroutine.
type Ledger struct{ rows [Kinds]Row }

// Add enters (or, negative, gives back) bytes of one kind.
func (l *Ledger) Add(k Kind, logical, allocated int64) { panic("contract") }

// Rows returns a copy of all lines.
func (l *Ledger) Rows() [Kinds]Row { return l.rows }
