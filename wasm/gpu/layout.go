//go:build js || cgo

package gpu

import "github.com/cogentcore/webgpu/wgpu"

// bindingTypes are WebGPU's names of the accesses.
var bindingTypes = [...]wgpu.BufferBindingType{
	Uniform: wgpu.BufferBindingTypeUniform, Read: wgpu.BufferBindingTypeReadOnlyStorage, ReadWrite: wgpu.BufferBindingTypeStorage,
}
