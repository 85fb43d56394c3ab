package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kvlens/web/lab/golden"
)

func teachManifest(t *testing.T) string {
	return filepath.Join(golden.Root(t), "web/static/models/teach.json")
}

// run runs a command line that must succeed, and reads its JSON.
func run[T any](t *testing.T, stdin string, args ...string) T {
	t.Helper()
	var out, errs bytes.Buffer
	if code := lab(context.Background(), args, strings.NewReader(stdin), &out, &errs); code != 0 {
		t.Fatalf("%v: status %d: %s", args, code, errs.String())
	}
	var v T
	d := json.NewDecoder(&out)
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return v
}

func toJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestInspect(t *testing.T) {
	out := run[inspectOutput](t, "", "inspect", golden.TeachModel(t))
	// From the description of the model: 5 layers of 192, 6 query and 2 KV heads of 32, 2,041,920 parameters in
	// 2,257,792 bytes, 1,280 bytes of f16 keys and values a token.
	m := out.Model
	if m == nil || m.Layers != 5 || m.Hidden != 192 || m.Heads != 6 || m.KVHeads != 2 || m.HeadDim != 32 || m.Vocab != 2304 {
		t.Errorf("model %+v, problem %q", m, out.Problem)
	}
	if out.Params != 2041920 || out.Bytes != 2257792 || out.Token != 1280 {
		t.Errorf("%d parameters, %d bytes, %d bytes a token", out.Params, out.Bytes, out.Token)
	}
	if len(out.Tensors) != 1+5*9+1 || out.Tensors[0].Rows*out.Tensors[0].Cols == 0 {
		t.Errorf("%d tensors", len(out.Tensors))
	}
	find := func(o inspectOutput) (v []any) {
		for _, p := range o.Metadata {
			if p.Key == "tokenizer.ggml.tokens" {
				v = p.Value.([]any)
			}
		}
		return v
	}
	if n := len(find(out)); n != 8 {
		t.Errorf("%d tokens are listed", n)
	}
	all := run[inspectOutput](t, "", "inspect", "-all", teachManifest(t))
	if n := len(find(all)); n != 2304 || all.Manifest == nil || all.Manifest.Size != 2257792 {
		t.Errorf("%d tokens are listed, manifest %+v", n, all.Manifest)
	}
}

// The built-in model's prompts become the oracle's ids, logits and answers, whichever way the settings come in.
func TestCommandsAgainstOracle(t *testing.T) {
	prompts, _ := golden.Teach(t)
	for _, p := range prompts {
		tokens := run[tokenizeOutput](t, toJSON(t, map[string]any{"file": golden.TeachModel(t), "text": p.Text}), "tokenize", "-json", "-")
		if !slices.Equal(tokens.IDs, p.IDs) || tokens.Text != "<|bos|>"+p.Text {
			t.Errorf("%s: %v, %q", p.Name, tokens.IDs, tokens.Text)
		}
		total, text := 0, ""
		for _, piece := range tokens.Pieces {
			total, text = total+piece.Tokens, text+piece.Text
		}
		if total != len(p.IDs) || text != tokens.Text {
			t.Errorf("%s: %d tokens in the pieces of %q", p.Name, total, text)
		}

		out := run[logitsOutput](t, "", "logits", golden.TeachModel(t), "-text", p.Text, "-f32", "-all", "-top", "3", "-at", "5, 7")
		golden.Close(t, p.Name, out.Logits, p.Logits, 2e-3, 1e-4)
		if len(out.Top) != 3 || out.Top[0].ID != p.Greedy[0] || out.Top[0].Logit != slices.Max(out.Logits) || out.At[1].Logit != out.Logits[7] {
			t.Errorf("%s: %+v, %+v", p.Name, out.Top, out.At)
		}

		in := toJSON(t, map[string]any{"ids": p.IDs, "max": 9, "f32": true})
		answer := run[generateOutput](t, "", "generate", "-json", in, "-max", "6", golden.TeachModel(t))
		if !slices.Equal(answer.IDs, p.Greedy[:6]) || answer.Reason != "max" || len(answer.Tokens) != 6 {
			t.Errorf("%s: %v, want %v (%s)", p.Name, answer.IDs, p.Greedy[:6], answer.Reason)
		}
	}
}

// A story is asked by the manifest's template and ends at its stop texts.
func TestStory(t *testing.T) {
	prompts, _ := golden.Teach(t)
	story, rest, _ := strings.Cut(prompts[0].Text, "\nQuestion: ")
	question, _, _ := strings.Cut(rest, "\nAnswer:")
	out := run[generateOutput](t, "", "generate", teachManifest(t), "-story", story, "-question", question)
	if !slices.Equal(out.Prompt, prompts[0].IDs) || out.Text != " a sandwich." || out.Reason != "stop text" {
		t.Errorf("%q (%s) after %v", out.Text, out.Reason, out.Prompt)
	}
	last := out.Tokens[len(out.Tokens)-1]
	if last.Position != len(out.Prompt)+len(out.Tokens)-1 || len(last.Top) != 5 || last.Top[0].ID != last.ID {
		t.Errorf("%+v", last)
	}
	forced := run[generateOutput](t, "", "generate", teachManifest(t), "-story", story, "-question", question, "-forced", "500,501", "-max", "3")
	if !forced.Tokens[1].Forced || !slices.Equal(forced.IDs[:2], []int32{500, 501}) {
		t.Errorf("%+v", forced.Tokens)
	}
	full := run[generateOutput](t, "", "generate", teachManifest(t), "-ids", "5,6,7", "-cap", "10000", "-max", "99", "-forced", "5,6,7,8,9,10,11,12,13")
	if full.Reason != "full" || full.Sentence == "" || full.Room != 0 || full.Cap != 10000 {
		t.Errorf("%s, %+v", full.Reason, full)
	}
}

