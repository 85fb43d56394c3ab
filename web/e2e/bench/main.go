// Command bench prints how fast the engine is on this machine, natively and in Chromium, and the ratios that the design
// aims for. It judges nothing: times depend on the machine and on what else it does.
//
//	go run ./web/e2e/bench
//
// KVLENS_PEER_WLLAMA may name a folder with wllama (llama.cpp in WebAssembly) and a run.mjs that measures it: then the same
// file runs there on one thread, right after ours.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"kvlens/wasm/weights"
)

// recipes stand for classes: positions, attention of the last tokens, its variance, column sums, keys, expected attention,
// values, one set of a few heads.
const recipes = "full; streamingllm rank=0; snapkv; snapkv + adakv; cake; h2o; knorm; expected; snapkv + criticalkv; compresskv"

const (
	teach   = "web/static/models/teach-q8_0.gguf"
	smolLM2 = "web/models/smollm2-135m-instruct/manifest.json"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	smol := smolLM2
	if p := os.Getenv("KVLENS_SMOLLM2"); p != "" {
		smol = p
	}
	models := []string{teach, smol}
	if _, err := os.Stat(smol); err != nil {
		fmt.Println("SKIPPED: everything on SmolLM2:", err)
		models = models[:1]
	}
	for _, m := range models {
		if err := native("native", m); err != nil {
			return err
		}
	}
	if _, err := os.Stat(os.Getenv("VK_ICD_FILENAMES")); err != nil {
		fmt.Println("SKIPPED: WebGPU, natively: VK_ICD_FILENAMES:", err)
	} else if err := native("WebGPU on a software driver", teach, "-backend", "gpu", "-prompt", "32", "-decode", "8"); err != nil {
		return err
	}
	got, err := chromium("Loops|CPU|Recipes", "./wasm/cpu", "./wasm/llama")
	if err != nil {
		return err
	}
	ratio(got, "SIMD product over the Go loop, one token", "Loops/simd matvec-GFLOP/s", "Loops/go matvec-GFLOP/s", 10)
	ratio(got, "SIMD product over the Go loop, 32 tokens", "Loops/simd matmul-GFLOP/s", "Loops/go matmul-GFLOP/s", 10)
	slow, err := chromium("SlowMap", "-webgpu", "./wasm/llama")
	if err != nil {
		return err
	}
	more := slow["SlowMap/delayed ms/token"] - slow["SlowMap/direct ms/token"]
	fmt.Printf("100 ms more for each read-back, four in flight, on a software adapter: %.1f ms more a token (aim: at most 25)\n", more)
	if len(models) < 2 {
		return nil
	}
	ratio(got, "SmolLM2 decode over the products' ceiling", "CPU/smollm2 decode32-tokens/s", "CPU/smollm2 ceiling-tokens/s", 0.5)
	ratio(got, "SmolLM2 decode at 1,024 tokens over 32", "CPU/smollm2 decode1024-tokens/s", "CPU/smollm2 decode32-tokens/s", 0.6)

	peer := os.Getenv("KVLENS_PEER_WLLAMA")
	if peer == "" {
		fmt.Println("SKIPPED: the comparison with wllama: KVLENS_PEER_WLLAMA names no folder")
		return nil
	}
	if err := wllama(got, peer, smol); err != nil {
		return err
	}
	ratio(got, "SmolLM2 decode over wllama's", "CPU/smollm2 decode32-tokens/s", "wllama decode", 3)
	ratio(got, "SmolLM2 prefill over wllama's", "CPU/smollm2 prefill-tokens/s", "wllama prefill", 5)
	return nil
}

// native runs the command line's benchmark, on the reference path unless flags say otherwise.
func native(where, model string, flags ...string) error {
	out, err := output("go", append([]string{"run", "./web/lab", "bench", model, "-recipes", recipes}, flags...)...)
	if err != nil {
		return err
	}
	type speed struct {
		Rate float64 `json:"tokens_per_second"`
	}
	var r struct {
		Prefill speed
		Decode  []speed
		Recipes []struct {
			Recipe  string
			Percent float64
		}
	}
	if err := json.Unmarshal(out, &r); err != nil || len(r.Decode) == 0 {
		return fmt.Errorf("bench: lab's answer: %w: %s", err, out)
	}
	fmt.Printf("%s, %s: prefill %.1f tokens/s, decode %.1f tokens/s\n", where, filepath.Base(model), r.Prefill.Rate, r.Decode[0].Rate)
	for _, c := range r.Recipes {
		fmt.Printf("%s, %s: %s selects and stores 1,024 tokens in %.1f %% of the prefill (aim: at most 15)\n", where, filepath.Base(model), c.Recipe, c.Percent)
	}
	return nil
}

// metric is one "value unit" of a benchmark's line.
var metric = regexp.MustCompile(`([0-9.]+) ([A-Za-z0-9/%-]+)`)

// chromium runs benchmarks of packages in a Chromium worker, with flags before them, and returns their metrics by "name unit". A name that came twice (#01)
// counts as one.
func chromium(bench string, args ...string) (map[string]float64, error) {
	out, err := output("go", append([]string{"run", "./web/e2e/worker", "-run", "^$", "-bench", bench}, args...)...)
	if err != nil {
		return nil, err
	}
	got := map[string]float64{}
	for line := range strings.Lines(string(out)) {
		name, rest, ok := strings.Cut(line, "\t")
		name, isBench := strings.CutPrefix(strings.TrimSpace(name), "Benchmark")
		if !ok || !isBench {
			continue
		}
		name, _, _ = strings.Cut(name, "#")
		for _, m := range metric.FindAllStringSubmatch(rest, -1) {
			v, err := strconv.ParseFloat(m[1], 64)
			if err != nil {
				return nil, fmt.Errorf("bench: %q: %w", line, err)
			}
			fmt.Printf("Chromium, %s: %s %s\n", name, m[1], m[2])
			got[name+" "+m[2]] = v
		}
	}
	return got, nil
}

// wllama measures the peer on the same model file.
func wllama(got map[string]float64, folder, model string) error {
	f, err := weights.OpenPath(model)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	tmp, err := os.CreateTemp("", "kvlens-*.gguf")
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	if _, err := io.Copy(tmp, io.NewSectionReader(f, 0, f.Size)); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	if err := tmp.Close(); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	out, err := output("node", filepath.Join(folder, "run.mjs"), tmp.Name(), "1", "64")
	if err != nil {
		return err
	}
	var r struct {
		Prompt float64 `json:"prompt_tok_s"`
		Decode float64 `json:"decode_tok_s"`
	}
	if err := json.Unmarshal(out, &r); err != nil {
		return fmt.Errorf("bench: wllama's answer: %w: %s", err, out)
	}
	fmt.Printf("wllama on one thread: prefill %.1f tokens/s, decode %.1f tokens/s\n", r.Prompt, r.Decode)
	got["wllama prefill"], got["wllama decode"] = r.Prompt, r.Decode
	return nil
}

func ratio(got map[string]float64, what, a, b string, aim float64) {
	if got[b] == 0 {
		fmt.Printf("%s: not measured\n", what)
		return
	}
	fmt.Printf("%s: %.2f (aim: %g or more)\n", what, got[a]/got[b], aim)
}

// output runs a command and returns what it prints.
func output(name string, args ...string) ([]byte, error) {
	cmd := exec.Command(name, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("bench: %s %s: %w\n%s", name, strings.Join(args, " "), err, out.Bytes())
	}
	return out.Bytes(), nil
}
