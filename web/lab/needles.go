package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"kvlens/app/stories"
	"kvlens/cache/policy"
	"kvlens/wasm/llama"
	"kvlens/wasm/sample"
	"kvlens/web/lab/capture"
	"kvlens/web/lab/needle"
)

type needlesInput struct {
	modelInput
	Recipes    string `json:"recipes" help:"recipes, separated by ';'; by default those of the model's table"`
	Keep       string `json:"keep" help:"budgets in percent of the prompt, in turn"`
	Lengths    string `json:"lengths" help:"most tokens of the prompts; the default follows from the model"`
	N          int    `json:"n" help:"prompts of each length and text; the default follows from the model"`
	Seed       uint64 `json:"seed" help:"of the samples"`
	Tables     string `json:"tables" help:"a file of head tables instead of those that come with the program"`
	Checkpoint string `json:"checkpoint" help:"a file to stop and go on with; removed at the end"`
}

type needlesOutput struct {
	Model string      `json:"model"`
	Tried int         `json:"tried"`
	N     int         `json:"n"` // prompts that the full cache answers: only these count
	Rows  []needleRow `json:"rows"`
	Table []string    `json:"table"` // the rows as lines of a table in Markdown
}

// needleRow is a recipe at a budget.
type needleRow struct {
	Recipe string         `json:"recipe"`
	Keep   int            `json:"keep"`  // percent that it was to keep
	Kept   float64        `json:"kept"`  // percent that it kept
	Right  int            `json:"right"` // of N
	Groups map[string]int `json:"groups"`
}

// tried is one prompt of a needle table.
type tried struct {
	Group string    `json:"group"` // length and text
	Full  string    `json:"full"`  // the full cache's answer
	Right bool      `json:"right"`
	Runs  []outcome `json:"runs"` // [recipes · budgets]
}

type outcome struct {
	Answer string  `json:"answer"`
	Right  bool    `json:"right"`
	Kept   float64 `json:"kept"` // share of all tokens in all lists
}

// Recipes of the tables. Those of SmolLM2 are in the shape of published comparisons: a window of 8, one selection after the
// prompt.
const (
	chatRecipes = "streamingllm rank=0; h2o; snapkv window=8 kernel=5 pool=1; snapkv window=8 kernel=7 pool=2; pyramidkv; " +
		"snapkv window=8 kernel=7 pool=2 + adakv alpha=0.2; headkv beta=1.2; compresskv heads=1; compresskv heads=4; " +
		"compresskv heads=9; razor compensation=0; duo sinks=4 retrieval=0.14"
	storyRecipes = "window; streamingllm rank=0; h2o; observed; snapkv window=8; snapkv window=8 + adakv; pyramidkv; cake window=8; " +
		"headkv beta=1.2; compresskv heads=1; compresskv; adacompresskv; headcompresskv; razor compensation=0; " +
		"duo sinks=4 retrieval=0.25; tova; knorm; keydiff; expected; snapkv window=8 + chunkkv chunk=4; snapkv window=8 + criticalkv; random"
)

// needles asks a model for needles from caches of which recipes have dropped a part. Each prompt is computed once; what its
// queries, keys and values make of every recipe is then taken out of the full cache, which answers without it. So nothing
// more leaves while an answer is decoded.
func needles(ctx context.Context, in *needlesInput) (any, error) {
	t := needleTable{in: in}
	keep, err := numbers(in.Keep)
	if err != nil {
		return nil, err
	}
	if t.examinee, err = newExaminee(in.File); err != nil {
		return nil, err
	}
	defer t.close()
	if err := t.plan(ctx, keep); err != nil {
		return nil, err
	}
	longest := 0
	for _, s := range t.samples {
		longest = max(longest, len(s.IDs)+needle.MaxAnswer)
	}
	// A window that is never full: this session keeps everything, and its lists may lose tokens.
	o := llama.SessionOptions{Recipe: policy.Recipe{Method: "window"}, Tokens: longest, Budget: longest}
	if err := t.load(ctx, &in.modelInput, o); err != nil {
		return nil, err
	}
	settings := *in
	settings.File, settings.Checkpoint = t.sha, ""
	at, err := resume(in.Checkpoint, settings, []tried(nil))
	if err != nil {
		return nil, err
	}
	for i := len(at.Done); i < len(t.samples); i++ {
		done, err := t.ask(ctx, &t.samples[i])
		if err != nil {
			return nil, err
		}
		at.Done = append(at.Done, *done)
		right := 0
		for _, r := range done.Runs {
			if r.Right {
				right++
			}
		}
		err = at.save("prompt %d of %d (%s, %s): %q; %d of %d others right", i+1, len(t.samples), done.Group, t.samples[i].Name, done.Full, right, len(done.Runs))
		if err != nil {
			return nil, err
		}
	}
	return t.count(at.Done), at.end()
}

