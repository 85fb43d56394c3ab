package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"kvlens/app/stories"
	"kvlens/wasm/llama"
	"kvlens/web/lab/measure"
	"kvlens/web/lab/needle"
)

type calibrateInput struct {
	modelInput
	N          int    `json:"n" help:"needles to ask for"`
	Shrink     int    `json:"shrink" help:"of the needles that were found, how many are asked for again from 32 tokens"`
	Blocks     int    `json:"blocks" help:"prompts of a repeated block of random tokens"`
	Block      int    `json:"block" help:"tokens of a block"`
	Lengths    string `json:"lengths" help:"most tokens of the prompts, in turn"`
	Seed       uint64 `json:"seed" help:"of the samples"`
	Checkpoint string `json:"checkpoint" help:"a file to stop and go on with; removed at the end"`
}

// calibration is a measurement of a model's heads at work.
type calibration struct {
	*examinee
	in      *calibrateInput
	longest int // prompt, in tokens
	at      *checkpoint[*measure.Sums]
	data    hash.Hash // over the samples
}

// calibrate measures the heads of a model and gives the tables as JSON.
func calibrate(ctx context.Context, in *calibrateInput) (any, error) {
	lengths, err := numbers(in.Lengths)
	if err != nil {
		return nil, err
	}
	if in.N < 1 || in.Shrink < 1 || in.Blocks < 1 || in.Block < 1 {
		return nil, usageError("n, shrink, blocks and block are at least 1")
	}
	x, err := newExaminee(in.File)
	if err != nil {
		return nil, err
	}
	defer x.close()
	tokens := max(slices.Max(lengths)+needle.MaxAnswer, measure.Repeats*in.Block+1)
	if err := x.load(ctx, &in.modelInput, llama.SessionOptions{Tokens: tokens}); err != nil {
		return nil, err
	}
	c := calibration{examinee: x, in: in, longest: slices.Max(lengths), data: sha256.New()}
	settings := *in
	settings.File, settings.Checkpoint = x.sha, ""
	if c.at, err = resume(in.Checkpoint, settings, x.meter.NewSums()); err != nil {
		return nil, err
	}
	if !x.meter.Fits(c.at.Done) {
		return nil, fmt.Errorf("checkpoint %s is damaged", in.Checkpoint)
	}
	if err := c.measure(ctx, lengths); err != nil {
		return nil, err
	}
	t := x.meter.Tables(c.at.Done)
	t.Model, t.Data = x.sha, hex.EncodeToString(c.data.Sum(nil))
	t.Method = c.method()
	return t, c.at.end()
}

// method is the tables' sentence.
func (c *calibration) method() string {
	what := "digit codes in Tom Sawyer, asked for by the chat template"
	if c.story() {
		what = "facts in generated stories in English and Chinese"
	}
	return fmt.Sprintf("Scores of %s, prompts of up to %d tokens, greedy answers; echo and induction from %d blocks of %d random "+
		"tokens four times over; sink and local mass and layer errors at 32 tokens from %d of the answers.",
		what, c.longest, c.in.Blocks, c.in.Block, c.at.Done.Shrunk)
}

// measure does what the checkpoint lacks, sample by sample. The samples themselves are all made, for their hash.
func (c *calibration) measure(ctx context.Context, lengths []int) error {
	sums := c.at.Done
	for i := range c.in.Blocks {
		r := func() *rand.Rand { return rand.New(rand.NewPCG(c.in.Seed, uint64(i)|1<<32)) }
		ids, _ := c.meter.RandomIDs(c.in.Block, r())
		c.hash(ids, 0, 0)
		if i < sums.Blocks {
			continue
		}
		if err := c.meter.Block(ctx, c.in.Block, r(), sums); err != nil {
			return err
		}
		if err := c.at.save("block %d of %d", i+1, c.in.Blocks); err != nil {
			return err
		}
	}
	samples := make([]*needle.Sample, c.in.N)
	for i := range samples {
		s, err := c.sample(ctx, i, lengths[i%len(lengths)])
		if err != nil {
			return err
		}
		samples[i] = s
		c.hash(s.IDs, s.From, s.To)
		if i < sums.Tried {
			continue
		}
		if err := c.meter.Needle(ctx, s, sums); err != nil {
			return err
		}
		if err := c.at.save("needle %d of %d (%s): %d right", i+1, c.in.N, s.Name, len(sums.Right)); err != nil {
			return err
		}
	}
	if len(sums.Right) == 0 {
		return errors.New("the model found no needle")
	}
	semantic := c.meter.Semantic(sums)
	again := min(c.in.Shrink, len(sums.Right))
	for i := sums.Shrunk; i < again; i++ {
		// Spread over all that were right, so that all lengths and languages are among them.
		s := samples[sums.Right[i*len(sums.Right)/again]]
		if err := c.meter.Shrink(ctx, s, semantic, sums); err != nil {
			return err
		}
		if err := c.at.save("32 tokens %d of %d (%s)", i+1, again, s.Name); err != nil {
			return err
		}
	}
	return nil
}

// depths of needles, in turn.
var depths = []float64{0.1, 0.5, 0.9, 0.3, 0.7}

// sample is needle number i. Prose comes from the first half of the novel: needle tables use the second.
func (c *calibration) sample(ctx context.Context, i, tokens int) (*needle.Sample, error) {
	r := rand.New(rand.NewPCG(c.in.Seed, uint64(i)))
	depth := depths[i%len(depths)]
	if c.story() {
		told := needle.Told()
		return needle.NewStory(c.s.tok, stories.Spec{
			Lang: []string{"en", "zh"}[i%2], Kind: told[i/2%len(told)], Tokens: tokens, Depth: depth, Seed: r.Uint64(),
		})
	}
	prose, err := c.prose(ctx)
	if err != nil {
		return nil, err
	}
	return needle.NewDigits(c.s.tok, c.chat, needle.Digits{
		Prose: needle.From(prose.Novel, r.Float64()*0.45), Tokens: tokens, Depth: depth, Code: needle.Code(r, 4+i%2),
	})
}

func (c *calibration) hash(ids []int32, from, to int) {
	_ = binary.Write(c.data, binary.LittleEndian, ids) // a hash takes everything
	_ = binary.Write(c.data, binary.LittleEndian, [2]int32{int32(from), int32(to)})
}

// numbers reads a list of positive numbers.
func numbers(list string) ([]int, error) {
	var out []int
	for _, word := range strings.Split(list, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 {
			return nil, usageError("%q is no list of numbers above 0", list)
		}
		out = append(out, n)
	}
	return out, nil
}
