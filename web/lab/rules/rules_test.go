// Package rules holds the test that keeps the project's parts apart.
package rules

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "kvlens/"

// mayImport lists, for every package of this project, the packages of this project that its product code may import.
// A name ending in /... stands for a folder and everything in it. Packages outside the table fail the test, so a new
// one must be placed here on purpose.
var mayImport = map[string][]string{
	"shaders":            {},
	"cache":              {},
	"cache/policy":       {"cache", "cache/policy/stage"},
	"cache/policy/stage": {},
	"cache/codec":        {"cache"},

	"wasm/proto":       {},
	"wasm/quant":       {},
	"wasm/tokenizer":   {},
	"wasm/sample":      {},
	"wasm/jsutil":      {},
	"wasm/simd":        {},
	"wasm/simd/trim":   {},
	"wasm/chat":        {"wasm/tokenizer"},
	"wasm/weights":     {"wasm/quant", "wasm/jsutil"},
	"wasm/heads":       {"cache/policy", "wasm/jsutil"},
	"wasm/step":        {"wasm/quant", "cache", "cache/policy"},
	"wasm/ref":         {"wasm/quant", "wasm/step", "cache", "cache/policy", "cache/policy/stage"},
	"wasm/cpu":         {"wasm/ref", "wasm/simd", "wasm/quant", "wasm/step", "cache", "cache/policy"},
	"wasm/gpu":         {"wasm/jsutil"},
	"wasm/gpu/gputest": {"wasm/gpu"},
	// The behavioural suite that every backend's tests run.
	"wasm/ref/reftest": {"wasm/ref", "wasm/quant", "wasm/step", "cache", "cache/policy"},
	"wasm/kernel":      {"wasm/gpu", "wasm/quant", "wasm/step", "shaders", "cache", "cache/policy", "cache/policy/stage"},
	"wasm/llama": {
		"wasm/step", "wasm/ref", "wasm/cpu", "wasm/kernel", "wasm/weights", "wasm/quant", "wasm/sample", "cache/...",
	},
	"wasm/engine/...": {"wasm/...", "cache/..."},

	"app":              {"app/...", "wasm/proto", "wasm/jsutil"},
	"app/text":         {},
	"app/stories":      {},
	"app/canvas":       {},
	"app/state":        {"wasm/proto", "cache/policy", "app/stories", "app/text"},
	"app/engineclient": {"wasm/proto", "wasm/jsutil"},
	"app/ui":           {"app/...", "wasm/proto", "wasm/jsutil", "cache/policy"},

	"web/gen":         {"app/ui"},
	"web/serve":       {"web/serve/..."},
	"web/serve/files": {},
	"web/e2e":         {"web/e2e/...", "web/serve/...", "app/stories"},
	"web/e2e/browser": {},
	"web/e2e/worker":  {"web/e2e/browser", "web/serve/..."},
	"web/e2e/bench":   {"wasm/weights"},
	"web/e2e/benchui": {"web/e2e/browser", "web/serve/...", "app/stories"},
	// The laboratory may use everything but the page.
	"web/lab/...": {"wasm/...", "cache/...", "web/lab/...", "shaders", "app/stories", "app/state", "app/text"},
}

// outside lists who may import which module that is not ours. Everything else is the standard library's business.
var outside = map[string][]string{
	"github.com/maxence-charriere/go-app/": {"app", "app/ui", "web/gen"},
	"github.com/chromedp/":                 {"web/e2e", "web/e2e/browser", "web/e2e/worker", "web/e2e/benchui"},
	"github.com/cogentcore/webgpu/":        {"wasm/gpu"},
	"github.com/klauspost/compress/":       {"cache/codec"},
}

// The packages that may use unsafe.
var mayUseUnsafe = []string{"wasm/gpu", "wasm/quant", "wasm/simd"}

// listed is what `go list` says of a package.
type listed struct {
	ImportPath, Dir                    string
	GoFiles, TestGoFiles, XTestGoFiles []string
	Imports, TestImports, XTestImports []string
}

func list(t *testing.T, env ...string) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Dir,GoFiles,TestGoFiles,XTestGoFiles,Imports,TestImports,XTestImports",
		module+"...")
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %v: %v", env, err)
	}
	var packages []listed
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}

func TestImports(t *testing.T) {
	checked := 0
	for _, env := range [][]string{{"GOOS=linux", "GOARCH=amd64"}, {"GOOS=js", "GOARCH=wasm"}} {
		for _, p := range list(t, env...) {
			checked++
			for _, complaint := range judge(p) {
				t.Errorf("%s: %s", env[0], complaint)
			}
		}
	}
	if checked < 20 {
		t.Errorf("only %d packages were checked", checked)
	}
}

