//go:build !js

package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
)

// webGPU is the module that reaches the adapter, and noisy are those of its files that log. Nobody reads the engine's log,
// and the two packages for it are 21 kB after gzip.
const webGPU = "github.com/cogentcore/webgpu"

var (
	noisy   = []string{"jsx/jsx.go", "wgpu/instance_js.go"}
	loggers = []string{"log", "log/slog"}
)

// quiet is a Go file without what it logs.
func quiet(path string) ([]byte, error) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, path, nil, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GenDecl:
			n.Specs = slices.DeleteFunc(n.Specs, func(s ast.Spec) bool {
				i, ok := s.(*ast.ImportSpec)
				if !ok {
					return false
				}
				path, _ := strconv.Unquote(i.Path.Value)
				if !slices.Contains(loggers, path) {
					return false
				}
				names[path[max(0, len(path)-len("slog")):]] = true
				return true
			})
		case *ast.BlockStmt:
			n.List = slices.DeleteFunc(n.List, func(s ast.Stmt) bool {
				x, ok := s.(*ast.ExprStmt)
				if !ok {
					return false
				}
				call, ok := x.X.(*ast.CallExpr)
				if !ok {
					return false
				}
				sel, ok := call.Fun.(*ast.SelectorExpr)
				if !ok {
					return false
				}
				of, ok := sel.X.(*ast.Ident)
				return ok && names[of.Name]
			})
		}
		return true
	})
	if len(names) == 0 {
		return nil, fmt.Errorf("%s logs nothing", path)
	}
	var b bytes.Buffer
	err = format.Node(&b, set, f)
	return b.Bytes(), err
}
