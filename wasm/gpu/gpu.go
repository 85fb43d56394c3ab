// Package gpu is the WebGPU device: in the browser, natively on Vulkan (cgo), or absent. It knows buffers, pipelines and
// dispatches, nothing of models. It is the only importer of cogentcore/webgpu.
package gpu

import (
	"context"
	"time"
)

// Buffer, Pipeline, Group and Recording are handles into the device's tables; 0 is none.
type (
	Buffer    int32
	Pipeline  int32
	Group     int32
	Recording int32
)

// Access is how a shader uses one binding; bindings are numbered 0… in group 0.
type Access uint8

const (
	Uniform   Access = iota // var<uniform>
	Read                    // var<storage, read>
	ReadWrite               // var<storage, read_write>
)

// Shader is one compute pipeline: WGSL code with its constants already patched in.
type Shader struct {
	Label    string // file and variant, for messages
	Code     string
	Entry    string
	Bindings []Access
}

// Binding is a part of a buffer; Size 0 means to the end. Off is a multiple of Limits.OffsetAlign.
type Binding struct {
	Buf       Buffer
	Off, Size int64
}

// Dispatch is one kernel launch over X × Y × Z workgroups.
type Dispatch struct {
	Pipeline Pipeline
	Group    Group
	X, Y, Z  uint32
}

// Info describes the adapter and what the device was given.
type Info struct {
	Adapter  string   // vendor, architecture, description, as far as the platform tells
	Fallback bool     // a software adapter
	Features []string // of the device and of its shading language, by the specification's names
	// SubgroupMin and SubgroupMax bound the size of a subgroup; 0 where the platform does not say.
	SubgroupMin, SubgroupMax int
	Limits                   Limits
}

// Limits are the device's, in the units of the specification.
type Limits struct {
	MaxBuffer, MaxBinding        int64 // bytes
	WorkgroupMemory, Invocations int
	StorageBuffers, Workgroups   int // per stage; per dimension
	OffsetAlign                  int
}

// Device is an open device. It is used from one goroutine. Every error is typed: *AbsentError, *LimitError, *ShaderError,
// *MemoryError, *LostError or *UseError (a defect of ours, with WebGPU's own message).
type Device interface {
	Info() Info
	// NewBuffer makes zeroed memory, readable and writable by shaders and copies. It waits for the error scope: an
	// allocation that fails is a *MemoryError, and nothing stays allocated.
	NewBuffer(label string, size int64) (Buffer, error)
	// Write copies p (length and off multiples of 4) into b, in queue order.
	Write(b Buffer, off int64, p []byte) error
	// Copy copies n bytes between buffers, in queue order.
	Copy(dst Buffer, dstOff int64, src Buffer, srcOff, n int64) error
	// Read waits for all submitted work and copies n bytes out. For set-up, tests and views, not for tokens.
	Read(b Buffer, off int64, dst []byte) error
	// Destroy frees b, and with it every group that binds it.
	Destroy(b Buffer)
	// Pipelines compiles shaders asynchronously where the platform can, with progress; on failure none is kept.
	Pipelines(ctx context.Context, shaders []Shader, progress func(done, total int)) ([]Pipeline, error)
	// Bind makes a group for p and for every pipeline with the same list of accesses. One buffer cannot be both read and
	// written by a group, and the parts that it writes cannot overlap. A group lives as long as its buffers.
	Bind(p Pipeline, bindings []Binding) (Group, error)
	// Run encodes and submits dispatches once. Each dispatch sees what those before it wrote.
	Run(d []Dispatch) error
	// Record keeps a list of dispatches, followed by copying read (at most 64 bytes) to a ring of 4 staging buffers;
	// Replay encodes and submits it by one call to JS and starts mapping; Wait gives the bytes of the oldest replay
	// that was not waited for. At most 4 replays are in flight.
	Record(d []Dispatch, read Binding) (Recording, error)
	Replay(r Recording) error
	Wait(ctx context.Context, dst []byte) error
	Forget(r Recording)
	// Live counts the buffers that the device holds and their bytes, staging buffers of the ring included.
	Live() (buffers int, bytes int64)
	// Lost is closed when the device is gone; LostReason then says why.
	Lost() <-chan struct{}
	LostReason() string
	// Abandon ends what waits for the device, as a loss does, and frees nothing. Unlike all else it may be called beside
	// other calls.
	Abandon(reason string)
	// Close destroys every buffer and the device.
	Close()
}

// Options of Open.
type Options struct {
	// Fallback accepts a software adapter.
	Fallback bool
	// Minimal asks for the specification's minimum limits instead of the adapter's: for tests.
	Minimal bool
	// Timeout is how long the platform may take to answer with an adapter, and again with a device; 0 means 10 s.
	Timeout time.Duration
}