// needleTable is a table at work.
type needleTable struct {
	*examinee
	in      *needlesInput
	runs    []tableRun
	samples []groupedSample
	tables  *policy.Tables
}

type tableRun struct {
	recipe policy.Recipe
	text   string
	keep   int
}

type groupedSample struct {
	*needle.Sample
	group string
}

// plan reads recipes and makes samples.
func (t *needleTable) plan(ctx context.Context, keep []int) (err error) {
	if t.tables, err = t.s.tables(t.in.Tables); err != nil {
		return fmt.Errorf("head tables: %w", err)
	}
	recipes, lengths, n := t.in.Recipes, t.in.Lengths, t.in.N
	if t.story() {
		recipes, lengths, n = either(recipes, storyRecipes), either(lengths, "96,192,384"), either(n, 24)
	} else {
		recipes, lengths, n = either(recipes, chatRecipes), either(lengths, "235,490,990"), either(n, 3)
	}
	for _, text := range strings.Split(recipes, ";") {
		r, err := parseRecipe(text)
		if err != nil {
			return err
		}
		for _, k := range keep {
			t.runs = append(t.runs, tableRun{r, strings.TrimSpace(text), k})
		}
	}
	sizes, err := numbers(lengths)
	if err != nil {
		return err
	}
	if t.story() {
		return t.stories(sizes, n)
	}
	return t.digits(ctx, sizes, n)
}

// either is given, or else what there is by default.
func either[T comparable](given, byDefault T) T {
	var zero T
	if given != zero {
		return given
	}
	return byDefault
}

// digits are codes in the second half of a novel and in a licence: tables were measured on the first half.
func (t *needleTable) digits(ctx context.Context, sizes []int, n int) error {
	prose, err := t.prose(ctx)
	if err != nil {
		return err
	}
	texts := []struct{ name, text string }{{"novel", needle.From(prose.Novel, 0.5)}, {"licence", prose.Licence}}
	for _, size := range sizes {
		for _, text := range texts {
			for i := range n {
				r := rand.New(rand.NewPCG(t.in.Seed, uint64(len(t.samples))))
				s, err := needle.NewDigits(t.s.tok, t.chat, needle.Digits{
					Prose: text.text, Tokens: size, Depth: []float64{0.2, 0.5, 0.8}[i%3], Code: needle.Code(r, []int{5, 5, 4}[i%3]),
				})
				if err != nil {
					return err
				}
				t.samples = append(t.samples, groupedSample{s, fmt.Sprintf("%s %d", text.name, size)})
			}
		}
	}
	return nil
}

// stories are generated stories in both languages. Their seeds are not those of calibrate.
func (t *needleTable) stories(sizes []int, n int) error {
	told := needle.Told()
	for _, size := range sizes {
		for _, lang := range []string{"en", "zh"} {
			for i := range n {
				r := rand.New(rand.NewPCG(t.in.Seed, 1<<40|uint64(len(t.samples))))
				s, err := needle.NewStory(t.s.tok, stories.Spec{
					Lang: lang, Kind: told[i%len(told)], Tokens: size, Depth: depths[i%len(depths)], Seed: r.Uint64(),
				})
				if err != nil {
					return err
				}
				t.samples = append(t.samples, groupedSample{s, fmt.Sprintf("%s %d", lang, size)})
			}
		}
	}
	return nil
}

