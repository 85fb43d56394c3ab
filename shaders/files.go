package shaders

import (
	"embed"
	"io/fs"
)

// The site's generator puts a table of the same texts, without comments, in the place of this file.
//
//go:embed *.wgsl lib/*.wgsl fast/*.wgsl
var files embed.FS

// Text gives the text of a file.
func Text(name string) ([]byte, error) { return files.ReadFile(name) }

// FastNames lists the files of folder fast.
func FastNames() []string {
	names, _ := fs.Glob(files, "fast/*.wgsl")
	return names
}

// Names lists all other files.
func Names() []string {
	kernels, _ := fs.Glob(files, "*.wgsl")
	parts, _ := fs.Glob(files, "lib/*.wgsl")
	return append(kernels, parts...)
}