// judge lists what a package imports against the rules.
func judge(p listed) []string {
	name := strings.TrimPrefix(p.ImportPath, module)
	allowed, known := rulesOf(name)
	if !known {
		return []string{name + " is not in the table of import rules"}
	}
	var out []string
	for _, imported := range p.Imports {
		if reason := forbidden(name, imported, allowed); reason != "" {
			out = append(out, name+" imports "+imported+": "+reason)
		}
	}
	// Tests may also look into the oracle vectors, and their own package's neighbours are theirs to use.
	for _, imported := range slices.Concat(p.TestImports, p.XTestImports) {
		inTest := slices.Concat(allowed, []string{name, "web/lab/golden"}, testMayImport[name])
		if reason := forbidden(name, imported, inTest); reason != "" && imported != "unsafe" && imported != "syscall/js" {
			out = append(out, "a test of "+name+" imports "+imported+": "+reason)
		}
	}
	return out
}

// testMayImport are the edges that only tests have, each with its reason.
var testMayImport = map[string][]string{
	"wasm/simd":      {"wasm/quant"},       // the kernels work on its packed planes
	"wasm/tokenizer": {"wasm/weights"},     // vocabularies come from model files
	"wasm/chat":      {"wasm/weights"},     // so do templates
	"wasm/heads":     {"wasm/weights"},     // manifests name the weights
	"wasm/ref":       {"wasm/ref/reftest"}, // one suite for all backends
	"wasm/cpu":       {"wasm/ref/reftest"},
	"wasm/llama":     {"wasm/simd", "wasm/gpu", "wasm/tokenizer"}, // the benchmark's ceiling; devices; prose is text
	"wasm/gpu":       {"wasm/gpu/gputest"},                        // opens devices where there are any
	"wasm/kernel":    {"wasm/gpu/gputest", "wasm/ref", "wasm/ref/reftest", "wasm/sample"},
}

func rulesOf(name string) ([]string, bool) {
	if allowed, ok := mayImport[name]; ok {
		return allowed, true
	}
	for dir := name; dir != "."; dir = filepath.Dir(dir) {
		if allowed, ok := mayImport[dir+"/..."]; ok {
			return allowed, true
		}
	}
	return nil, false
}

// forbidden says why name may not import a package, or "" when it may.
func forbidden(name, imported string, allowed []string) string {
	switch {
	case imported == "unsafe":
		if !slices.Contains(mayUseUnsafe, name) {
			return "unsafe is for " + strings.Join(mayUseUnsafe, ", ")
		}
	case imported == "C":
		if name != "wasm/gpu" {
			return "cgo is for wasm/gpu"
		}
	case strings.HasPrefix(imported, module):
		if !covers(allowed, strings.TrimPrefix(imported, module)) {
			return "the table has no such edge"
		}
	case strings.Contains(strings.SplitN(imported, "/", 2)[0], "."):
		for prefix, users := range outside {
			if strings.HasPrefix(imported+"/", prefix) && slices.Contains(users, name) {
				return ""
			}
		}
		return "no rule allows this module here"
	}
	return ""
}

func covers(allowed []string, name string) bool {
	for _, a := range allowed {
		if dir, ok := strings.CutSuffix(a, "/..."); a == name || ok && (name == dir || strings.HasPrefix(name, dir+"/")) {
			return true
		}
	}
	return false
}

// TestSyscallJS keeps syscall/js in files whose name ends in _js.go, so that everything else runs without a browser.
func TestSyscallJS(t *testing.T) {
	for _, p := range list(t, "GOOS=js", "GOARCH=wasm") {
		for _, name := range slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles) {
			data, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			stem := strings.TrimSuffix(strings.TrimSuffix(name, ".go"), "_test")
			if strings.Contains(string(data), "\"syscall/js\"\n") && !strings.HasSuffix(stem, "_js") {
				t.Errorf("%s/%s imports syscall/js, but its name does not end in _js.go", p.ImportPath, name)
			}
		}
	}
}

// TestJudge shows that the rules bite.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		from, to string
		wrong    bool
	}{
		{"wasm/llama", "kvlens/wasm/step", false},
		{"wasm/llama", "kvlens/cache/policy", false},
		{"cache", "kvlens/wasm/quant", true},
		{"wasm/engine", "kvlens/app/state", true},
		{"app/ui", "kvlens/wasm/llama", true},
		{"web/lab/needle", "kvlens/app/ui", true},
		{"wasm/ref", "unsafe", true},
		{"wasm/simd", "unsafe", false},
		{"wasm/ref", "C", true},
		{"wasm/cpu", "github.com/maxence-charriere/go-app/v10/pkg/app", true},
		{"app/ui", "github.com/maxence-charriere/go-app/v10/pkg/app", false},
		{"wasm/elsewhere", "fmt", true},
	} {
		got := judge(listed{ImportPath: module + c.from, Imports: []string{c.to}})
		if wrong := len(got) > 0; wrong != c.wrong {
			t.Errorf("%s → %s: complaints %q, want some: %v", c.from, c.to, got, c.wrong)
		}
	}
}
