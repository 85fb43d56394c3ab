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
	Aux                     // page tables, mirrors of positions, orders, RoPE table
	Scratch                 // activations
	Staging                 // repack tiles, read-back
	Checkpoints             // copies for undo
	Views                   // attention rows and matrices on screen
	HostCold                // compressed pages outside the arena
	Shadow                  // copies of evicted keys and values, for inspection only
	Scores                  // pages of accumulated attention
	Bounds                  // pages of minima and maxima of keys (Quest)
	Sums                    // sums of evicted keys and values (RazorAttention)
	Kinds                   // number of kinds
)

// Row is one line of the ledger, in bytes. Allocated − Logical is padding; Peak is the largest Allocated so far.
type Row struct{ Logical, Allocated, Peak int64 }

// Ledger counts what the engine asked the device or host for. Safe for one goroutine.
//
// Who enters what: whoever asks for memory enters it, once, and takes it out when it gives the memory back. An arena is
// asked for by a backend's Alloc with kind [Free], so the backend enters it there; a [Cache] over that arena only moves
// bytes between Free and the kinds of its pages. At every moment the sum of Allocated is therefore what was asked for.
// Free has no logical bytes: an empty arena is all padding.
type Ledger struct {
	rows  [Kinds]Row
	total Row
	high  int64 // the largest sum since Watch
}

// Add enters (or, negative, gives back) bytes of one kind.
func (l *Ledger) Add(k Kind, logical, allocated int64) {
	l.rows[k].add(logical, allocated)
	l.total.add(logical, allocated)
	l.high = max(l.high, l.total.Allocated)
}

// Watch begins to look for the largest sum of allocated bytes, which High tells: what a piece of work took at its height.
func (l *Ledger) Watch() { l.high = l.total.Allocated }

// High is the largest sum of allocated bytes since Watch.
func (l *Ledger) High() int64 { return l.high }

// Move turns allocated bytes of one kind into another; the total, and so its peak, stays as it is.
func (l *Ledger) Move(from, to Kind, allocated int64) {
	l.rows[from].add(0, -allocated)
	l.rows[to].add(0, allocated)
}

// Rows returns a copy of all lines.
func (l *Ledger) Rows() [Kinds]Row { return l.rows }

// Total is the sum of all lines. Its Peak is the largest sum there was, not the sum of the lines' peaks.
func (l *Ledger) Total() Row { return l.total }

func (r *Row) add(logical, allocated int64) {
	r.Logical += logical
	r.Allocated += allocated
	r.Peak = max(r.Peak, r.Allocated)
}
