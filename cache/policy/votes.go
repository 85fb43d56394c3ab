package policy

import (
	"slices"

	"kvlens/cache/policy/stage"
)

// ballot is what the query heads of a layer said of a prompt's candidates, before they made one score.
type ballot struct {
	heads []int       // query heads that were scored
	rows  [][]float32 // [len(heads)][candidates of the head's KV head]
	layer bool        // all of them have a say in every KV head
	lists []poll      // [n_kv_heads]
}

// poll is what there was to choose in a list.
type poll struct {
	pos     []int32
	guarded []bool
	chosen  int // by score
}

// ballot keeps the rows of a layer that was scored; nil where query heads had no scores, or nothing must leave.
func (r *Run) ballot(sc *scored, from []Candidates) *ballot {
	if r.fits || r.rec.mute || sc.rows == nil {
		return nil
	}
	b := &ballot{heads: sc.voters, layer: sc.OneSet || r.plan.Reduce.Kind == ReduceLayer, lists: make([]poll, len(from))}
	for _, h := range sc.voters {
		b.rows = append(b.rows, sc.rows[h])
	}
	for h, c := range from {
		b.lists[h] = poll{pos: slices.Clone(c.Pos), guarded: make([]bool, len(c.Pos))}
	}
	return b
}

func (b *ballot) clone() *ballot {
	if b == nil {
		return nil
	}
	c := *b
	c.lists = slices.Clone(b.lists)
	return &c
}

func (b *ballot) bytes() (n int64) {
	if b == nil {
		return 0
	}
	for _, row := range b.rows {
		n += 4 * int64(len(row))
	}
	for _, p := range b.lists {
		n += 5 * int64(len(p.pos))
	}
	return n
}

// cut notes what was guarded of the candidates at pos, and how many were chosen by score.
func (b *ballot) cut(kvHead int, pos []int32, c *cut) {
	if b == nil {
		return
	}
	p := &b.lists[kvHead]
	p.guarded, p.chosen = slices.Clone(p.guarded), c.chosen
	for i, at := range pos {
		if j, there := slices.BinarySearch(p.pos, at); there && c.guarded[i] {
			p.guarded[j] = true
		}
	}
}

// Votes are the query heads whose own scores of the last prompt are known for a list, and their votes [voters][tokens], 1
// where a token is among the best of its voter: as many as the list kept by score, of those that were not protected. What
// a head says is what it gave to the score: pooled along the tokens, before heads were reduced and before values weighed
// in. Without a record of it both are nil.
func (r *Run) Votes(layer, kvHead, tokens int) (voters []int, votes []uint8) {
	if r.rec == nil || r.rec.ballots[layer] == nil {
		return nil, nil
	}
	b := r.rec.ballots[layer]
	list := &b.lists[kvHead]
	if list.chosen == 0 {
		return nil, nil
	}
	group := r.shape.Heads / r.shape.KVHeads
	own := slices.ContainsFunc(b.heads, func(h int) bool { return h/group == kvHead })
	for i, h := range b.heads {
		if !b.layer && own && h/group != kvHead {
			continue
		}
		row := make([]uint8, tokens)
		b.vote(row, list, b.lists[h/group].pos, r.smooth(b, i))
		voters, votes = append(voters, h), append(votes, row...)
	}
	return voters, votes
}

// smooth is the row of a voter, pooled. Those of an observation window have no score, 0, as what lies beyond a row's end.
func (r *Run) smooth(b *ballot, voter int) []float32 {
	row, pool := b.rows[voter], r.plan.Pool
	if !pool.After || pool.Kind == PoolNone || pool.Size < 2 {
		return row
	}
	out := slices.Clone(row)
	if pool.Kind == PoolAvg {
		stage.PoolAvg(out, row, pool.Size)
	} else {
		stage.PoolMax(out, row, pool.Size)
	}
	return out
}

// vote marks the best of a voter, whose scores are of the tokens at pos, among what a list could choose from.
func (b *ballot) vote(out []uint8, list *poll, pos []int32, scores []float32) {
	none, worth := make([]bool, len(list.pos)), make([]float32, len(list.pos))
	for i, p := range list.pos {
		j, there := slices.BinarySearch(pos, p)
		if none[i] = list.guarded[i] || !there; there {
			worth[i] = scores[j]
		}
	}
	best := slices.Clone(none)
	stage.Top(best, worth, list.chosen, nil)
	for i, p := range list.pos {
		if best[i] && !none[i] && int(p) < len(out) {
			out[p] = 1
		}
	}
}
