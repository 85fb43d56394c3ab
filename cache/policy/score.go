package policy

import (
	"fmt"
	"slices"

	"kvlens/cache/policy/stage"
)

// scored is what a layer's candidates are worth.
type scored struct {
	Heads             [][]float32 // [n_kv_heads][candidates]; nil where position alone decides
	Entropy, Variance float64     // of the window's attention (ScoreIndicator)
	OneSet            bool        // all KV heads have the same scores of the same tokens
	OutL1             []float32   // of the tokens of one set, mean over KV heads (SelectCritical)
	pins              []int32     // positions that stay
	rows              [][]float32 // of the query heads that were scored, before they were reduced, [n_heads]
	voters            []int       // which those are
	cascade           bool        // what stayed of a layer before is chosen among again
}

// prompt is what the layers of one prompt have in common.
type prompt struct {
	fresh int            // candidates of each KV head that are new, its last ones; 0 is all
	turn  stage.Rotation // mean rotation of the next positions (ScoreExpected), once it is known
	next  int            // the first of them
}

// score scores a layer's candidates: score, pool and reduce.
func (pr *prompt) score(p *Plan, s Shape, layer int, in *Input, t *Tables, l Loops) (*scored, error) {
	if p.Score.Kind == ScoreNone || layer < p.Score.SkipLayers {
		return &scored{}, nil
	}
	if err := checkInput(p, s, in); err != nil {
		return nil, fmt.Errorf("policy: layer %d: %w", layer, err)
	}
	w := &work{prompt: pr, p: p, s: s, layer: layer, in: in, l: l, same: true}
	for _, c := range in.Candidates {
		w.longest = max(w.longest, len(c.Pos))
		w.same = w.same && slices.Equal(c.Pos, in.Candidates[0].Pos)
	}
	out := &scored{}
	switch p.Score.Kind {
	case ScoreNorm, ScoreKeyDiff, ScoreRandom:
		out.Heads = w.keys()
	default:
		heads, err := w.scoredHeads(t)
		if err != nil {
			return nil, fmt.Errorf("policy: layer %d: %w", layer, err)
		}
		rows := make([][]float32, s.Heads)
		for _, h := range heads {
			entropy, variance := w.query(&rows[h], h)
			out.Entropy += entropy
			out.Variance += variance
		}
		out.Heads = w.reduce(rows, heads)
		out.rows, out.voters = rows, heads
		w.after(out.Heads)
	}
	out.OneSet = p.Reduce.Kind == ReduceLayer && w.same
	if p.Select.Kind == SelectCritical && out.OneSet {
		out.OutL1 = make([]float32, w.longest)
		rows := make([][]float32, 0, s.KVHeads)
		for _, c := range in.Candidates {
			rows = append(rows, c.OutL1)
		}
		stage.Mean(out.OutL1, rows)
	}
	if p.Select.Kind == SelectChunks && p.Heads.Kind == HeadsUniform && w.same {
		w.share(out.Heads) // ChunkKV: one set of chunks for all KV heads
		out.OneSet = true
	}
	return out, nil
}

// checkInput checks that a layer's input has what its plan scores by.
func checkInput(p *Plan, s Shape, in *Input) error {
	if s.KVHeads < 1 || s.Heads%s.KVHeads != 0 || s.HeadDim < 1 {
		return fmt.Errorf("%d heads for %d KV heads of %d", s.Heads, s.KVHeads, s.HeadDim)
	}
	if len(in.Candidates) != s.KVHeads {
		return fmt.Errorf("candidates of %d KV heads, want %d", len(in.Candidates), s.KVHeads)
	}
	needKeys, queries := true, 0
	switch p.Score.Kind {
	case ScoreWindow, ScoreIndicator:
		if queries = len(in.Queries) / (s.Heads * s.HeadDim); queries < 1 || len(in.Queries)%(s.Heads*s.HeadDim) != 0 {
			return fmt.Errorf("%d numbers of queries", len(in.Queries))
		}
	case ScoreColumns:
		needKeys = false
		if len(in.Columns) != s.Heads {
			return fmt.Errorf("column sums of %d heads, want %d", len(in.Columns), s.Heads)
		}
	case ScoreRandom:
		needKeys = false
	case ScoreExpected:
		if err := checkSpread(p, s, in.Spread); err != nil {
			return err
		}
	}
	for h, c := range in.Candidates {
		n := len(c.Pos)
		switch {
		case n == 0:
			return fmt.Errorf("KV head %d: no candidates", h)
		case needKeys && len(c.K) != n*s.HeadDim:
			return fmt.Errorf("KV head %d: keys of %d numbers for %d candidates", h, len(c.K), n)
		case queries > n:
			return fmt.Errorf("KV head %d: %d queries but %d candidates", h, queries, n)
		case p.Score.Kind == ScoreExpected && p.Score.ValueNorm && len(c.V) != n*s.HeadDim:
			return fmt.Errorf("KV head %d: values of %d numbers for %d candidates", h, len(c.V), n)
		case p.Select.Kind == SelectCritical && len(c.OutL1) != n:
			return fmt.Errorf("KV head %d: %d norms of outputs for %d candidates", h, len(c.OutL1), n)
		}
	}
	if p.Score.Kind == ScoreColumns {
		for h, row := range in.Columns {
			if n := len(in.Candidates[h/(s.Heads/s.KVHeads)].Pos); len(row) != n {
				return fmt.Errorf("head %d: %d column sums for %d candidates", h, len(row), n)
			}
		}
	}
	return nil
}

