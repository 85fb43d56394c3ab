// Command mutate checks the tests of the shaders: it changes one token of a .wgsl file, runs the kernel tests against the
// change, and expects them to fail. What survives must be listed as equivalent, with the reason.
//
//	KVLENS_GPU=1 go run ./web/lab/mutate [-n 3] [FILE…]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"kvlens/shaders"
)

func main() {
	n := flag.Int("n", 3, "mutants of each file")
	workers := flag.Int("j", 2, "tests at a time")
	flag.Parse()
	if err := run(*n, *workers, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// verdict is what became of a mutant.
type verdict string

const (
	killed     verdict = "killed"
	survived   verdict = "SURVIVED"
	equivalent verdict = "equivalent"
	invalid    verdict = "does not compile"
)

// row is one line of the table.
type row struct {
	mutant
	verdict verdict
	by      string // the test that failed, or why the mutant is equivalent
}

func run(n, workers int, names []string) error {
	if len(names) == 0 {
		names = append(shaders.Names(), shaders.FastNames()...)
	}
	dir, err := os.MkdirTemp("", "kvlens-mutants-")
	if err != nil {
		return fmt.Errorf("mutate: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary := filepath.Join(dir, "kernel.test")
	if out, err := exec.Command("go", "test", "-c", "-o", binary, "./wasm/kernel").CombinedOutput(); err != nil {
		return fmt.Errorf("mutate: %w: %s", err, out)
	}
	t := tester{binary: binary, dir: dir}
	if v, by := t.try(mutant{file: names[0]}, nil); v != survived {
		return fmt.Errorf("mutate: the tests fail without any change: %s", by)
	}
	rows := make([][]row, len(names))
	failed := make([]error, len(names))
	var wait sync.WaitGroup
	slots := make(chan struct{}, workers)
	for i, name := range names {
		wait.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			rows[i], failed[i] = t.file(name, n)
		})
	}
	wait.Wait()
	return errors.Join(append(failed, report(slices.Concat(rows...)))...)
}

func report(rows []row) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	count := map[verdict]int{}
	for _, r := range rows {
		count[r.verdict]++
		_, _ = fmt.Fprintf(w, "%s:%d\t%s → %s\t%s\t%s\n", r.file, r.line, r.from, r.to, r.verdict, r.by)
	}
	_ = w.Flush()
	fmt.Printf("%d mutants: %d killed, %d equivalent, %d survived\n", len(rows), count[killed], count[equivalent], count[survived])
	if count[survived] > 0 {
		return fmt.Errorf("mutate: %d mutants survived", count[survived])
	}
	return nil
}

// tester runs the compiled tests of the kernels.
type tester struct {
	binary, dir string
}

// file tries n mutants of a file.
func (t *tester) file(name string, n int) ([]row, error) {
	text, err := shaders.Text(name)
	if err != nil {
		return nil, fmt.Errorf("mutate: %w", err)
	}
	var rows []row
	all := mutants(name, string(text))
	for _, m := range order(all) {
		if len(rows) == n {
			break
		}
		if why, ok := equivalents[m.key()]; ok {
			rows = append(rows, row{m, equivalent, why})
			continue
		}
		v, by := t.try(m, text)
		if v == invalid {
			continue
		}
		rows = append(rows, row{m, v, by})
		fmt.Fprintf(os.Stderr, "%s %s %s\n", m.key(), v, by)
	}
	if len(rows) < n && !strings.HasPrefix(name, "lib/") { // what a kernel includes may be a line
		return rows, fmt.Errorf("mutate: %s: only %d of %d mutants compile", name, len(rows), n)
	}
	return rows, nil
}

// suites are tried in this order: the quick ones first. No native compiler takes the files of folder fast, whose tests
// run in Chromium.
var (
	suites     = []string{"TestSelection$", "TestScoring", "TestAttend$", "TestRecipes$|TestKeys|TestView", "TestGolden", "TestSelfTest$", "TestStepper", "TestLargeLogits", "TestPlain", "TestLanes", "TestLimits"}
	fastSuites = []string{"TestFastSelfTest$", "TestSubgroups$"}
)

// command runs one suite.
func (t *tester) command(ctx context.Context, file, suite string) *exec.Cmd {
	if strings.HasPrefix(file, "fast/") {
		return exec.CommandContext(ctx, "go", "run", "./web/e2e/worker", "-webgpu", "-run", suite, "./wasm/kernel")
	}
	return exec.CommandContext(ctx, t.binary, "-test.failfast", "-test.run", suite)
}

// try runs the tests against a mutant, and says which one noticed.
func (t *tester) try(m mutant, text []byte) (verdict, string) {
	env := os.Environ()
	if text != nil {
		path := filepath.Join(t.dir, fmt.Sprintf("%s-%d.wgsl", strings.ReplaceAll(m.file, "/", "-"), m.at))
		if err := os.WriteFile(path, m.apply(text), 0o600); err != nil {
			return survived, err.Error()
		}
		// The folder on its own lets a worker in Chromium read it.
		env = append(env, "KVLENS_MUTANT="+m.file+"="+path, "KVLENS_MUTANTS="+t.dir)
	}
	tests := suites
	if strings.HasPrefix(m.file, "fast/") {
		tests = fastSuites
	}
	for _, suite := range tests {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		cmd := t.command(ctx, m.file, suite)
		cmd.Env = env
		out, err := cmd.CombinedOutput()
		late := ctx.Err() != nil
		cancel()
		switch {
		case err == nil:
			continue
		case strings.Contains(string(out), "gpu: shader: ") || strings.Contains(string(out), "shaders: "):
			return invalid, suite
		case late:
			return killed, strings.TrimSuffix(suite, "$") + ", which did not end"
		}
		return killed, strings.TrimSuffix(suite, "$")
	}
	return survived, ""
}
