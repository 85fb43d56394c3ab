// Package kernel runs step programs on WebGPU. It is the Go face of the shaders: it finds memory for buffers, compiles
// the variants that a program needs, and turns operations into dispatches.
package kernel

import (
	"context"
	"fmt"

	"kvlens/shaders"
	"kvlens/wasm/gpu"
)

// Library is the compiled kernels of one device. Backends that share it compile every variant once.
type Library struct {
	dev       gpu.Device
	pipelines map[string]*pipeline
	// Plain chooses the variants without workgroup barriers, which suit software adapters, where a barrier costs more
	// than it saves. NewLibrary sets it for those.
	Plain bool
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
	return &Library{dev: dev, pipelines: map[string]*pipeline{}, Plain: dev.Info().Fallback}
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