// work is the scoring of one layer.
type work struct {
	prompt  *prompt
	p       *Plan
	s       Shape
	layer   int
	in      *Input
	l       Loops
	longest int  // candidates of a KV head
	same    bool // all KV heads have the same candidates

	row, mean, m2, pooled []float32 // scratch, [longest]
	mu, cov, product      []float32 // scratch of ScoreExpected
}

// scoredHeads are the query heads whose attention counts.
func (w *work) scoredHeads(t *Tables) ([]int, error) {
	all := make([]int, w.s.Heads)
	for h := range all {
		all[h] = h
	}
	k := w.p.Score.Heads
	if k <= 0 || k >= len(all) {
		return all, nil
	}
	if t == nil || w.layer >= len(t.Semantic) || len(t.Semantic[w.layer]) != w.s.Heads {
		return nil, fmt.Errorf("no scores of semantic retrieval heads")
	}
	return t.SemanticOrder(w.layer)[:k], nil
}

// keys scores KV heads by their keys or positions alone.
func (w *work) keys() [][]float32 {
	heads := w.rows()
	d := w.s.HeadDim
	var mean []float32
	for h, out := range heads {
		c := &w.in.Candidates[h]
		switch w.p.Score.Kind {
		case ScoreNorm:
			stage.Norms(out, c.K, d, -1)
		case ScoreKeyDiff:
			if mean == nil {
				mean = make([]float32, d)
			}
			stage.KeyDiff(out, c.K, mean, d)
		case ScoreRandom:
			stage.Random(out, c.Pos, w.p.Score.Seed, w.layer, h)
		}
	}
	return heads
}

// rows makes a row for the candidates of each KV head.
func (w *work) rows() [][]float32 {
	heads := make([][]float32, w.s.KVHeads)
	for h := range heads {
		heads[h] = make([]float32, len(w.in.Candidates[h].Pos))
	}
	return heads
}

// query scores the candidates as one query head sees them, and pools them if that comes before the reduction.
func (w *work) query(out *[]float32, head int) (entropy, variance float64) {
	c := &w.in.Candidates[head/(w.s.Heads/w.s.KVHeads)]
	n, d := len(c.Pos), w.s.HeadDim
	scores := make([]float32, n)
	*out = scores
	if w.row == nil {
		w.row = make([]float32, w.longest)
	}
	prefix := n
	switch w.p.Score.Kind {
	case ScoreWindow, ScoreIndicator:
		stride := w.s.Heads * d
		queries := len(w.in.Queries) / stride
		q := w.in.Queries[head*d:]
		prefix = n - queries
		if w.p.Score.Kind == ScoreIndicator {
			if w.mean == nil {
				w.mean, w.m2 = make([]float32, w.longest), make([]float32, w.longest)
			}
			entropy, variance = stage.Indicator(w.l, scores[:prefix], w.row, w.mean, w.m2, q, stride, queries, c.K, d, w.p.Score.Gamma)
			break
		}
		stage.Attention(w.l, scores[:prefix], w.row, q, stride, queries, c.K, d)
		if w.p.Score.Mean {
			stage.Scale(scores[:prefix], 1/float32(queries))
		}
	case ScoreColumns:
		copy(scores, w.in.Columns[head])
		if w.p.Score.PerQuery {
			stage.PerQuery(scores, c.Pos, w.prompt.fresh)
		}
	case ScoreExpected:
		w.expected(scores, head, c)
	}
	if !w.p.Pool.After {
		w.pool(scores[:prefix])
	}
	return entropy, variance
}

// pool smooths a row in place.
func (w *work) pool(row []float32) {
	if w.p.Pool.Kind == PoolNone || w.p.Pool.Size < 2 {
		return
	}
	if w.pooled == nil {
		w.pooled = make([]float32, w.longest)
	}
	out := w.pooled[:len(row)]
	if w.p.Pool.Kind == PoolAvg {
		stage.PoolAvg(out, row, w.p.Pool.Size)
	} else {
		stage.PoolMax(out, row, w.p.Pool.Size)
	}
	copy(row, out)
}

// after is what comes after the reduction: pooling, and the norms of values.
func (w *work) after(heads [][]float32) {
	for h, row := range heads {
		c := &w.in.Candidates[h]
		if w.p.Pool.After {
			prefix := len(row)
			if w.p.Score.Kind == ScoreWindow || w.p.Score.Kind == ScoreIndicator {
				prefix -= len(w.in.Queries) / (w.s.Heads * w.s.HeadDim)
			}
			w.pool(row[:prefix])
		}
		if w.p.Score.Kind == ScoreExpected && w.p.Score.ValueNorm {
			norms := w.row[:len(row)]
			stage.Norms(norms, c.V, w.s.HeadDim, 1)
			for j := range row {
				row[j] = (row[j] + float32(w.p.Score.Epsilon)) * norms[j]
			}
		}
	}
}
