package llama

import (
	"errors"
	"fmt"
	"math"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/wasm/step"
)

// SessionOptions say how much memory a session's cache has, how its pages look, and which recipe decides what stays.
type SessionOptions struct {
	Cap    int64   // bytes of the arena; 0 is Share of what Full takes for Tokens
	Tokens int     // prompt and answer limit: tokens that Full would hold; 0 is min(context_length, 2,048)
	Share  float64 // in (0, 1]; 0 is 1
	F32    bool    // f32 pages instead of f16
	// PageK and PageV are the lanes of a page; 0 is 8, or 2 where the cap buys fewer than 64 slots a list.
	PageK, PageV int

	Recipe policy.Recipe  // zero is Full
	Plan   *policy.Plan   // instead of what the recipe makes of itself; taken as it is
	Tables *policy.Tables // of the model's heads, for recipes that need them
	Budget int            // tokens that a list holds on average, instead of what the cap allows; 0 is what it allows
	Parity bool           // published triggers, and answers that grow where a method acts once, instead of our cap rule
	Undo   bool           // see KeepUndo
	Shadow bool           // see Session.Shadow

	Explain bool // see Session.Record
}

// Session is one conversation: a cache and the position in it.
//
// The true position and the number of stored tokens are two numbers, neither derived from the other: eviction parts
// them.
type Session struct {
	m       *Model
	opts    SessionOptions
	geo     cache.Geometry
	cache   *cache.Cache
	arena   step.Buffer
	recipe  recipe
	run     *policy.Run   // the plan at work; nil where nothing ever leaves
	pos     int           // position of the next token
	ids     []int32       // every token of the conversation up to pos
	spans   []span        // how ids came in
	pending []int32       // the last sampled token, while it is not in the cache
	logits  []float32     // after the token before pos
	stale   bool          // the cache is not that of ids: it is made again before the next use
	touched bool          // the turn at work has changed what only a replay can make again
	epoch   int           // counts changes of the cap and of the recipe
	evicted []Eviction    // while the last token was decoded
	watched bool          // passes leave rows
	rows    *Rows         // of the last pass, if it was watched
	moments []*Checkpoint // for Undo, the oldest first

	recorded bool  // the conversation is, from its beginning
	record   int64 // bytes of that, in the ledger

	gone     departures
	shadow   *shadow // of what left; nil unless it is wanted
	shadowed bool    // there was one when the conversation began

	peek  Probe // of what is computed again
	depth int   // layers that are computed; 0 is all, and logits
}

// Errors that callers tell apart. A full cache is a *cache.FullError.
var (
	ErrEmpty  = errors.New("there is no prompt")
	ErrBusy   = errors.New("another call on this model is running")
	ErrToken  = errors.New("a token id is outside the vocabulary")
	ErrRecipe = errors.New("this backend does not run the recipe")
	ErrSmall  = errors.New("the cap is too small for this recipe")
)

// NewSession makes an empty session with an arena of its own.
func (m *Model) NewSession(o SessionOptions) (*Session, error) {
	s := &Session{m: m, opts: o}
	if err := s.open(); err != nil {
		return nil, fmt.Errorf("llama: session: %w", err)
	}
	return s, nil
}

func (s *Session) open() error {
	m, o := s.m, &s.opts
	if o.Cap < 0 || o.Tokens < 0 || o.PageK < 0 || o.PageV < 0 || o.Budget < 0 || !(o.Share >= 0 && o.Share <= 1) {
		return errors.New("a size is negative or a share above 1")
	}
	if o.Tokens == 0 {
		o.Tokens = min(m.cfg.Context, defaultTokens)
	}
	if err := s.setRecipe(o.Recipe, o.Plan); err != nil {
		return err
	}
	size := s.size()
	if err := m.fits(size); err != nil {
		return err
	}
	if err := s.fit(size); err != nil {
		return err
	}
	s.recorded = o.Explain
	if err := s.begin(); err != nil {
		return err
	}
	var err error
	if s.arena, err = m.backend.Alloc(cache.Free, "arena", size); err != nil {
		return err
	}
	if s.cache, err = cache.New(s.geo, size, m.led); err != nil {
		m.backend.Free(s.arena)
		return err
	}
	s.logits = make([]float32, m.cfg.Vocab)
	s.gone = departures{led: m.led, at: make([][]int32, s.geo.Layers*s.geo.KVHeads)}
	s.shadowed = o.Shadow
	s.cast(o.Shadow)
	m.led.Add(cache.Staging, s.hostBytes(), s.hostBytes())
	return nil
}

// fits checks the size of an arena before so much is asked for: running out of memory ends a Go program.
func (m *Model) fits(size int64) error {
	limit := int64(cache.MaxCap)
	if n := m.backend.Info().MaxBuffer; n > 0 {
		limit = min(limit, n)
	}
	if size > limit {
		return fmt.Errorf("%w: a cap of %d bytes, at most %d are possible", step.ErrMemory, size, limit)
	}
	return nil
}

func (s *Session) hostBytes() int64 { return 4 * int64(len(s.logits)) }

// Close frees the session's arena.
func (s *Session) Close() {
	if s.arena == 0 {
		return
	}
	s.forgetMoments()
	s.gone.clear()
	s.cast(false)
	s.run = nil
	s.account()
	s.cache.Close()
	s.m.backend.Free(s.arena)
	_ = s.m.follow(nil, nil) // only frees; other sessions say again whose plan they are of
	s.m.led.Add(cache.Staging, -s.hostBytes(), -s.hostBytes())
	s.arena = 0
}

// Reset empties the cache and starts again at position 0.
func (s *Session) Reset() {
	s.forgetMoments()
	s.gone.clear()
	s.cast(s.opts.Shadow)
	s.shadowed = s.opts.Shadow
	s.cache.Reset()
	s.pos, s.ids, s.spans, s.pending, s.rows, s.evicted = 0, s.ids[:0], s.spans[:0], nil, nil, nil
	s.recorded = s.opts.Explain
	s.stale = s.run != nil // the next turn begins with a fresh run
}

// Position is the position that the next token takes. It may pass the model's context_length.
func (s *Session) Position() int { return s.pos }

// Stored is how many tokens the fullest list holds.
func (s *Session) Stored() int { return s.cache.Tokens() }

// Room is how many more tokens fit before an answer must stop; recipes that drop tokens never stop.
func (s *Session) Room() int {
	if s.run != nil && !s.grows() {
		return math.MaxInt32
	}
	return s.cache.Room()
}

// grows says that nothing leaves while answers are decoded, though it leaves when a prompt is stored.
func (s *Session) grows() bool {
	return s.run != nil && s.opts.Parity && s.recipe.plan.Decode.Kind == policy.DecodeCap
}

// Cap is the size of the arena in bytes.
func (s *Session) Cap() int64 { return s.cache.Cap() }

// Cache is the session's cache, for looking at.
func (s *Session) Cache() *cache.Cache { return s.cache }

// IDs are the tokens of the conversation, without the pending one.
func (s *Session) IDs() []int32 { return s.ids }

// Pending is the last generated token, if it is not in the cache yet: it is computed only when something follows it.
func (s *Session) Pending() (int32, bool) {
	if len(s.pending) == 0 {
		return 0, false
	}
	return s.pending[0], true
}

// Logits are the logits after the last token in the cache, or nil. The slice is reused.
func (s *Session) Logits() []float32 {
	if s.pos == 0 {
		return nil
	}
	return s.logits
}
