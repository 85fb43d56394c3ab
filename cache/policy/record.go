package policy

import (
	"math"
	"slices"

	"kvlens/cache/policy/stage"
)

// Decision says which stage had the last word about a token.
type Decision uint8

// The decisions. Those from DecidedScore on, but for DecidedRecall, may also be what removed the token.
const (
	DecidedRoom    Decision = iota // everything fitted
	DecidedNew                     // stored since the last selection
	DecidedSink                    // protected as one of the first
	DecidedRecent                  // protected as one of the last
	DecidedPin                     // pinned
	DecidedMask                    // its head keeps everything
	DecidedScore                   // the prompt's selection, by score
	DecidedPlace                   // the prompt's selection, by position alone
	DecidedCascade                 // a later layer took of this layer's budget
	DecidedRule                    // the method's rule for one token after the other: in answers, and in prompts of streams
	DecidedCapRule                 // our rule that keeps the cap while answering
	DecidedCap                     // the cap was lowered, or a list gave room for pins
	DecidedRecall                  // it came back from a shadow
)

// Verdict is a decision about a token and what it was made by.
type Verdict struct {
	Score, Threshold float32 // NaN where no score was asked for; the least that stayed without protection, NaN if none did
	Rank             uint32  // among all that were compared, 1 is the best; 0 without a score
	At               uint32  // how many tokens the conversation had
	Decision         Decision
}

// MaxRecord is the most bytes that a record takes: 20 for each token of each list, whether it stays or not, and the scores
// of the last prompt's query heads, 4 for each token of each head that was scored and 5 for each candidate of each list.
// Where all of it is more, the scores of query heads go first, and with them the votes of that prompt; then the record ends.
const MaxRecord = 32 << 20

// verdictBytes is the size of a Verdict in memory.
const verdictBytes = 20

// record is what a run remembers of its decisions.
type record struct {
	most     int64
	over     bool        // it would have been more than that
	mute     bool        // ballots of this prompt would have been too many
	tokens   int         // of the conversation
	verdicts [][]Verdict // [layers · n_kv_heads], by position
	ballots  []*ballot   // of the last prompt, [layers]; nil where nothing was to be chosen, or there was no room
}

// Record begins a record of the decisions from now on, or ends it. Without one nothing is kept. A record is whole if it
// begins before the first prompt.
func (r *Run) Record(on bool) {
	r.rec = nil
	if on {
		r.rec = &record{most: MaxRecord, verdicts: make([][]Verdict, r.lists()), ballots: make([]*ballot, r.shape.Layers)}
	}
}

// RecordBytes is what the record takes.
func (r *Run) RecordBytes() (n int64) {
	if r.rec == nil {
		return 0
	}
	for _, list := range r.rec.verdicts {
		n += verdictBytes * int64(cap(list))
	}
	for _, b := range r.rec.ballots {
		n += b.bytes()
	}
	return n
}

// Verdicts are the last decisions about the tokens of a list, by position; nil without a record, or where it had no room.
func (r *Run) Verdicts(layer, kvHead int) []Verdict {
	if r.rec == nil || r.rec.over {
		return nil
	}
	return r.rec.verdicts[layer*r.shape.KVHeads+kvHead]
}

// clone is a record that goes on by itself. Ballots are never changed, so both have the same.
func (rec *record) clone() *record {
	if rec == nil {
		return nil
	}
	c := *rec
	c.verdicts = make([][]Verdict, len(rec.verdicts))
	for i, list := range rec.verdicts {
		c.verdicts[i] = slices.Clone(list)
	}
	c.ballots = slices.Clone(rec.ballots)
	return &c
}

// prompt begins a prompt, whose ballots take the place of the last one's.
func (rec *record) prompt() {
	if rec != nil {
		clear(rec.ballots)
		rec.mute = false
	}
}

// Recalled notes that a token came back to a list.
func (r *Run) Recalled(layer, kvHead int, position int32) {
	if r.rec != nil && !r.rec.over {
		r.list(layer, kvHead, position)[position] = Unscored(DecidedRecall, r.rec.tokens)
	}
}

// bound keeps the record within its size.
func (r *Run) bound() {
	if r.RecordBytes() <= r.rec.most {
		return
	}
	clear(r.rec.ballots)
	r.rec.mute = true
	if r.RecordBytes() > r.rec.most {
		clear(r.rec.verdicts)
		r.rec.over = true
	}
}

// list is the record of a list up to the newest of its tokens; those that are new in it are DecidedNew.
func (r *Run) list(layer, kvHead int, newest int32) []Verdict {
	rec := r.rec
	rec.tokens = max(rec.tokens, int(newest)+1)
	v := &rec.verdicts[layer*r.shape.KVHeads+kvHead]
	if n := rec.tokens; cap(*v) < n { // by an eighth, not twofold: the ledger counts it
		*v = append(make([]Verdict, 0, n+n/8+8), *v...)
	}
	for len(*v) < rec.tokens {
		*v = append(*v, Unscored(DecidedNew, len(*v)+1))
	}
	return *v
}

// Unscored is a decision that no score was asked for, when the conversation had so many tokens.
func Unscored(d Decision, at int) Verdict {
	none := float32(math.NaN())
	return Verdict{Score: none, Threshold: none, At: uint32(at), Decision: d}
}

