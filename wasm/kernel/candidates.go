package kernel

// Words of the buffer of candidates, as shaders/lib/tokens.wgsl names them.
const (
	tokenNew = iota
	tokenStride
	tokenQueries
	tokenFirstRow
	tokenFirst
	tokenAround
	tokenScored
	tokenOrder
	tokenRoom
	tokenSeen
	tokenSame
	tokenStored = 16
)

// Invalid is the score of what is no candidate: low enough to lose, and finite, as WGSL wants it.
const Invalid = -1e30

// Candidates are the tokens of a layer that a recipe chooses from, and the queries that it looks at: what the host tells
// the kernels of recipes, in one small write a layer. A KV head's candidates are its stored tokens in the order of their
// positions, and then the new rows.
//
// Scores are f32 [n_kv_heads][Stride] in the order of the candidates; entries beyond a head's own are [Invalid].
type Candidates struct {
	Stored [][]uint32 // [n_kv_heads]: slots in the order of their positions
	New    int        // rows that are not stored yet
	Scored []int      // query heads whose attention counts

	// Queries are rows [First, First+Queries) of their buffer, which goes round after Around rows; the first of them is
	// that of new row FirstRow.
	Queries, FirstRow, First, Around int
	// Seen is how many queries the spread holds.
	Seen int
	// Same says that all KV heads have the same candidates.
	Same bool
	// Slots is the longest list with its dead slots, after rows were stored.
	Slots int
}

// Stride is the length of a row of scores.
func (c *Candidates) Stride() int { return (c.room() + c.New + 3) &^ 3 }

// room is the longest list of stored tokens.
func (c *Candidates) room() int {
	n := 0
	for _, slots := range c.Stored {
		n = max(n, len(slots))
	}
	return n
}

// Words are what the buffer of candidates holds.
func (c *Candidates) Words() []uint32 {
	room := c.room()
	order := tokenStored + len(c.Stored) + len(c.Scored)
	words := make([]uint32, order+len(c.Stored)*room)
	for at, n := range map[int]int{
		tokenNew: c.New, tokenStride: c.Stride(), tokenQueries: c.Queries, tokenFirstRow: c.FirstRow, tokenFirst: c.First,
		tokenAround: max(1, c.Around), tokenScored: len(c.Scored), tokenOrder: order, tokenRoom: room, tokenSeen: c.Seen, tokenSame: int(flag(c.Same)),
	} {
		words[at] = uint32(n)
	}
	for h, slots := range c.Stored {
		words[tokenStored+h] = uint32(len(slots))
		copy(words[order+h*room:], slots)
	}
	for i, head := range c.Scored {
		words[tokenStored+len(c.Stored)+i] = uint32(head)
	}
	return words
}
