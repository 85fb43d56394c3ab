//go:build !js

package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// goApp is the module that renders the page, in the browser and here.
const goApp = "github.com/maxence-charriere/go-app/v10"

// Of go-app's files, server holds only what answers HTTP requests, and addresses also what the browser needs: the functions
// named here. Both import net/http, and with it TLS and every cipher: a sixth of the page's program, which no browser runs.
const (
	server    = "pkg/app/http.go"
	addresses = "pkg/app/resource.go"
)

var addressing = []string{"clientResourceResolver", "remoteLocation", "webLocation"}

// leanPlace is where the compiler finds the modules in their lean form. No such folder exists: an overlay puts files there,
// so that the path, which the compiler notes in the program, is the same on every machine.
const leanPlace = ".lean"

// leanModules writes a go.mod into a folder that puts a go-app without its server and a webgpu that logs nothing in the place
// of the originals, and tells where the compiler is to take their files from.
func leanModules(dir string) (modfile string, replace map[string]string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("lean modules: %w", err)
		}
	}()
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		return "", nil, err
	}
	sum, err := os.ReadFile("go.sum")
	if err != nil {
		return "", nil, err
	}
	replace = map[string]string{}
	for _, m := range []struct {
		module  string
		without string
		files   []string
		lean    func(path string) ([]byte, error)
	}{
		{goApp, server, []string{addresses}, func(path string) ([]byte, error) { return only(path, addressing) }},
		{webGPU, "", noisy, quiet},
	} {
		out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", m.module).Output()
		if err != nil {
			return "", nil, err
		}
		from := strings.TrimSpace(string(out))
		place := leanPlace + "/" + path.Base(path.Dir(m.module)) + "-" + path.Base(m.module)
		to, err := filepath.Abs(filepath.FromSlash(place))
		if err != nil {
			return "", nil, err
		}
		files, err := goFiles(to, from, m.without)
		if err != nil {
			return "", nil, err
		}
		maps.Copy(replace, files)
		for _, name := range m.files {
			text, err := m.lean(filepath.Join(from, filepath.FromSlash(name)))
			if err != nil {
				return "", nil, err
			}
			file := filepath.Join(dir, path.Base(m.module)+"-"+path.Base(name))
			replace[filepath.Join(to, filepath.FromSlash(name))] = file
			if err := os.WriteFile(file, text, 0o644); err != nil {
				return "", nil, err
			}
		}
		mod = fmt.Appendf(mod, "\nreplace %s => ./%s\n", m.module, place)
	}
	modfile = filepath.Join(dir, "lean.mod")
	return modfile, replace, errors.Join(os.WriteFile(modfile, mod, 0o644), os.WriteFile(filepath.Join(dir, "lean.sum"), sum, 0o644))
}

// goFiles are the files of a module that the compiler reads, without one, by the paths where it is to find them.
func goFiles(to, from, without string) (map[string]string, error) {
	files, left := map[string]string{}, 0
	err := fs.WalkDir(os.DirFS(from), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path == without:
			left++
		case !d.IsDir() && (filepath.Ext(path) == ".go" && !strings.HasSuffix(path, "_test.go") || path == "go.mod"):
			files[filepath.Join(to, filepath.FromSlash(path))] = filepath.Join(from, filepath.FromSlash(path))
		}
		return nil
	})
	if err == nil && without != "" && left != 1 {
		err = fmt.Errorf("there is no %s", without)
	}
	return files, err
}

// only is a Go file with nothing but some of its functions, and the type that the rest of the package knows of the server.
func only(path string, functions []string) ([]byte, error) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, path, nil, 0)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "package %s\n\nimport \"strings\"\n\n// Handler is the server's.\ntype Handler struct{}\n", f.Name.Name)
	found := 0
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && slices.Contains(functions, fn.Name.Name) {
			found++
			b.WriteString("\n")
			if err := format.Node(&b, set, fn); err != nil {
				return nil, err
			}
			b.WriteString("\n")
		}
	}
	if found != len(functions) {
		return nil, fmt.Errorf("%s has %d of the functions %v", addresses, found, functions)
	}
	return b.Bytes(), nil
}
