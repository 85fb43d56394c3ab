package cache

// Format is how a key or value page stores its numbers.
type Format uint8

// The page formats. Quantised formats join here with their recipes.
const (
	F32 Format = iota
	F16
)

// DeadPosition marks a slot that holds no token.
const DeadPosition = 0xFFFFFFFF

// PosLanes is the number of lanes of a position page.
const PosLanes = 8

// Geometry is what the cache must know of a model and of its pages.
type Geometry struct {
	Layers, KVHeads, HeadDim int
	Key, Value               Format
	PageK, PageV             int // lanes per page, P_k and P_v
}

// List is one layer's one KV head. Page tables hold the offset of each page from the arena's start, in 4-byte words.
type List struct {
	Keys, Values, Positions []uint32
	Slots                   int // slots 0…Slots−1 have held a token; some may be dead
	Live                    int // slots that hold a token
}

// Cache is the lists of one session over one arena.
type Cache struct {
	geo   Geometry
	lists []List // [layer·KVHeads + head]
	arena *arena
	led   *Ledger
}

// New makes an empty cache over an arena of capBytes. The arena's bytes enter the ledger here, page by page; the
// backend's allocation of the arena itself must not be entered again (see Ledger).
func New(g Geometry, capBytes int64, led *Ledger) (*Cache, error) { panic("contract") }

// FullBytes is what the lists of a full cache of n tokens allocate: keys, values and positions, in whole pages.
func (g Geometry) FullBytes(n int) int64 { panic("contract") }

// Geometry returns what the cache was made for.
func (c *Cache) Geometry() Geometry { return c.geo }

// List returns one list, to be read by the backends.
func (c *Cache) List(layer, kvHead int) *List { return &c.lists[layer*c.geo.KVHeads+kvHead] }

// Reserve checks that n more tokens fit every list and allocates their pages; if they don't fit, nothing changes and
// the error is a *FullError.
func (c *Cache) Reserve(n int) error { panic("contract") }

// Take hands out n slots of one list, in the order of the tokens.
func (c *Cache) Take(layer, kvHead, n int) ([]uint32, error) { panic("contract") }

// Mark remembers the state of all lists; Restore returns to it and frees the pages taken since. Valid while nothing
// was evicted in between.
func (c *Cache) Mark() Mark     { panic("contract") }
func (c *Cache) Restore(m Mark) { panic("contract") }

// Reset empties all lists.
func (c *Cache) Reset() { panic("contract") }

// Close gives the arena's bytes back to the ledger.
func (c *Cache) Close() { panic("contract") }

// Tokens is how many tokens the fullest list holds; Room how many more tokens fit every list.
func (c *Cache) Tokens() int { panic("contract") }
func (c *Cache) Room() int   { panic("contract") }

// Mark is a state to return to.
type Mark struct{ slots, live []int }

type arena struct{}

// FullError says that the cap is reached.
type FullError struct {
	Stored, Asked, Room int   // tokens
	Cap                 int64 // bytes
}
