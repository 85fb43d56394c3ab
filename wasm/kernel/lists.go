package kernel

import "math"

// Words of a list in the buffer of lists, as shaders/lib/lists.wgsl names them.
const (
	listLive = iota
	listSlots
	listNew
	listStride
	listLimit
	listFull
	listOldest
	listNewest
	listLead
	listAbsorbed
	listWere
	listHeld
	listMass
	listTotal
	listEach
	listSafe
	listHad
)

// ListWords is how many words a list has there.
const ListWords = 20

// NoRank is the rank of a dead slot.
const NoRank = math.MaxUint32

// Quota is what the host tells the kernels of one list before its layer's prompt is selected. Counts follow from budgets
// alone: the host knows them without reading anything, and which tokens they are is known to the kernels.
type Quota struct {
	Live, Slots int // tokens and slots that the list has
	New, Stride int // rows that come, and the stride of what the candidates are worth
	Limit       int // tokens that stay; for adapt.wgsl those that what never leaves is counted for
	Full        int // in decode: tokens from which on some leave, so that Limit stay
	Oldest      int // so many of the first tokens never leave, and so many of the last: stage.Guard for Limit without pins
	Newest      int
	Lead        int // CriticalKV: so many are chosen by score alone
	Absorbed    int // tokens in the list's sums

	// AdaKV, in the first list of a layer: so many of the layer's highest scores count; a head's mass is that of its Each
	// highest; and in kvpress' form Safe of each head come first.
	Total, Each, Safe int
}

// Words are what the buffer of lists holds of it.
func (q *Quota) Words() []uint32 {
	words := make([]uint32, ListWords)
	for at, n := range map[int]int{
		listLive: q.Live, listSlots: q.Slots, listNew: q.New, listStride: q.Stride, listLimit: q.Limit, listFull: q.Full,
		listOldest: q.Oldest, listNewest: q.Newest, listLead: q.Lead, listAbsorbed: q.Absorbed,
		listTotal: q.Total, listEach: q.Each, listSafe: q.Safe,
	} {
		words[at] = uint32(n)
	}
	return words
}