// ask asks for one needle from the full cache and then from what each recipe keeps of it.
func (t *needleTable) ask(ctx context.Context, s *groupedSample) (*tried, error) {
	out := &tried{Group: s.group}
	c, tokens := t.model.Config(), len(s.IDs)
	shape := policy.Shape{Layers: c.Layers, Heads: c.Heads, KVHeads: c.KVHeads, HeadDim: c.HeadDim}
	runs := make([]*compressor, len(t.runs))
	for i, r := range t.runs {
		budget := policy.Budget{
			Tokens: max(1, int(math.Round(float64(r.keep)/100*float64(tokens)))), Reserve: 1, Prompt: tokens + needle.MaxAnswer,
		}
		budget.Slots = (budget.Tokens + budget.Reserve) * c.Layers * c.KVHeads
		var err error
		if runs[i], err = newCompressor(r.recipe, shape, t.tables, budget, tokens); err != nil {
			return nil, fmt.Errorf("%s: %w", r.text, err)
		}
	}
	rope := capture.Rope{At: rotation(c.RopeBase, c.HeadDim), Neox: c.Neox}
	t.Reset()
	err := capture.Prefill(ctx, t.Session, &c, s.IDs, func(l *capture.Layer) error {
		w, err := t.meter.Output(l.Index)
		if err != nil {
			return err
		}
		for _, r := range runs {
			if err := r.layer(l, rope, w); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	full, err := t.Save(ctx)
	if err != nil {
		return nil, err
	}
	defer full.Close()
	if out.Full, err = t.answer(ctx); err != nil {
		return nil, err
	}
	if out.Right = s.Right(out.Full); !out.Right {
		return out, nil
	}
	for _, r := range runs {
		if err := t.Restore(full); err != nil {
			return nil, err
		}
		o := outcome{Kept: t.drop(r.kept, tokens)}
		if o.Answer, err = t.answer(ctx); err != nil {
			return nil, err
		}
		o.Right = s.Right(o.Answer)
		out.Runs = append(out.Runs, o)
	}
	return out, nil
}

// drop takes all but the kept positions out of the cache, and says which share of the tokens stayed.
func (t *needleTable) drop(kept [][][]int32, tokens int) float64 {
	stayed, lists := 0, 0
	for layer, byHead := range kept {
		for h, keep := range byHead {
			var leave []uint32
			for slot, pos := range t.Cache().List(layer, h).At {
				if _, stays := slices.BinarySearch(keep, int32(pos)); !stays {
					leave = append(leave, uint32(slot))
				}
			}
			t.Cache().Evict(layer, h, leave)
			stayed, lists = stayed+len(keep), lists+1
		}
	}
	return float64(stayed) / float64(lists*tokens)
}

// answer decodes greedily.
func (t *needleTable) answer(ctx context.Context) (string, error) {
	a := answer{s: t.s, decoder: t.s.tok.NewDecoder(), stop: needle.Stops}
	_, err := t.Generate(ctx, llama.GenerateOptions{Max: needle.MaxAnswer, Sampler: sample.New(sample.Params{}), Stop: t.s.tok.EOG}, a.add)
	return a.text, err
}

// count makes the table.
func (t *needleTable) count(all []tried) needlesOutput {
	out := needlesOutput{Model: t.sha, Tried: len(all), Rows: make([]needleRow, len(t.runs))}
	for i, r := range t.runs {
		out.Rows[i] = needleRow{Recipe: r.text, Keep: r.keep, Groups: map[string]int{}}
	}
	for _, s := range all {
		if !s.Right {
			continue
		}
		out.N++
		for i, o := range s.Runs {
			row := &out.Rows[i]
			row.Kept += 100 * o.Kept
			if o.Right {
				row.Right++
				row.Groups[s.Group]++
			}
		}
	}
	for i := range out.Rows {
		out.Rows[i].Kept /= float64(max(1, out.N))
	}
	out.Table = t.table(out.Rows)
	return out
}

// table is a line for each recipe: how many answers were right at each budget, and which share stayed where that is
// another.
func (t *needleTable) table(rows []needleRow) []string {
	budgets := 1
	for budgets < len(rows) && rows[budgets].Recipe == rows[0].Recipe {
		budgets++
	}
	head, rule := "| recipe |", "|---|"
	for _, r := range rows[:budgets] {
		head, rule = head+fmt.Sprintf(" %d %% |", r.Keep), rule+"---|"
	}
	lines := []string{head, rule}
	for line := range slices.Chunk(rows, budgets) {
		text := "| `" + line[0].Recipe + "` |"
		for _, r := range line {
			text += fmt.Sprintf(" %d", r.Right)
			if math.Abs(r.Kept-float64(r.Keep)) > 1 {
				text += fmt.Sprintf(" (%.0f %%)", r.Kept)
			}
			text += " |"
		}
		lines = append(lines, text)
	}
	return lines
}
