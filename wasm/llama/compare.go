package llama

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"kvlens/cache"
	"kvlens/wasm/sample"
	"kvlens/wasm/step"
)

// CompareOptions of a comparison of two settings, A and B, with a full cache.
type CompareOptions struct {
	Parts [][]int32           // the prompt, in the parts in which it is read: a story before its question, or all at once
	Max   int                 // most tokens of each answer
	Stop  func(id int32) bool // token ids that end an answer; may be nil
	// Runs are A and B. Tokens is that of prompt and limit; without a cap, a share and a budget a run gets what Full takes.
	Runs [2]SessionOptions
	// Gold and Other are a right answer and a wrong one, whose first tokens that differ give the margin; none is none.
	Gold, Other []int32
}

// CompareEvents are told of a comparison as it goes. All of it may be nil but for what errors mean: ErrStop ends the
// answer, another ends the comparison.
type CompareEvents struct {
	Progress func(done, total int)     // tokens × layers of the three prompts
	Read     func(run int, s *Session) // a run has read the prompt: for looking at what it keeps
	Forced   func(Compared) error      // a token of the full cache's answer
	// Free is a token of a run's own answer; same says that it and all before it are the full cache's.
	Free func(run int, t Token, same bool) error
}

// Compared is a token of the full cache's answer, and what A and B make of it. The fields of three are of Full, A and B.
type Compared struct {
	ID       int32
	Position int
	Choices  [3]sample.Choice // what each would have said
	Prob     [3]float64       // of ID
	KL       [2]float64       // KL(full‖run) over the whole vocabulary, in nats
	// Margin is the log-probability of the gold answer's first token that differs from the other's, less that one's,
	// after the prompt and what the two have in common. It comes with the first token.
	Margin []float64
}

// Comparison sums up.
type Comparison struct {
	Reason Reason  // why the full cache's answer ended; ReasonFull where a run's cap was reached before
	IDs    []int32 // the full cache's answer
	Full   int64   // bytes that Full takes for prompt and limit
	Runs   [2]Contrast
}

// Contrast is one run beside the full cache.
type Contrast struct {
	MeanKL, MaxKL float64 // in nats, over the tokens of the full cache's answer
	Agree         int     // tokens of it that the run found likeliest too
	Diverged      int     // index of the first token of its own answer that differs; −1 if none does
	Cap           int64   // bytes of the arena
	Peak          int64   // bytes that it and reading its prompt took at most, beside weights and other sessions
	Rate          float64 // tokens per second, forced
	// Retained is, for the prompt's last query and each query head, the share of the full cache's attention that falls on
	// tokens which the run keeps, [layers][n_heads].
	Retained [][]float64
}

// ErrMargin says that a gold answer and another one have no tokens to tell them apart, or only beyond the limit.
var ErrMargin = errors.New("the answers do not differ within the limit")

