package kernel

import (
	"fmt"

	"kvlens/cache"
	"kvlens/wasm/gpu"
	"kvlens/wasm/quant"
	"kvlens/wasm/step"
)

// Words of the session buffer, as shaders/lib/session.wgsl names them.
const (
	wordPos = iota
	wordFrom
	wordRows
	wordLogitFrom
	wordLogitRows
	wordZero
	wordValuesAt
	wordLast
	wordQuery
	wordStep
	wordHalt
	wordLists
	wordPageK
	wordPageV
	wordSlotsAt
	wordRingAt
	wordKeysAt
	wordValuePagesAt
	wordPositionsAt
	wordCapacity
	wordChunk
	wordScoresAt // as shaders/lib/beside.wgsl and sums.wgsl name them
	wordBoundsAt
	wordSumsAt
	wordLog // as shaders/lib/log.wgsl names it
	headerWords

	wordTemperature = 32
	wordRandom      = 37
	wordChosen      = 39
	wordStops       = 40
	stopCount       = 16
	wordRecent      = 56
	recentCount     = 64
	wordForced      = 120
	forcedCount     = 8
	wordResult      = 128
	resultWords     = 16
	wordPins        = 144
	pinCount        = step.MaxPins
	wordIDs         = 160

	ringSteps = 32
	anyLast   = cache.DeadPosition - 1
	none      = 0xFFFFFFFF
	lowest    = -3e38
)

// session is what the kernels know of one arena: a buffer of words, and scratch as long as its lists can get.
type session struct {
	geo   cache.Geometry
	arena gpu.Buffer
	mem   *memory
	words []uint32 // what the buffer holds, but for words that kernels write
	stale bool     // the header is not what words says
	pages extent   // rows of the tables

	scores, parts *memory
	keeper        *keeper          // of the plan that is followed, once it is at work here
	recorded      [2]gpu.Recording // a choice from logits that are there, and a whole step
}

// extent counts pages by kind: of keys, values, positions, accumulated attention, bounds and sums.
type extent [6]int

// tableWords say where the session buffer has the page tables of each kind.
var tableWords = extent{wordKeysAt, wordValuePagesAt, wordPositionsAt, wordScoresAt, wordBoundsAt, wordSumsAt}

// slotPages is how many pages a list of so many slots has.
func slotPages(geo *cache.Geometry, slots int) extent {
	n := extent{up(slots, geo.PageK), up(slots, geo.PageV), up(slots, cache.PosLanes)}
	if geo.Scores {
		n[3] = n[2]
	}
	if geo.Bound > 0 {
		n[4] = up(slots, geo.Bound)
	}
	if geo.Sums {
		n[5] = 1
	}
	return n
}

// pagesOf is a list's page table of a kind.
func pagesOf(l *cache.List, kind int) []uint32 {
	return [len(extent{})][]uint32{l.Keys, l.Values, l.Positions, l.Scores, l.Bounds, l.Sums}[kind]
}

// reach makes n cover the tables of all lists.
func (n *extent) reach(c *cache.Cache) {
	geo := c.Geometry()
	for i := range geo.Layers * geo.KVHeads {
		l := c.List(i/geo.KVHeads, i%geo.KVHeads)
		for kind := range n {
			n[kind] = max(n[kind], len(pagesOf(l, kind)))
		}
	}
}

// capacity is how many slots of a list the session has room for.
func (s *session) capacity() int { return s.pages[2] * cache.PosLanes }

// session finds or makes the session of a run.
func (e *exec) session(a *step.Args) (*session, error) { return e.sessionFor(a, 0) }

// sessionFor finds or makes a session whose lists can have so many slots.
func (e *exec) sessionFor(a *step.Args, slots int) (*session, error) {
	if a.Cache == nil || a.Arena == 0 {
		if s := e.sessions[0]; s != nil {
			return s, nil
		}
		return e.newSession(0, cache.Geometry{}, 0, extent{})
	}
	geo := a.Cache.Geometry()
	if geo.Layers != e.shape.Layers || geo.KVHeads != e.shape.KVHeads || geo.HeadDim != e.shape.HeadDim {
		return nil, fmt.Errorf("webgpu: run: a cache of %d layers, %d KV heads of %d", geo.Layers, geo.KVHeads, geo.HeadDim)
	}
	arena, err := e.b.find(a.Arena, 0, a.Cache.Cap())
	if err != nil {
		return nil, fmt.Errorf("webgpu: run: arena: %w", err)
	}
	// Under the full recipe the cap says how long tables get; lists of different lengths may need more.
	need := slotPages(&geo, max(slots, geo.FullTokens(a.Cache.Cap())))
	need.reach(a.Cache)
	if s := e.sessions[a.Arena]; s != nil {
		fits := s.geo == geo
		for kind, n := range need {
			fits = fits && n <= s.pages[kind]
		}
		if fits {
			e.match(s)
			return s, nil
		}
		e.leave(a.Arena)
	}
	return e.newSession(a.Arena, geo, arena.buf, need)
}

