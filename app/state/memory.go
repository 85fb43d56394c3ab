package state

import "kvlens/wasm/proto"

// Kind is a line of the memory ledger. The numbers are those of cache.Kind, which the protocol carries; a test keeps
// the two lists equal.
type Kind uint8

// The kinds, in the ledger's order.
const (
	Weights Kind = iota
	KVF32
	KVF16
	Positions
	Free
	Aux
	Scratch
	Staging
	Checkpoints
	Views
	HostCold
	Shadow
	Scores
	Bounds
	Sums
	Kinds
)

var kindNames = [Kinds]string{
	"weights", "kv-f32", "kv-f16", "positions", "free", "aux", "scratch", "staging", "checkpoints", "views", "cold", "shadow",
	"scores", "bounds", "sums",
}

// String is the kind's part of its catalogue key.
func (k Kind) String() string { return kindNames[k] }

// InArena reports whether the kind lives inside the memory cap.
func (k Kind) InArena() bool {
	switch k {
	case KVF32, KVF16, Positions, Free, Scores, Bounds, Sums:
		return true
	}
	return false
}

// Row is one line: what is needed, what was asked of the machine, and the most that ever was.
type Row struct {
	Kind                     Kind
	Logical, Allocated, Peak uint64
}

// Memory is the ledger and the session's numbers.
type Memory struct {
	Rows       []Row
	Cap        uint64 // cap the engine uses, bytes
	Default    uint64 // cap when nothing is asked for, bytes
	Reserved   uint64 // WASM memory that Go has taken and does not give back
	Stored     uint32 // tokens in the cache
	Position   uint32
	Room       uint32 // tokens that still fit; Endless where tokens leave
	Context    uint32
	TokenBytes uint32 // KV bytes of one token
	PeakKV     uint64 // most bytes that pages have taken of the arena
}

// Endless is the room of a recipe that lets tokens go.
const Endless = 1<<31 - 1

// rowsOf keeps the known kinds.
func rowsOf(in []proto.LedgerRow) []Row {
	rows := make([]Row, 0, len(in))
	for _, r := range in {
		if Kind(r.Kind) < Kinds {
			rows = append(rows, Row{Kind(r.Kind), r.Logical, r.Allocated, r.Peak})
		}
	}
	return rows
}

// withState takes over what the engine measured.
func (m Memory) withState(s proto.State) Memory {
	m.Cap, m.Reserved = s.Cap, s.Reserved
	m.Stored, m.Position, m.Room, m.Context = s.Stored, s.Position, s.Room, s.Context
	return m.withLedger(s.Ledger)
}

func (m Memory) withLedger(l []proto.LedgerRow) Memory {
	if len(l) == 0 {
		return m
	}
	m.Rows = rowsOf(l)
	m.PeakKV = max(m.PeakKV, m.Used())
	return m
}

// Used are the arena's bytes in pages.
func (m Memory) Used() uint64 {
	var n uint64
	for _, r := range m.Rows {
		if r.Kind.InArena() && r.Kind != Free {
			n += r.Allocated
		}
	}
	return n
}

// Needed is how much of that is used: pages are handed out whole.
func (m Memory) Needed() uint64 {
	var n uint64
	for _, r := range m.Rows {
		if r.Kind.InArena() && r.Kind != Free {
			n += r.Logical
		}
	}
	return n
}

// Row finds a kind's line.
func (m Memory) Row(k Kind) Row {
	for _, r := range m.Rows {
		if r.Kind == k {
			return r
		}
	}
	return Row{Kind: k}
}

// Total sums all lines. Peaks of different lines need not have been at one time, so their sum is an upper bound.
func (m Memory) Total() Row {
	var t Row
	for _, r := range m.Rows {
		t.Logical += r.Logical
		t.Allocated += r.Allocated
		t.Peak += r.Peak
	}
	return t
}
