package ref

import (
	"fmt"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/wasm/step"
)

// follower is what a program gathers and keeps for a plan. Without one it holds nothing.
type follower struct {
	plan *policy.Plan
	layer,
	seen int // rows of the layer that were observed

	tokens  tokens
	queries scratch // [Score.Window][n_heads][head_dim]: the last ones, oldest first
	held    int     // how many there are
	columns scratch // [n_heads][tokens.room]
	mass    scratch // [n_kv_heads][tokens.room]: ‖W_o·v‖₁
	logits  scratch // [workers][ColumnRows][tokens.room]
	rows    scratch // [n_heads][tokens.room]
	acc     scratch // [n_kv_heads][tokens.room]
	turned  scratch // [chunk][n_heads][head_dim]: queries as their rank rotates them
	output  scratch // W_o's columns of one head, and its products with values
	spread  spread
	host    int64 // bytes of Go's that are in the ledger
}

// Follow sets the plan of the runs from now on; nil is Full.
func (e *exec) Follow(p *policy.Plan) error {
	if p == nil {
		e.unfollow()
		return nil
	}
	s, w := &e.shape, p.Score.Window
	switch {
	case w < 0 || w > maxSize/(s.Heads*s.HeadDim):
		return e.failed("a window of %d queries", w)
	case p.Store.Page < 0 || p.Store.Read < 0 || p.Protect.Sinks < 0:
		return e.failed("pages of %d tokens, %d to read, %d sinks", p.Store.Page, p.Store.Read, p.Protect.Sinks)
	case s.RotDim > 0 && e.positions < 2:
		return e.failed("a RoPE table of %d positions", e.positions)
	case p.Store.Rank && p.Store.Virtual:
		return e.failed("positions by rank and a compensation token: keys of one position have no mean")
	}
	e.unfollow()
	copied := *p
	e.follow.plan = &copied
	e.follow.layer = -1
	err := e.alloc(&e.follow.queries, "last queries", w*s.Heads*s.HeadDim)
	if err == nil && p.Score.Kind == policy.ScoreExpected {
		err = e.openSpread()
	}
	if err == nil && p.Store.Rank {
		err = e.alloc(&e.follow.turned, "queries by rank", e.chunk*s.Heads*s.HeadDim)
	}
	if err != nil {
		e.unfollow()
		return fmt.Errorf("%s: follow: %w", e.b.info.Name, err)
	}
	return nil
}

// unfollow frees what a plan took.
func (e *exec) unfollow() {
	f := &e.follow
	for _, s := range []*scratch{
		&f.tokens.keys, &f.tokens.values, &f.queries, &f.columns, &f.mass, &f.logits, &f.rows, &f.acc, &f.turned, &f.output,
		&f.spread.work,
	} {
		e.b.Free(s.buf)
	}
	e.b.led.Add(cache.Scratch, -f.host, -f.host)
	*f = follower{}
}

// count enters bytes that Go holds for the plan.
func (e *exec) count(bytes int) {
	e.follow.host += int64(bytes)
	e.b.led.Add(cache.Scratch, int64(bytes), int64(bytes))
}

// atLeast makes room for n floats in a scratch buffer; what it held is lost if it grows.
func (e *exec) atLeast(s *scratch, name string, n int) error {
	if len(s.data) >= n {
		return nil
	}
	return e.alloc(s, name, n)
}

// Loops are the loops of scoring that suit this backend.
func (e *exec) Loops() policy.Loops { return e.b.loops }

// Begin forgets what was gathered of a layer.
func (e *exec) Begin(layer int) {
	f := &e.follow
	f.layer, f.seen, f.held = layer, 0, 0
	f.tokens.clear()
	f.spread.clear()
}

// following finds the lists of a layer for a plan.
func (e *exec) following(a *step.Args, layer int) ([]Pages, error) {
	if e.follow.plan == nil {
		return nil, e.failed("no plan is followed")
	}
	if err := e.checkLayer(layer); err != nil {
		return nil, e.failed("%v", err)
	}
	return e.pages(a, layer)
}

// list finds one list of a layer.
func (e *exec) list(a *step.Args, layer, kvHead int) (*Pages, error) {
	pages, err := e.following(a, layer)
	if err != nil {
		return nil, err
	}
	if kvHead < 0 || kvHead >= len(pages) {
		return nil, e.failed("KV head %d of %d", kvHead, len(pages))
	}
	return &pages[kvHead], nil
}

var _ step.Scorer = (*exec)(nil)
