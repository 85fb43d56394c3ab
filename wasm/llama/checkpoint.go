package llama

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"kvlens/cache"
	"kvlens/cache/policy"
)

// ErrCheckpoint says that a checkpoint is of another session, or of another cap or recipe than the session has now.
var ErrCheckpoint = errors.New("the checkpoint does not fit the session")

// Checkpoint is a session at one moment: several questions can be asked about one compressed story, each from the same
// cache.
type Checkpoint struct {
	s       *Session
	open    bool
	epoch   int
	saved   *cache.Saved // nil where the cache's first tokens are those of the checkpoint
	pages   []byte
	run     *policy.Run
	ids     []int32
	spans   []span
	pending []int32
	logits  []float32
	moments []*Checkpoint // of the session's at that time

	gone     departures // in no ledger
	shadow   *shadow
	shadowed bool
	recorded bool
	bytes    int64 // of the host
}

// Save copies the session's cache. The copy lies in the host's memory, in the ledger as cache.Checkpoints, until it is
// closed.
func (s *Session) Save(ctx context.Context) (*Checkpoint, error) {
	var c *Checkpoint
	err := s.busy("save", func() (err error) {
		if err = s.settled(ctx); err == nil {
			c, err = s.checkpoint(true)
		}
		return err
	})
	return c, err
}

// checkpoint makes a checkpoint, without a copy of the cache if its tokens are to stay where they are.
func (s *Session) checkpoint(whole bool) (*Checkpoint, error) {
	c := &Checkpoint{
		s: s, open: true, epoch: s.epoch,
		ids: slices.Clone(s.ids), spans: slices.Clone(s.spans), pending: slices.Clone(s.pending), logits: slices.Clone(s.logits),
		moments: slices.Clone(s.moments),
	}
	c.gone, c.bytes = s.gone.copied()
	if c.recorded = s.recorded; s.run != nil {
		c.run = s.run.Clone()
		c.bytes += c.run.RecordBytes()
	}
	if c.shadowed = s.shadowed; s.shadow != nil {
		c.shadow = s.shadow.share()
	}
	c.bytes += 4 * int64(len(c.ids)+len(c.logits))
	if whole {
		c.saved, c.pages = s.cache.Save(), make([]byte, s.cache.Used())
		c.bytes += int64(len(c.pages)) + c.saved.Bytes()
	}
	s.m.led.Add(cache.Checkpoints, c.bytes, c.bytes)
	if err := s.m.backend.Read(s.arena, 0, c.pages); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Restore returns to a checkpoint of this session, as often as one likes.
func (s *Session) Restore(c *Checkpoint) error {
	return s.busy("restore", func() error {
		if c.s != s || !c.open || c.epoch != s.epoch {
			return ErrCheckpoint
		}
		if err := s.load(c); err != nil {
			return err
		}
		s.pending = slices.Clone(c.pending)
		s.wished()
		s.moments = s.closeMoments(func(m *Checkpoint) bool { return slices.Contains(c.moments, m) })
		return nil
	})
}

// load makes the cache that of a checkpoint. If the pages can't be written, it is stale.
func (s *Session) load(c *Checkpoint) error {
	if c.saved == nil {
		s.cache.Restore(s.cache.MarkAt(len(c.ids)))
	} else if err := s.cache.Load(c.saved); err != nil {
		return fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	s.ids, s.spans, s.pos = slices.Clone(c.ids), slices.Clone(c.spans), len(c.ids)
	copy(s.logits, c.logits)
	s.rows, s.evicted = nil, nil
	s.gone.load(&c.gone)
	s.cast(false)
	if s.shadowed = c.shadowed; c.shadow != nil {
		s.shadow = c.shadow.share()
	}
	if s.run = nil; c.run != nil {
		s.run = c.run.Clone()
	}
	s.remembers(c.recorded)
	err := s.m.backend.Upload(s.arena, 0, c.pages)
	s.stale = err != nil
	return err
}

// Close frees the copy.
func (c *Checkpoint) Close() {
	c.s.m.led.Add(cache.Checkpoints, -c.bytes, -c.bytes)
	c.shadow.free()
	*c = Checkpoint{s: c.s}
}