// Compare reads a prompt with a full cache and under two settings, on one upload of the weights. First the full cache
// answers greedily, and both runs are forced along: they are asked what they would have said, and given what it said, so
// that a token means the same in all three. Then the runs go back to the end of the prompt and answer freely.
//
// All sessions are closed when it returns. A prompt that a run has no room for gives a *cache.FullError.
func (m *Model) Compare(ctx context.Context, o CompareOptions, on CompareEvents) (*Comparison, error) {
	c := &comparison{m: m, o: o, on: on, prompt: len(slices.Concat(o.Parts...))}
	defer c.close()
	err := c.open()
	if err == nil {
		err = c.read(ctx)
	}
	if err == nil {
		err = c.force(ctx)
	}
	if err == nil {
		err = c.free(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("llama: compare: %w", err)
	}
	return &c.out, nil
}

// The three sessions of a comparison; the runs have the numbers that [CompareEvents] give them plus one.
const (
	runFull = iota
	runA
	runB
)

// comparison is one at work.
type comparison struct {
	m      *Model
	o      CompareOptions
	on     CompareEvents
	prompt int // tokens
	all    [3]*Session
	own    [3]int64       // bytes that each took when it was opened
	starts [3]*Checkpoint // at the end of the prompt
	kept   [2][][][]int32 // positions after the prompt, [layers][n_kv_heads]
	fork   int            // tokens that Gold and Other have in common
	margin []float64
	took   [2]time.Duration // for the tokens that were forced
	out    Comparison
}

// open checks what can be checked before anything is read, and makes the sessions.
func (c *comparison) open() error {
	o := &c.o
	if c.prompt == 0 || o.Max < 1 {
		return ErrEmpty
	}
	if len(o.Gold)+len(o.Other) > 0 {
		if c.fork = common(o.Gold, o.Other); c.fork > o.Max || c.fork == min(len(o.Gold), len(o.Other)) {
			return ErrMargin
		}
		for _, id := range slices.Concat(o.Gold, o.Other) {
			if id < 0 || int(id) >= c.m.cfg.Vocab {
				return fmt.Errorf("%w: %d", ErrToken, id)
			}
		}
	}
	tokens := c.prompt + o.Max
	full := SessionOptions{Tokens: tokens, F32: o.Runs[0].F32 && o.Runs[1].F32}
	for i, so := range []SessionOptions{full, o.Runs[0], o.Runs[1]} {
		so.Tokens = tokens
		before := c.m.led.Total().Allocated
		s, err := c.m.NewSession(so)
		if err != nil {
			return err
		}
		c.all[i], c.own[i] = s, c.m.led.Total().Allocated-before
	}
	c.out.Full = c.all[runFull].Cap()
	for i := range c.out.Runs {
		c.out.Runs[i].Cap, c.out.Runs[i].Diverged = c.all[i+1].Cap(), -1
	}
	return nil
}

func (c *comparison) close() {
	for i, s := range c.all {
		if c.starts[i] != nil {
			c.starts[i].Close()
		}
		if s != nil {
			s.Close()
		}
	}
}

// read lets A, B and the full cache read the prompt, the full cache last: its attention is weighed by what the runs keep.
func (c *comparison) read(ctx context.Context) error {
	done := 0
	for _, i := range []int{runA, runB, runFull} {
		s, led := c.all[i], c.m.led
		before, scratch := led.Total().Allocated, led.Rows()[cache.Scratch].Allocated
		led.Watch()
		for k, ids := range c.o.Parts {
			p := pass{progress: func(n, _ int) { c.progress(done + n) }}
			if i == runFull && k == len(c.o.Parts)-1 {
				p.probe = c.weigh
			}
			if err := s.prefill(ctx, ids, p); err != nil {
				return err
			}
			done += len(ids) * c.m.cfg.Layers
		}
		if i != runFull {
			c.out.Runs[i-1].Peak = c.own[i] + scratch + led.High() - before
			c.look(i - 1)
		}
		if i == runFull && c.fork == 0 {
			continue // it never goes back
		}
		var err error
		if c.starts[i], err = s.Save(ctx); err != nil {
			return err
		}
	}
	return c.gold(ctx)
}

func (c *comparison) progress(done int) {
	if c.on.Progress != nil {
		c.on.Progress(done, 3*c.prompt*c.m.cfg.Layers)
	}
}

// look notes what a run keeps of the prompt.
func (c *comparison) look(run int) {
	s, cfg := c.all[run+1], &c.m.cfg
	c.kept[run] = make([][][]int32, cfg.Layers)
	c.out.Runs[run].Retained = make([][]float64, cfg.Layers)
	for l := range c.kept[run] {
		for h := range cfg.KVHeads {
			c.kept[run][l] = append(c.kept[run][l], s.Kept(l, h))
		}
	}
	if c.on.Read != nil {
		c.on.Read(run, s)
	}
}

// weigh takes the attention of the prompt's last query while the full cache reads it.
func (c *comparison) weigh(at *At) error {
	n := len(c.o.Parts[len(c.o.Parts)-1])
	if _, ok := at.Op.(step.Store); !ok || at.To != n {
		return nil
	}
	rows, err := at.Attention(n - 1)
	if err != nil {
		return err
	}
	for h, row := range rows {
		all := 0.0
		for _, a := range row {
			all += float64(a)
		}
		for run := range c.kept {
			held := 0.0
			for _, p := range c.kept[run][at.Layer][h*c.m.cfg.KVHeads/len(rows)] {
				held += float64(row[p])
			}
			r := c.out.Runs[run].Retained
			r[at.Layer] = append(r[at.Layer], held/all)
		}
	}
	return nil
}

// gold takes the margins, along what both answers have in common, and goes back to the end of the prompt.
func (c *comparison) gold(ctx context.Context) error {
	if len(c.o.Gold) == 0 {
		return nil
	}
	for i, s := range c.all {
		for _, id := range c.o.Gold[:c.fork] {
			if err := s.Decode(ctx, id); err != nil {
				return err
			}
		}
		c.margin = append(c.margin, float64(s.logits[c.o.Gold[c.fork]])-float64(s.logits[c.o.Other[c.fork]]))
		if c.fork == 0 {
			continue
		}
		if err := c.back(i); err != nil {
			return err
		}
	}
	return nil
}

// back takes a session to the end of the prompt.
func (c *comparison) back(i int) error { return c.all[i].Restore(c.starts[i]) }

// force lets the full cache answer, and the runs follow.
func (c *comparison) force(ctx context.Context) error {
	var full *cache.FullError
	greedy := sample.New(sample.Params{})
	for len(c.out.IDs) < c.o.Max {
		t := Compared{Position: c.all[runFull].pos}
		if len(c.out.IDs) == 0 {
			t.Margin = c.margin
		}
		if err := t.weigh(greedy, &c.all); err != nil {
			return err
		}
		c.out.IDs = append(c.out.IDs, t.ID)
		c.add(&t)
		if c.on.Forced != nil {
			if err := c.on.Forced(t); errors.Is(err, ErrStop) {
				c.out.Reason = ReasonStopped
				return nil
			} else if err != nil {
				return err
			}
		}
		switch {
		case c.o.Stop != nil && c.o.Stop(t.ID):
			c.out.Reason = ReasonStopID
			return nil
		case len(c.out.IDs) == c.o.Max:
			continue
		}
		if err := c.follow(ctx, t.ID); errors.As(err, &full) {
			c.out.Reason = ReasonFull
			return nil
		} else if err != nil {
			return err
		}
		c.m.giveWay()
	}
	c.out.Reason = ReasonMax
	return nil
}

// follow gives a token to all three.
func (c *comparison) follow(ctx context.Context, id int32) error {
	for i, s := range c.all {
		begin := time.Now()
		if err := s.Decode(ctx, id); err != nil {
			return err
		}
		if i != runFull {
			c.took[i-1] += time.Since(begin)
			c.out.Runs[i-1].Rate = float64(len(c.out.IDs)) / max(1e-9, c.took[i-1].Seconds())
		}
	}
	return nil
}

// add adds a token to the sums; MeanKL is a mean at any time.
func (c *comparison) add(t *Compared) {
	n := float64(len(c.out.IDs))
	for i := range c.out.Runs {
		r := &c.out.Runs[i]
		r.MeanKL += (t.KL[i] - r.MeanKL) / n
		r.MaxKL = max(r.MaxKL, t.KL[i])
		if t.Choices[i+1].ID == t.ID {
			r.Agree++
		}
	}
}

// free lets the runs answer by themselves. Where the cap of one has ended the full cache's answer, there is no more to
// compare with.
func (c *comparison) free(ctx context.Context) error {
	limit := c.o.Max
	if c.out.Reason == ReasonFull {
		limit = len(c.out.IDs)
	}
	for run := range c.out.Runs {
		r, s, n := &c.out.Runs[run], c.all[run+1], 0
		if err := c.back(run + 1); err != nil {
			return err
		}
		o := GenerateOptions{Max: limit, Sampler: sample.New(sample.Params{}), Stop: c.o.Stop}
		reason, err := s.Generate(ctx, o, func(t Token) error {
			if r.Diverged < 0 && (n >= len(c.out.IDs) || t.ID != c.out.IDs[n]) {
				r.Diverged = n
			}
			n++
			if c.on.Free == nil {
				return nil
			}
			return c.on.Free(run, t, r.Diverged < 0)
		})
		if err == nil {
			err = ctx.Err()
		}
		if err != nil && reason != ReasonFull {
			return err
		}
	}
	return nil
}

// weigh chooses the full cache's token and compares what the runs would have said.
func (t *Compared) weigh(greedy *sample.Sampler, all *[3]*Session) error {
	var norm [3]float64
	for i, s := range all {
		var err error
		if t.Choices[i], err = greedy.Pick(s.logits, nil); err != nil {
			return err
		}
		norm[i] = logSum(s.logits)
		t.ID = t.Choices[runFull].ID
		t.Prob[i] = math.Exp(float64(s.logits[t.ID]) - norm[i])
	}
	full := all[runFull].logits
	for i := range t.KL {
		run := all[i+1].logits
		for k, x := range full {
			p := float64(x) - norm[runFull]
			t.KL[i] += math.Exp(p) * (p - float64(run[k]) + norm[i+1])
		}
		t.KL[i] = max(0, t.KL[i]) // sums of equal rows are 0 but for rounding
	}
	return nil
}

// logSum is the logarithm of the softmax's denominator.
func logSum(logits []float32) float64 {
	most := float64(slices.Max(logits))
	sum := 0.0
	for _, x := range logits {
		sum += math.Exp(float64(x) - most)
	}
	return most + math.Log(sum)
}

// common is how many tokens two answers begin with alike.
func common(a, b []int32) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}
