package ref

import (
	"math"

	"kvlens/cache"
	"kvlens/wasm/step"
)

// sight is what one query row sees of one list: logits in the order of positions, −Inf where it sees nothing, and the
// logit of the list's compensation token.
type sight struct {
	logits  []float32
	virtual float64
}

// see computes the logits of one head's query, in float64, as the plan lets it see them.
func (e *exec) see(a *step.Args, p *Pages, layer, head, row int) sight {
	s, plan := &e.shape, e.follow.plan
	own := a.Pos + a.From + row
	slots := p.byPosition(own)
	q := append(make([]float32, 0, s.HeadDim), e.named[step.Q].data[(row*s.Heads+head)*s.HeadDim:][:s.HeadDim]...)
	byRank := plan != nil && plan.Store.Rank
	if byRank {
		rank := 0
		for _, slot := range slots[:min(own, len(slots))] {
			if slot != cache.NoSlot {
				rank++
			}
		}
		e.unrotate(q, own)
		e.rotate(q, rank)
	}
	var reads []bool
	if plan != nil && plan.Store.PageIn(layer) > 0 && p.Geo.Bound > 0 && a.Stored {
		reads = e.reads(p, q)
	}
	x := sight{make([]float32, len(slots)), math.Inf(-1)}
	key := make([]float32, s.HeadDim)
	rank := 0
	for pos, slot := range slots {
		x.logits[pos] = float32(math.Inf(-1))
		if slot == cache.NoSlot || pos > own || reads != nil && !reads[int(slot)/p.Geo.Bound] {
			continue
		}
		unpack(key, p.Geo.Key, p.Key(int(slot)))
		if byRank {
			e.rotate(key, rank)
		}
		rank++
		x.logits[pos] = float32(dot64(q, key) / math.Sqrt(float64(s.HeadDim)))
	}
	if k, n := e.compensated(p); n > 0 {
		x.virtual = e.virtualLogit(q, k, n)
	}
	return x
}

// byPosition is the slot of each position up to the last one that is stored, cache.NoSlot where there is none; those
// beyond a query's own count only where they could be there under Full.
func (p *Pages) byPosition(own int) []uint32 {
	var slots []uint32
	for slot := range p.List.Slots {
		pos := *p.Position(slot)
		if int64(pos) > int64(max(own, p.List.Slots-1)) { // dead ones too
			continue
		}
		for uint32(len(slots)) <= pos {
			slots = append(slots, cache.NoSlot)
		}
		slots[pos] = uint32(slot)
	}
	return slots
}

// softmax turns the logits into probabilities.
func (x sight) softmax() []float32 {
	softmaxBeside(x.logits, x.virtual)
	return x.logits
}

// AttentionRow writes the softmax row of one chunk row of Q over the layer's stored tokens: out is [n_heads][positions].
// Positions that have no token, or come after the row's own, get 0.
func (e *exec) AttentionRow(a *step.Args, layer, row int, out [][]float32) error {
	s := &e.shape
	if err := e.checkLayer(layer); err != nil {
		return e.failed("attention row: %v", err)
	}
	pages, err := e.pages(a, layer)
	if err != nil {
		return err
	}
	if row < 0 || row >= e.chunk || len(out) != s.Heads {
		return e.failed("attention row %d of %d, for %d of %d heads", row, e.chunk, len(out), s.Heads)
	}
	group := s.Heads / s.KVHeads
	for h := range out {
		x := e.see(a, &pages[h/group], layer, h, row).softmax()
		x = x[:min(len(x), a.Pos+a.From+row+1)]
		if len(out[h]) < len(x) {
			return e.failed("attention row: %d numbers for %d positions", len(out[h]), len(x))
		}
		clear(out[h][copy(out[h], x):])
	}
	return nil
}

// dot64 sums in float64.
func dot64(a, b []float32) float64 {
	var sum float64
	for i, v := range a {
		sum += float64(v) * float64(b[i])
	}
	return sum
}

// softmax64 replaces logits by their softmax, in float64; all −Inf gives zeros.
func softmax64(x []float32) { softmaxBeside(x, math.Inf(-1)) }

// softmaxBeside is softmax64 beside one more logit.
func softmaxBeside(x []float32, more float64) {
	top := more
	for _, v := range x {
		top = max(top, float64(v))
	}
	if math.IsInf(top, -1) {
		clear(x)
		return
	}
	sum := math.Exp(more - top)
	for _, v := range x {
		sum += math.Exp(float64(v) - top)
	}
	for i, v := range x {
		x[i] = float32(math.Exp(float64(v)-top) / sum)
	}
}