// noteSelection records what a prompt's selection did to a layer's candidates.
func (r *Run) noteSelection(q *LayerQuotas, sc *scored, from []Candidates, kept [][]int32) {
	if r.rec == nil || r.rec.over {
		return
	}
	if !sc.cascade {
		r.rec.ballots[q.Layer] = r.ballot(sc, from)
	}
	ballot := r.rec.ballots[q.Layer].clone()
	for h := range from {
		c := &from[h]
		list := r.list(q.Layer, h, c.Pos[len(c.Pos)-1])
		if limit := q.Lists[h].Limit; limit < len(c.Pos) {
			cut := r.cut(sc, h, c, limit)
			ballot.cut(h, c.Pos, cut)
			r.noteCut(list, sc, c, cut, kept[h])
			continue
		}
		for _, p := range c.Pos {
			switch {
			case sc.cascade: // decided before
			case r.mask != nil && r.mask[q.Layer][h] && !r.fits:
				list[p] = Unscored(DecidedMask, r.rec.tokens)
			default:
				list[p] = Unscored(DecidedRoom, r.rec.tokens)
			}
		}
	}
	r.rec.ballots[q.Layer] = ballot
	r.bound()
}

// noteCut records a selection that some candidates of a list did not survive.
func (r *Run) noteCut(list []Verdict, sc *scored, c *Candidates, cut *cut, kept []int32) {
	now := r.rec.tokens
	for i, p := range c.Pos {
		stays := len(kept) > 0 && int(kept[0]) == i
		if stays {
			kept = kept[1:]
		}
		switch {
		case cut.guarded[i]:
			list[p] = Unscored(r.protection(c.Pos, i, cut.recent), now)
		case cut.rank == nil:
			list[p] = Unscored(DecidedPlace, now)
		default:
			list[p] = Verdict{cut.score[i], cut.threshold(i), cut.rank[i], uint32(now), DecidedScore}
		}
		if sc.cascade && !stays {
			list[p].Decision = DecidedCascade
		}
	}
}

// protection says why a token never leaves.
func (r *Run) protection(pos []int32, i, recent int) Decision {
	_, pinned := slices.BinarySearch(r.pins, pos[i])
	switch {
	case pinned:
		return DecidedPin
	case int(pos[i]) < r.plan.Protect.Sinks:
		return DecidedSink
	case i >= len(pos)-recent:
		return DecidedRecent
	}
	return DecidedPlace // it fills the place of those that never leave
}

// cut is what a selection goes by.
type cut struct {
	guarded      []bool
	recent       int       // of the last tokens never leave
	rank         []uint32  // nil where position alone decides
	score        []float32 // that rank goes by
	lead, chosen int       // by score first (SelectCritical), and together with the rest
	least        [2]float32
}

// cut goes through a selection once more, as pick makes it.
func (r *Run) cut(sc *scored, head int, c *Candidates, limit int) *cut {
	p, n := &r.plan, len(c.Pos)
	out := &cut{guarded: make([]bool, n), recent: p.Protect.recent(limit)}
	if sc.Heads == nil {
		stage.Pinned(out.guarded, c.Pos, sc.pins, p.Protect.Sinks, limit, limit)
		return out
	}
	out.chosen = limit - stage.Pinned(out.guarded, c.Pos, sc.pins, p.Protect.Sinks, out.recent, limit)
	scores := sc.Heads[head]
	out.rank, out.score = make([]uint32, n), slices.Clone(scores)
	switch {
	case p.Select.Kind == SelectChunks && out.chosen > 0:
		stage.ChunkRanks(out.rank, out.score, out.guarded, scores, max(1, p.Select.Chunk))
	case p.Select.Kind == SelectCritical:
		out.lead = min(out.chosen, max(0, int(p.Select.First*float64(limit))-(limit-out.chosen)))
		r.cutCritical(out, sc, c, scores)
	default:
		stage.Ranks(out.rank, out.guarded, scores, 0)
	}
	none := float32(math.NaN())
	out.least = [2]float32{none, none}
	for i, rank := range out.rank {
		if int(rank) == out.lead && rank > 0 {
			out.least[0] = out.score[i]
		}
		if int(rank) == out.chosen && rank > 0 && out.chosen > out.lead {
			out.least[1] = out.score[i]
		}
	}
	return out
}

// cutCritical ranks those that go by score alone, and then the others by what their values weigh, too.
func (r *Run) cutCritical(out *cut, sc *scored, c *Candidates, scores []float32) {
	if out.lead == out.chosen {
		stage.Ranks(out.rank, out.guarded, scores, 0)
		return
	}
	first := slices.Clone(out.guarded)
	stage.Top(first, scores, out.lead, nil)
	weights := c.OutL1
	if sc.OutL1 != nil {
		weights = sc.OutL1
	}
	rest := make([]bool, len(first)) // not among the first
	for i, s := range scores {
		if rest[i] = !first[i] || out.guarded[i]; !first[i] {
			out.score[i] = (s + float32(r.plan.Select.Epsilon)) * weights[i]
		}
	}
	stage.Ranks(out.rank, rest, scores, 0)
	stage.Ranks(out.rank, first, out.score, out.lead)
}

// threshold is the least score that stayed of those that were compared with a candidate's.
func (c *cut) threshold(i int) float32 {
	if int(c.rank[i]) <= c.lead || c.chosen == c.lead {
		return c.least[0]
	}
	return c.least[1]
}
