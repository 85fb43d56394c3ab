//go:build !js

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// cold are the packages that are compiled without inlining: what they do is rare or waits for something slower. That
// takes about 50 kB off the engine and 25 kB off the page, after gzip.
var cold = []string{
	"bufio", "compress/...", "context", "crypto/...", "encoding/...", "fmt", "hash/...", "html", "internal/bisect",
	"internal/fmtsort", "internal/godebug", "internal/poll", "internal/reflectlite", "internal/strconv", "io/...", "log/...",
	"math/big", "mime/...", "net/...", "os/...", "path/...", "reflect", "regexp/...", "sort", "strconv", "syscall", "time",
	"unique", "vendor/...", "github.com/cogentcore/webgpu/...",
	"kvlens/app/engineclient", "kvlens/app/stories", "kvlens/app/text", "kvlens/app/ui", "kvlens/cache/policy", "kvlens/shaders",
	"kvlens/wasm/chat", "kvlens/wasm/engine/...", "kvlens/wasm/gpu", "kvlens/wasm/heads", "kvlens/wasm/jsutil",
	"kvlens/wasm/kernel", "kvlens/wasm/llama", "kvlens/wasm/proto",
}

// The two programs. They share one build string, which they compare in their first packet. The budget is in bytes
// after gzip, which is what a first visit waits for.
var programs = []struct {
	pkg, out string
	budget   int
}{
	{"./app", "web/app.wasm", 2_500_000},
	{"./wasm/engine", "web/engine.wasm", 1_800_000},
}

func (s *site) compile() error {
	build, err := sourceHash()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "kvlens-gen-")
	if err != nil {
		return fmt.Errorf("compiling: %w", err)
	}
	defer os.RemoveAll(dir)
	replace, err := bareShaders(dir)
	if err != nil {
		return err
	}
	modfile, lean, err := leanModules(dir)
	if err != nil {
		return err
	}
	maps.Copy(replace, lean)
	overlay, err := writeOverlay(dir, replace)
	if err != nil {
		return err
	}
	lines, err := flatSources(dir, replace, "-modfile", modfile, "-overlay", overlay)
	if err != nil {
		return err
	}
	maps.Copy(replace, lines)
	if overlay, err = writeOverlay(dir, replace); err != nil {
		return err
	}
	args := []string{"build", "-trimpath", "-buildvcs=false", "-modfile", modfile, "-overlay", overlay, "-ldflags", "-s -w -X main.build=" + build}
	for _, pkg := range cold {
		args = append(args, "-gcflags="+pkg+"=-l")
	}
	for _, p := range programs {
		if err := goTool(slices.Concat(args, []string{"-o", filepath.Join(s.dir, p.out), p.pkg})...); err != nil {
			return fmt.Errorf("compiling %s: %w", p.pkg, err)
		}
	}
	return nil
}

// goroot is the folder of the toolchain on the path.
func goroot() (string, error) {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOROOT: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// forBrowser is the environment in which the go command works for js/wasm.
func forBrowser() []string { return append(os.Environ(), "GOOS=js", "GOARCH=wasm", "CGO_ENABLED=0") }

// goTool runs the go command for js/wasm, with its messages on stderr.
func goTool(args ...string) error {
	cmd := exec.Command("go", args...)
	cmd.Env = forBrowser()
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return cmd.Run()
}

// sourceHash is a hash of everything that goes into the two programs: their Go files, embedded files, dependencies and
// the toolchain. Equal sources give equal builds, whatever the state of the repository.
func sourceHash() (string, error) {
	args := []string{"list", "-deps", "-json=ImportPath,Dir,Standard,GoFiles,EmbedFiles"}
	for _, p := range programs {
		args = append(args, p.pkg)
	}
	cmd := exec.Command("go", args...)
	cmd.Env = forBrowser()
	cmd.Stderr = os.Stderr
	listing, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("listing sources: %w", err)
	}
	sum := sha256.New()
	io.WriteString(sum, runtime.Version())
	for dec := json.NewDecoder(strings.NewReader(string(listing))); ; {
		var pkg struct {
			ImportPath, Dir     string
			Standard            bool
			GoFiles, EmbedFiles []string
		}
		if err := dec.Decode(&pkg); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return "", fmt.Errorf("listing sources: %w", err)
		}
		if pkg.Standard {
			continue
		}
		for _, name := range slices.Concat(pkg.GoFiles, pkg.EmbedFiles) {
			data, err := os.ReadFile(filepath.Join(pkg.Dir, name))
			if err != nil {
				return "", err
			}
			fmt.Fprintf(sum, "%s/%s %d\n", pkg.ImportPath, name, len(data))
			sum.Write(data)
		}
	}
	return hex.EncodeToString(sum.Sum(nil))[:16], nil
}
