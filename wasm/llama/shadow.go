package llama

import (
	"context"
	"fmt"
	"slices"

	"kvlens/cache"
	"kvlens/wasm/step"
)

// ErrCopies says that a backend does not give what leaves to be copied; it wraps ErrRecipe.
var ErrCopies = fmt.Errorf("%w with copies of what leaves", ErrRecipe)

// pieceRows is how many copies share one piece of memory.
const pieceRows = 32

// shadow is copies of keys and values that left their lists, as pages held them: before RoPE where a recipe stores them
// so. They lie in the host's memory, beside the cap, in pieces that checkpoints share.
type shadow struct {
	led   *cache.Ledger
	lane  int // bytes of a token: its key and then its value
	lists []copies
}

// copies are those of one list.
type copies struct {
	at     []int32 // positions, ascending
	rows   []int32 // where their copies lie
	pieces []*piece
	next   int32 // row of the next copy
}

type piece struct {
	data   []byte
	shared int // holders beside the first
}

func newShadow(g cache.Geometry, led *cache.Ledger) *shadow {
	return &shadow{led: led, lane: g.HeadDim * (g.Key.Bytes() + g.Value.Bytes()), lists: make([]copies, g.Layers*g.KVHeads)}
}

func (sh *shadow) count(bytes int) { sh.led.Add(cache.Shadow, int64(bytes), int64(bytes)) }

// put makes room for the copy of a token and returns it.
func (sh *shadow) put(list int, position int32) []byte {
	c := &sh.lists[list]
	n := int(c.next) / pieceRows
	if n == len(c.pieces) {
		c.pieces = append(c.pieces, &piece{data: make([]byte, pieceRows*sh.lane)})
		sh.count(pieceRows * sh.lane)
	}
	i, has := slices.BinarySearch(c.at, position)
	if !has {
		had := cap(c.at) + cap(c.rows)
		c.at, c.rows = slices.Insert(c.at, i, position), slices.Insert(c.rows, i, 0)
		sh.count(4 * (cap(c.at) + cap(c.rows) - had))
	}
	c.rows[i] = c.next
	c.next++
	return sh.row(c, i)
}

func (sh *shadow) row(c *copies, i int) []byte {
	row := int(c.rows[i])
	return c.pieces[row/pieceRows].data[row%pieceRows*sh.lane:][:sh.lane]
}

// take gives the copy of a token and forgets it; nil if there is none.
func (sh *shadow) take(list int, position int32) []byte {
	c := &sh.lists[list]
	i, has := slices.BinarySearch(c.at, position)
	if !has {
		return nil
	}
	out := sh.row(c, i)
	c.at, c.rows = slices.Delete(c.at, i, i+1), slices.Delete(c.rows, i, i+1)
	return out
}

// has says whether there is a copy.
func (sh *shadow) has(list int, position int32) bool {
	_, has := slices.BinarySearch(sh.lists[list].at, position)
	return has
}

// share is a shadow with the same copies. What either gets from now on is its own.
func (sh *shadow) share() *shadow {
	out := &shadow{led: sh.led, lane: sh.lane, lists: make([]copies, len(sh.lists))}
	for i := range sh.lists {
		c := &sh.lists[i]
		for _, b := range c.pieces {
			b.shared++
		}
		c.next = int32(len(c.pieces) * pieceRows)
		o := copies{slices.Clone(c.at), slices.Clone(c.rows), slices.Clone(c.pieces), c.next}
		out.count(4 * (cap(o.at) + cap(o.rows)))
		out.lists[i] = o
	}
	return out
}

// free gives the memory back, once nobody shares it.
func (sh *shadow) free() {
	if sh == nil {
		return
	}
	for i := range sh.lists {
		c := &sh.lists[i]
		sh.count(-4 * (cap(c.at) + cap(c.rows)))
		for _, b := range c.pieces {
			if b.shared--; b.shared < 0 {
				sh.count(-len(b.data))
			}
		}
		*c = copies{}
	}
}

// Shadow says whether the keys and values that leave from now on are copied, as the pages held them, for
// [Session.Recall] and [Matrix].Would. The copies lie in the host's memory beside the cap, in the ledger as cache.Shadow,
// until the conversation begins anew, the session is closed or nobody wants them any more; checkpoints that hold some keep
// those. A backend that does not give what leaves fails with ErrCopies.
func (s *Session) Shadow(on bool) error {
	if on && !s.copies() {
		return fmt.Errorf("llama: shadow: %w", ErrCopies)
	}
	s.opts.Shadow = on
	s.wished()
	return nil
}

// copies says whether what leaves can be copied.
func (s *Session) copies() bool {
	_, ok := s.m.exec.(step.Packer)
	return ok || s.recipe.stops
}

// wished makes the shadow be there or not, as is wished for. A conversation that is computed again turns it on and off
// at the same moments.
func (s *Session) wished() {
	on := s.opts.Shadow
	if (s.shadow != nil) == on {
		return
	}
	if s.cast(on); s.pos == 0 {
		s.shadowed = on
	} else if s.run != nil {
		s.did(deed{do: func(_ context.Context, s *Session) error {
			s.cast(on)
			return nil
		}})
	}
	if !on { // moments without their copies could not repeat the recalls after them
		s.moments = s.closeMoments(func(m *Checkpoint) bool { return m.shadow == nil })
	}
}

// cast makes an empty shadow, or frees the one that is there.
func (s *Session) cast(on bool) {
	s.shadow.free()
	s.shadow = nil
	if on {
		s.shadow = newShadow(s.geo, s.m.led)
	}
}

// Shadowed are the positions of the tokens that have left a list and whose copies are kept, ascending.
func (s *Session) Shadowed(layer, kvHead int) []int32 {
	if s.shadow == nil {
		return nil
	}
	return slices.Clone(s.shadow.lists[layer*s.geo.KVHeads+kvHead].at)
}
