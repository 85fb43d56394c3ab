package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kvlens/cache/policy"
	"kvlens/web/lab/golden"
)

func TestMain(m *testing.M) {
	progress = io.Discard
	os.Exit(m.Run())
}

// stopper cancels a command after so many lines of progress.
type stopper struct {
	left   int
	cancel context.CancelFunc
}

func (s *stopper) Write(p []byte) (int, error) {
	if s.left--; s.left == 0 {
		s.cancel()
	}
	return len(p), nil
}

// stopAndGoOn runs a command that is stopped again and again, and returns what it says in the end.
func stopAndGoOn(t *testing.T, every int, args ...string) string {
	t.Helper()
	defer func() { progress = io.Discard }()
	for range 50 {
		ctx, cancel := context.WithCancel(context.Background())
		progress = &stopper{every, cancel}
		var out, errs strings.Builder
		code := lab(ctx, args, strings.NewReader(""), &out, &errs)
		stopped := errors.Is(ctx.Err(), context.Canceled)
		cancel()
		if code == 0 {
			return out.String()
		}
		if !stopped {
			t.Fatalf("%v: %s", args, errs.String())
		}
	}
	t.Fatalf("%v: no end", args)
	return ""
}

func unbroken(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs strings.Builder
	if code := lab(context.Background(), args, strings.NewReader(""), &out, &errs); code != 0 {
		t.Fatalf("%v: %s", args, errs.String())
	}
	return out.String()
}

// Tables fit their model, hold shares of attention, and are the same however often the measurement was stopped.
func TestCalibrate(t *testing.T) {
	args := []string{
		"calibrate", teachManifest(t), "-n", "10", "-lengths", "64,96", "-shrink", "3", "-blocks", "2", "-block", "12", "-seed", "5",
	}
	var tables, stopped policy.Tables
	if err := json.Unmarshal([]byte(unbroken(t, args...)), &tables); err != nil {
		t.Fatal(err)
	}
	again := stopAndGoOn(t, 4, append(args, "-checkpoint", filepath.Join(t.TempDir(), "at.json"))...)
	if err := json.Unmarshal([]byte(again), &stopped); err != nil {
		t.Fatal(err)
	}
	// How a prompt is cut into pieces follows the clock, and sums of floats follow the pieces.
	near := func(name string, got, want []float32) { golden.Close(t, name, got, want, 1e-5, 1e-4) }
	near("errors", stopped.Errors, tables.Errors)
	for l := range 5 {
		near("retrieval", stopped.Retrieval[l], tables.Retrieval[l])
		near("semantic", stopped.Semantic[l], tables.Semantic[l])
		near("induction", stopped.Induction[l], tables.Induction[l])
		near("echo", stopped.Echo[l], tables.Echo[l])
		near("sink", stopped.Sink[l], tables.Sink[l])
		near("local", stopped.Local[l], tables.Local[l])
	}
	if stopped.Data != tables.Data || stopped.Method != tables.Method || stopped.Samples != tables.Samples {
		t.Errorf("with stops %q of %d, without %q of %d", stopped.Data, stopped.Samples, tables.Data, tables.Samples)
	}
	if err := tables.Check(policy.Shape{Layers: 5, Heads: 6, KVHeads: 2, HeadDim: 32}, tables.Model); err != nil {
		t.Error(err)
	}
	if tables.Tried != 10 || tables.Samples < 1 || tables.Samples > 10 {
		t.Errorf("%d of %d samples", tables.Samples, tables.Tried)
	}
	for l := range 5 {
		for h := range 6 {
			// A token's earlier copies and what followed them are different tokens, as are the first and the last 32.
			if x := tables.Echo[l][h] + tables.Induction[l][h]; x < 0 || x > 1+1e-5 {
				t.Errorf("%d.%d: echo and induction are %v of the attention", l, h, x)
			}
			if x := tables.Sink[l][h] + tables.Local[l][h]; x < 0 || x > 1+1e-5 {
				t.Errorf("%d.%d: sink and local are %v of the attention", l, h, x)
			}
		}
	}
	// 14 % of 8 KV heads is one: the cut is the highest score.
	top := float32(0)
	for _, row := range tables.Induction {
		for _, x := range row {
			top = max(top, x)
		}
	}
	if tables.Thresholds.Induction != top {
		t.Errorf("the cut is %v, the highest score %v", tables.Thresholds.Induction, top)
	}
}

// A checkpoint of other settings, and a broken one, are refused.
func TestCheckpointRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "at.json")
	for text, want := range map[string]string{
		`{"settings":"{}"}`: "other settings", `{`: "checkpoint", `{"more":1}`: "more",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var out, errs strings.Builder
		code := lab(context.Background(), []string{"calibrate", teachManifest(t), "-checkpoint", path}, strings.NewReader(""), &out, &errs)
		if code != 1 || !strings.Contains(errs.String(), want) {
			t.Errorf("%s: status %d, %s", text, code, errs.String())
		}
	}
}