func up(n, to int) int { return (n + to - 1) / to }

func (e *exec) newSession(arena step.Buffer, geo cache.Geometry, buf gpu.Buffer, pages extent) (*session, error) {
	s := &session{geo: geo, arena: buf, pages: pages, stale: true}
	lists := geo.Layers * geo.KVHeads
	header := [headerWords]uint32{
		wordLists: uint32(lists), wordPageK: uint32(geo.PageK), wordPageV: uint32(geo.PageV),
		wordCapacity: uint32(s.capacity()), wordChunk: uint32(e.chunk),
	}
	at := wordIDs + e.chunk
	place := func(word, n int) {
		header[word] = uint32(at)
		at += n
	}
	place(wordSlotsAt, e.chunk*e.shape.KVHeads)
	place(wordRingAt, ringSteps*lists*2)
	for kind, word := range tableWords {
		place(word, pages[kind]*lists)
	}
	s.words = make([]uint32, at)
	copy(s.words, header[:])
	var err error
	if s.mem, err = e.b.alloc(cache.Aux, "session", int64(at)*4); err != nil {
		return nil, err
	}
	e.sessions[arena] = s
	if lists == 0 {
		return s, nil
	}
	heads := e.shape.Heads
	if s.scores, err = e.b.alloc(cache.Scratch, "attention logits", int64(heads*s.capacity())*4); err == nil {
		s.parts, err = e.b.alloc(cache.Scratch, "attention parts", int64(e.splits()*heads*(e.shape.HeadDim+1))*4)
	}
	if err != nil {
		e.leave(arena)
		return nil, err
	}
	return s, nil
}

// write sets words of the session buffer, unless they are what it holds.
func (e *exec) write(s *session, at int, words []uint32) error {
	have := s.words[at:][:len(words)]
	for i, w := range words {
		if have[i] != w {
			copy(have[i:], words[i:])
			return e.b.dev.Write(s.mem.buf, int64(at+i)*4, quant.Bytes(have[i:]))
		}
	}
	return nil
}

// header writes the words that say what a run works on.
func (e *exec) header(s *session, set func(h []uint32)) error {
	h := append([]uint32(nil), s.words[:headerWords]...)
	set(h)
	if !s.stale {
		return e.write(s, 0, h)
	}
	copy(s.words, h)
	s.stale = false
	return e.b.dev.Write(s.mem.buf, 0, quant.Bytes(h))
}

// tables writes the page tables that changed: rows of one page of every list, from page first on.
func (e *exec) tables(s *session, c *cache.Cache, first extent) error {
	lists := s.geo.Layers * s.geo.KVHeads
	for kind, word := range tableWords {
		base := int(s.words[word])
		from, to := -1, 0 // rows that differ
		for page := first[kind]; page < s.pages[kind]; page++ {
			any := false
			row := s.words[base+page*lists:][:lists]
			for i := range row {
				table := pagesOf(c.List(i/s.geo.KVHeads, i%s.geo.KVHeads), kind)
				if page >= len(table) {
					continue
				}
				any = true
				if row[i] != table[page] {
					row[i] = table[page]
					if from < 0 {
						from = page
					}
					to = page + 1
				}
			}
			if !any {
				break
			}
		}
		if from >= 0 {
			at := base + from*lists
			if err := e.b.dev.Write(s.mem.buf, int64(at)*4, quant.Bytes(s.words[at:][:(to-from)*lists])); err != nil {
				return err
			}
		}
	}
	return nil
}

// lengths writes the newest slot and the number of slots of a layer's lists to the ring's first row.
func (e *exec) lengths(s *session, c *cache.Cache, layer int) error {
	if s.keeper != nil && s.keeper.turn != nil { // there it says where the token is
		return nil
	}
	var row []uint32
	for h := range s.geo.KVHeads {
		l := c.List(layer, h)
		newest := uint32(none)
		if order := l.Order(); len(order) > 0 {
			newest = order[len(order)-1]
		}
		row = append(row, newest, uint32(l.Slots))
	}
	return e.write(s, int(s.words[wordRingAt])+layer*s.geo.KVHeads*2, row)
}
