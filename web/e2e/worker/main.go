//go:build !js

// Command worker runs Go tests in a Web Worker of Chromium: the given packages' tests are compiled for js, served over
// loopback and run one after the other, with the SIMD module of the site and a read-only view of the repository's files.
//
//	go run ./web/e2e/worker [-run REGEXP] [-bench REGEXP] [-webgpu] [-nosimd] [-timeout 10m] [PACKAGES]
//
// Without packages it runs those that the browser's worker is made of. Temporary files are in memory there.
// The exit code is 0 if all passed. Without Chromium it prints SKIPPED and why, and fails only where CI=true.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/chromedp/chromedp"

	"kvlens/web/e2e/browser"
)

func main() {
	run := flag.String("run", "", "run only tests that match this regular expression")
	bench := flag.String("bench", "", "run the benchmarks that match")
	webgpu := flag.Bool("webgpu", false, "let the tests use WebGPU, on a software adapter (they see KVLENS_GPU=1)")
	noSIMD := flag.Bool("nosimd", false, "run as in a browser without SIMD: the module is no valid one")
	flags := flag.String("flags", "", "more flags for Chromium, separated by spaces, without dashes")
	timeout := flag.Duration("timeout", 10*time.Minute, "for each package")
	flag.Parse()

	if _, err := browser.Path(); err != nil {
		fmt.Println("SKIPPED level 2:", err)
		if os.Getenv("CI") == "true" {
			os.Exit(1)
		}
		return
	}
	args := []string{"-test.v"}
	if *run != "" {
		args = append(args, "-test.run="+*run)
	}
	if *bench != "" {
		args = append(args, "-test.bench="+*bench)
	}
	pkgs := flag.Args()
	if len(pkgs) == 0 {
		pkgs = []string{"./cache", "./wasm/..."}
	}
	more := strings.Fields(*flags)
	if *webgpu {
		more = append(more, "enable-unsafe-webgpu", "use-webgpu-adapter=swiftshader")
		_ = os.Setenv("KVLENS_GPU", "1") // fails only for impossible names
	}
	ok, err := runAll(pkgs, args, more, *noSIMD, *timeout)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// runAll compiles and runs the packages; ok is false if a test failed.
func runAll(patterns, args, flags []string, noSIMD bool, timeout time.Duration) (ok bool, err error) {
	tmp, err := os.MkdirTemp("", "kvlens-worker-")
	if err != nil {
		return false, fmt.Errorf("worker: %w", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	pkgs, err := list(patterns)
	if err != nil {
		return false, err
	}
	h, err := newHarness(args, noSIMD)
	if err != nil {
		return false, err
	}
	defer h.close()

	more := map[string]any{}
	for _, f := range flags {
		name, value, set := strings.Cut(f, "=")
		more[name] = value
		if !set {
			more[name] = true
		}
	}
	b, err := browser.Start(context.Background(), browser.Options{Flags: more})
	if err != nil {
		return false, err
	}
	defer b.Close()

	ok = true
	for i, p := range pkgs {
		bin := filepath.Join(tmp, fmt.Sprintf("%d.wasm", i))
		made, err := compile(p, bin)
		if err != nil {
			return false, err
		}
		if !made {
			continue // go test has said so
		}
		start := time.Now()
		code, err := h.run(b, p, bin, timeout)
		if err != nil {
			return false, err
		}
		verdict := "ok  "
		if code != 0 {
			verdict, ok = "FAIL", false
		}
		fmt.Printf("%s\t%s\t%.1fs\tin a Chromium worker\n", verdict, p.path, time.Since(start).Seconds())
	}
	return ok, nil
}

// pkg is a package to test.
type pkg struct{ path, dir string }

func list(patterns []string) ([]pkg, error) {
	cmd := exec.Command("go", append([]string{"list", "-f", "{{.ImportPath}}\t{{.Dir}}"}, patterns...)...)
	cmd.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("worker: go list: %w", err)
	}
	var pkgs []pkg
	for line := range strings.Lines(string(out)) {
		path, dir, _ := strings.Cut(strings.TrimSpace(line), "\t")
		pkgs = append(pkgs, pkg{path, dir})
	}
	return pkgs, nil
}

// compile builds the package's test binary for js; made is false if it has no tests there.
func compile(p pkg, bin string) (made bool, err error) {
	cmd := exec.Command("go", "test", "-c", "-ldflags=-s -w", "-o", bin, p.path)
	cmd.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return false, fmt.Errorf("worker: compile %s: %w", p.path, err)
	}
	_, err = os.Stat(bin)
	return err == nil, nil
}

// run runs one test binary and returns its exit code.
func (h *harness) run(b *browser.Browser, p pkg, bin string, timeout time.Duration) (int, error) {
	h.start(p, bin)
	if err := chromedp.Do(b.Ctx, chromedp.Navigate(h.url+"/")); err != nil {
		return 0, fmt.Errorf("worker: open the page: %w", err)
	}
	defer func() { _ = chromedp.Do(b.Ctx, chromedp.Navigate("about:blank")) }() // ends the worker
	select {
	case code := <-h.exit:
		return code, nil
	case <-time.After(timeout):
		return 0, fmt.Errorf("worker: %s: no end after %s", p.path, timeout)
	}
}
