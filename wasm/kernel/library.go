// Package kernel runs step programs on WebGPU. It is the Go face of the shaders: it finds memory for buffers, compiles
// the variants that a program needs, and turns operations into dispatches.
package kernel

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"kvlens/shaders"
	"kvlens/wasm/gpu"
	"kvlens/wasm/quant"
)

// Library is the compiled kernels of one device. Backends that share it compile every variant once.
type Library struct {
	dev       gpu.Device
	pipelines map[string]*pipeline
	// Plain chooses the variants without workgroup barriers, which suit software adapters, where a barrier costs more
	// than it saves. NewLibrary sets it for those.
	Plain bool
	// Subgroups chooses the products that add up within subgroups. NewLibrary sets it where the device has them.
	Subgroups bool
	// Integer chooses, for weights of 4 and 8 bits, the products of bytes, for which activations are rounded to 8 bits
	// too. It is never set but by AskInteger: what it gives is close, but not what the reference gives, and it saves
	// arithmetic where decode waits for memory.
	Integer bool
	// Refused is why what Subgroups or Integer chose is not used: the device cannot, or the self-test failed.
	Refused error
	// Source gives the texts of shaders, by file name, where others than the embedded ones are to be tried.
	Source func(name string) ([]byte, error)
	// Progress hears of every compiled pipeline; it may be nil.
	Progress func(done, total int)
}

// pipeline is a compiled variant.
type pipeline struct {
	id       gpu.Pipeline
	bindings []shaders.Binding
}

// NewLibrary makes an empty library.
func NewLibrary(dev gpu.Device) *Library {
	l := &Library{dev: dev, pipelines: map[string]*pipeline{}, Plain: dev.Info().Fallback}
	l.Subgroups = l.has(fastSubgroups)
	return l
}

// Products that need a feature.
const (
	fastSubgroups = "fast/product_subgroups"
	fastInteger   = "fast/product_dot"
)

func (l *Library) has(file string) bool {
	i := slices.IndexFunc(shaders.Fast, func(f shaders.FastProduct) bool { return f.File == file })
	return slices.Contains(l.dev.Info().Features, shaders.Fast[i].Feature)
}

// AskInteger sets Integer where the device can do what it chooses, or else Refused.
func (l *Library) AskInteger() {
	if l.Integer = l.has(fastInteger); !l.Integer {
		l.Refused = errors.New("the device has no dot products of bytes")
	}
}

// product is the included file that multiplies by weights of a layout, and how many threads share a row in it.
func (l *Library) product(layout quant.Layout) (file string, lanes int) {
	switch {
	case l.Integer && layout >= quant.Layout4:
		return fastInteger, 4
	case l.Plain:
		return "lib/product", 1
	case l.Subgroups:
		return fastSubgroups, 16
	}
	return "lib/product_lanes", 16
}

// products says in words how the kernels multiply, where that is not the baseline.
func (l *Library) products() string {
	switch {
	case l.Refused != nil:
		return "without faster kernels: " + l.Refused.Error()
	case l.Integer:
		return "activations in 8 bits"
	case l.Subgroups && !l.Plain:
		return "subgroups"
	}
	return ""
}

// compile compiles the variants that are not there yet, all in one go. The error of a shader is a *gpu.ShaderError.
func (l *Library) compile(variants ...shaders.Variant) error {
	var labels []string
	var list []gpu.Shader
	missing := map[string]*pipeline{}
	for _, v := range variants {
		label := v.Label()
		if l.pipelines[label] != nil || missing[label] != nil {
			continue
		}
		s, err := shaders.Assemble(v, l.Source)
		if err != nil {
			return fmt.Errorf("webgpu: %w", err)
		}
		g := gpu.Shader{Label: label, Code: s.Code, Entry: shaders.Entry}
		for _, b := range s.Bindings {
			g.Bindings = append(g.Bindings, gpu.Access(b.Access))
		}
		missing[label] = &pipeline{bindings: s.Bindings}
		labels, list = append(labels, label), append(list, g)
	}
	if len(list) == 0 {
		return nil
	}
	made, err := l.dev.Pipelines(context.Background(), list, l.Progress)
	if err != nil {
		return fmt.Errorf("webgpu: %w", err)
	}
	for i, label := range labels {
		missing[label].id = made[i]
		l.pipelines[label] = missing[label]
	}
	return nil
}

// get is the compiled variant.
func (l *Library) get(v shaders.Variant) (*pipeline, error) {
	if err := l.compile(v); err != nil {
		return nil, err
	}
	return l.pipelines[v.Label()], nil
}
