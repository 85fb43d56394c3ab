package kernel_test

import (
	"context"
	"testing"

	"kvlens/shaders"
	"kvlens/wasm/gpu"
	"kvlens/wasm/gpu/gputest"
)

// Every variant of every kernel compiles.
func TestVariants(t *testing.T) {
	dev := gputest.Open(t)
	for _, k := range shaders.Kernels {
		for _, v := range k.Variants() {
			s, err := shaders.Assemble(v, nil)
			if err != nil {
				t.Fatal(err)
			}
			sh := gpu.Shader{Label: v.Label(), Code: s.Code, Entry: shaders.Entry}
			for _, b := range s.Bindings {
				sh.Bindings = append(sh.Bindings, gpu.Access(b.Access))
			}
			if _, err := dev.Pipelines(context.Background(), []gpu.Shader{sh}, nil); err != nil {
				t.Errorf("%s: %v", v.Label(), err)
				break
			}
		}
	}
}