// A model whose tokenizer is of no kind that we know still runs on ids.
func TestIDsOnly(t *testing.T) {
	runs := golden.Tiny(t)
	in := toJSON(t, map[string]any{"file": golden.TinyModel(t), "ids": runs[0].IDs, "f32": true, "all": true})
	out := run[logitsOutput](t, in, "logits", "-json", "-")
	golden.Close(t, "logits", out.Logits, runs[0].Prefill, 2e-3, 1e-4)
}

func TestBench(t *testing.T) {
	for backend := range backends {
		if backend == "gpu" && os.Getenv("KVLENS_GPU") != "1" {
			continue
		}
		out := run[benchOutput](t, "", "bench", golden.TeachModel(t), "-prompt", "8", "-decode", "3", "-context", "20", "-backend", backend)
		if out.Prefill.Tokens != 8 || len(out.Decode) != 2 || out.Decode[1].Context != 20 || out.Decode[0].Rate <= 0 {
			t.Errorf("%s: %+v", backend, out)
		}
		// Three tokens after eight: the weights once each (2,039,808 of 34 bytes in 32, norms of 2,112, and space between
		// 47 tensors), and 1,280 bytes of keys and values for each token in the cache.
		if got := out.Decode[0].Bytes - 9*1280; got < 2039808*34/32+2112*4 || got > 2039808*34/32+2112*4+47*256 {
			t.Errorf("%s: %d bytes a token", backend, got)
		}
		// The step's launches: six a layer and six more at most.
		if n := out.Decode[0].Dispatches; backend == "gpu" && (n < 4 || n > (6*5+6)*4./3) {
			t.Errorf("%g dispatches a token", n)
		}
	}
}

func TestErrors(t *testing.T) {
	model := golden.TeachModel(t)
	cases := []struct {
		args string
		code int
		says string
	}{
		{"", 2, "usage"},
		{"help", 0, ""},
		{"dance " + model, 2, "no command"},
		{"logits", 2, "model file is missing"},
		{"logits -text x nowhere.gguf", 1, "nowhere.gguf"},
		{"logits -text x " + model + " more", 2, "more than one file"},
		{"logits " + model, 2, "one of ids, text"},
		{"logits -text x -ids 1 " + model, 2, "one of ids, text"},
		{"logits -ids 1,x " + model, 2, "no token id"},
		{"logits -ids 99999 " + model, 1, "outside the vocabulary"},
		{"logits -text x -at -1 " + model, 2, "at: token -1"},
		{"logits -text x -backend abacus " + model, 2, "cpu, f64, gpu, ref"},
		{"logits -text x -cap 100 " + model, 1, "full"},
		{"generate -text x -top_p 2 " + model, 2, "top_p"},
		{"generate -text x -max -1 " + model, 2, "max"},
		{"generate -text x -max 900000000 " + model, 1, "not enough memory"},
		{"generate -chat x " + model, 1, "chat"},
		{"generate -story x " + model, 2, "manifest"},
		{"generate -wrong " + model, 2, "wrong"},
		{"generate -json {\"texd\":1} " + model, 2, "texd"},
		{"tokenize -ids 99999 " + model, 1, "99999"},
		{"compare -text x -max 0 " + model, 2, "max"},
		{"compare -text x -later " + model, 2, "later"},
		{"compare -text x -b magic " + model, 2, "magic"},
		{"compare -text x -gold a -other a " + model, 1, "do not differ"},
		{"bench -prompt 0 " + model, 2, "above 0"},
		{"inspect main.go", 1, "inspect"},
	}
	for _, c := range cases {
		var out, errs bytes.Buffer
		code := lab(context.Background(), strings.Fields(c.args), strings.NewReader(""), &out, &errs)
		if code != c.code || !strings.Contains(errs.String(), c.says) {
			t.Errorf("lab %s: status %d: %s", c.args, code, errs.String())
		}
		if code != 0 && out.Len() > 0 {
			t.Errorf("lab %s: wrote %s", c.args, out.String())
		}
	}
}

// A stop text counts wherever it ends in the new text, also when it began before it.
func TestStopEnd(t *testing.T) {
	cases := []struct {
		text  string
		from  int
		stops []string
		want  int
	}{
		{"a cat", 0, nil, -1},
		{"a cat.", 5, []string{"."}, 6},
		{"a. cat.", 3, []string{"."}, 7},
		{"END of", 2, []string{"END"}, 3},
		{"x\ny.", 0, []string{".", "\n"}, 2},
		{"鱼。", 3, []string{"。", ""}, 6},
	}
	for _, c := range cases {
		if got := stopEnd(c.text, c.from, c.stops); got != c.want {
			t.Errorf("%q from %d: %d, want %d", c.text, c.from, got, c.want)
		}
	}
}
