//go:build !js

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

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
	overlay, err := bareShaders(dir)
	if err != nil {
		return err
	}
	for _, p := range programs {
		err := goTool("build", "-trimpath", "-buildvcs=false", "-overlay", overlay, "-ldflags", "-s -w -X main.build="+build,
			"-o", filepath.Join(s.dir, p.out), p.pkg)
		if err != nil {
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

// goTool runs the go command for js/wasm, with its messages on stderr.
func goTool(args ...string) error {
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm", "CGO_ENABLED=0")
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
	cmd.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm", "CGO_ENABLED=0")
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