// A needle table counts what the full cache answers. From all tokens every recipe answers as the full cache does; from the
// last few tokens, among which the needle is not, none.
func TestNeedles(t *testing.T) {
	args := []string{
		"needles", teachManifest(t), "-n", "6", "-lengths", "96", "-keep", "100,3", "-recipes",
		"window; streamingllm rank=0; snapkv window=2 + adakv; cake window=2; headkv window=2; compresskv window=2; knorm; expected; snapkv window=2 + criticalkv",
	}
	want := unbroken(t, args...)
	if got := stopAndGoOn(t, 5, append(args, "-checkpoint", filepath.Join(t.TempDir(), "at.json"))...); got != want {
		t.Errorf("with stops: %s\nwithout: %s", got, want)
	}
	var out needlesOutput
	if err := json.Unmarshal([]byte(want), &out); err != nil {
		t.Fatal(err)
	}
	if out.Tried != 12 || out.N < 1 || len(out.Rows) != 18 {
		t.Fatalf("%d of %d prompts, %d rows", out.N, out.Tried, len(out.Rows))
	}
	if len(out.Table) != 2+9 || out.Table[0] != "| recipe | 100 % | 3 % |" || out.Table[2] != fmt.Sprintf("| `window` | %d | %d |", out.N, out.Rows[1].Right) {
		t.Errorf("%q", out.Table)
	}
	for _, r := range out.Rows {
		switch {
		case r.Keep == 100 && (r.Right != out.N || r.Kept != 100):
			t.Errorf("%s: %d of %d right from all of the cache (%v %%)", r.Recipe, r.Right, out.N, r.Kept)
		case r.Keep == 3 && (r.Right == out.N || math.Abs(r.Kept-3) > 1):
			t.Errorf("%s: %d of %d right from %v %% of the cache", r.Recipe, r.Right, out.N, r.Kept)
		}
	}
}

// A recipe drops tokens from a session whose cap is a share of the full cache's; the first token is the full cache's.
func TestGenerateRecipe(t *testing.T) {
	prompts, _ := golden.Teach(t)
	ids := toJSON(t, map[string]any{"ids": prompts[0].IDs, "max": 8})
	full := run[generateOutput](t, ids, "generate", teachManifest(t), "-json", "-")
	out := run[generateOutput](t, ids, "generate", teachManifest(t), "-json", "-", "-recipe", "snapkv window=4 + adakv", "-cap", "25%")
	if full.Recipe != nil || out.Recipe == nil || out.IDs[0] != full.IDs[0] || out.Cap*3 > full.Cap {
		t.Fatalf("%+v, cap %d of %d, %v after %v", out.Recipe, out.Cap, full.Cap, out.IDs, full.IDs)
	}
	kept := 0
	for l, byHead := range out.Recipe.Kept {
		for h, list := range byHead {
			kept += len(list)
			if len(list) > out.Recipe.Caps[l][h] {
				t.Errorf("layer %d, KV head %d: %d tokens for a budget of %d", l, h, len(list), out.Recipe.Caps[l][h])
			}
		}
	}
	if r, lists := out.Recipe, 5*2; kept > lists*(r.Budget+r.Reserve) || kept < lists*r.Budget*9/10 {
		t.Errorf("%d tokens in %d lists of %d and %d", kept, lists, r.Budget, r.Reserve)
	}
	budget := run[generateOutput](t, ids, "generate", teachManifest(t), "-json", "-", "-recipe", "tova", "-budget", "10")
	evicted := 0
	for _, token := range budget.Tokens {
		evicted += len(token.Evicted)
	}
	// The last token is not stored; each of the others pushes one out of every list.
	if n := len(budget.Tokens) - 1; budget.Recipe.Budget != 10 || n < 1 || evicted != n*5*2 {
		t.Errorf("budget %d, %d tokens left for %d", budget.Recipe.Budget, evicted, n)
	}
	for _, wrong := range [][]string{{"-cap", "0%"}, {"-cap", "many"}, {"-recipe", "none"}, {"-cap", "120%"}} {
		var o, e strings.Builder
		if code := lab(context.Background(), append([]string{"generate", teachManifest(t), "-text", "a"}, wrong...), nil, &o, &e); code != 2 {
			t.Errorf("%v: status %d", wrong, code)
		}
	}
}

// Every recipe takes some time beside the prefill that it joins; Full only stores.
func TestCosts(t *testing.T) {
	const recipes = "full; snapkv window=8; h2o; quest"
	out := run[benchOutput](t, "", "bench", teachManifest(t), "-prompt", "4", "-decode", "1", "-recipes", recipes)
	if len(out.Recipes) != 4 {
		t.Fatalf("%+v", out.Recipes)
	}
	for i, name := range strings.Split(recipes, "; ") {
		if c := out.Recipes[i]; c.Recipe != name || c.Seconds <= 0 || c.Percent <= 0 {
			t.Errorf("%+v, want %s", c, name)
		}
	}
}
