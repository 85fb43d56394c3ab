//go:build !js && cgo

package gpu

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cogentcore/webgpu/wgpu"
)

// native drives wgpu-native. Which Vulkan driver it finds is the environment's choice (VK_ICD_FILENAMES). A device that is
// lost while it works ends the process there: the library has no way to tell.
type native struct {
	inst  *wgpu.Instance
	adapt *wgpu.Adapter
	dev   *wgpu.Device
	queue *wgpu.Queue

	buffers    map[Buffer]*wgpu.Buffer
	layouts    map[string]layout
	pipelines  map[Pipeline]compiled
	groups     map[Group]*wgpu.BindGroup
	recordings map[Recording]recorded

	stages [ring]stage
	head   int // the stage that the next replay takes
	tail   int // the stage of the oldest replay in flight
}

type layout struct {
	group *wgpu.BindGroupLayout
	pipe  *wgpu.PipelineLayout
}

type compiled struct {
	pipe   *wgpu.ComputePipeline
	layout *wgpu.BindGroupLayout
}

type recorded struct {
	list []Dispatch
	read Binding
}

// stage is a staging buffer and the submission that fills it.
type stage struct {
	buf *wgpu.Buffer
	at  wgpu.SubmissionIndex
}

// pick takes the adapter that promises most. OpenGL adapters are left alone: those of two instances end each other.
func (n *native) pick() (best *wgpu.Adapter) {
	order := []wgpu.AdapterType{wgpu.AdapterTypeCPU, wgpu.AdapterTypeUnknown, wgpu.AdapterTypeIntegratedGPU, wgpu.AdapterTypeDiscreteGPU}
	rank := func(a *wgpu.Adapter) int { return slices.Index(order, a.GetInfo().AdapterType) }
	kinds := wgpu.InstanceBackendVulkan | wgpu.InstanceBackendMetal | wgpu.InstanceBackendDX12
	for _, a := range n.inst.EnumerateAdapters(&wgpu.InstanceEnumerateAdapterOptons{Backends: kinds}) {
		switch {
		case best == nil:
			best = a
		case rank(a) > rank(best):
			best.Release()
			best = a
		default:
			a.Release()
		}
	}
	return best
}

// Open opens the best adapter that there is. The error is an *AbsentError.
func Open(_ context.Context, o Options) (d Device, err error) {
	wgpu.SetLogLevel(wgpu.LogLevelOff) // what it logs, it also returns
	n := &native{
		inst:    wgpu.CreateInstance(nil), // a descriptor would be read from memory that nobody set
		buffers: map[Buffer]*wgpu.Buffer{}, layouts: map[string]layout{}, pipelines: map[Pipeline]compiled{},
		groups: map[Group]*wgpu.BindGroup{}, recordings: map[Recording]recorded{},
	}
	defer func() {
		if err != nil {
			n.close()
		}
	}()
	if n.adapt = n.pick(); n.adapt == nil {
		return nil, &AbsentError{Reason: NoAdapter}
	}
	about := n.adapt.GetInfo()
	info := Info{
		Adapter:  strings.Join(strings.Fields(about.VendorName+" "+about.Architecture+" "+about.Name+" "+about.DriverDescription), " "),
		Fallback: about.AdapterType == wgpu.AdapterTypeCPU,
	}
	if info.Fallback && !o.Fallback {
		return nil, &AbsentError{Reason: Software, Adapter: info.Adapter}
	}
	var desc *wgpu.DeviceDescriptor // nil asks for the minimum
	if !o.Minimal {
		limits := n.adapt.GetLimits().Limits
		limits.MaxPushConstantSize = 0 // needs a feature
		desc = &wgpu.DeviceDescriptor{RequiredLimits: &wgpu.RequiredLimits{Limits: limits}}
	}
	if n.dev, err = n.adapt.RequestDevice(desc); err != nil {
		n.dev = nil
		return nil, &AbsentError{Reason: NoDevice, Adapter: info.Adapter, Err: err}
	}
	n.queue = n.dev.GetQueue()
	l := n.dev.GetLimits().Limits
	info.Limits = Limits{
		MaxBuffer: int64(l.MaxBufferSize), MaxBinding: int64(l.MaxStorageBufferBindingSize),
		WorkgroupMemory: int(l.MaxComputeWorkgroupStorageSize), Invocations: int(l.MaxComputeInvocationsPerWorkgroup),
		StorageBuffers: int(l.MaxStorageBuffersPerShaderStage), Workgroups: int(l.MaxComputeWorkgroupsPerDimension),
		OffsetAlign: int(max(l.MinStorageBufferOffsetAlignment, l.MinUniformBufferOffsetAlignment)),
	}
	return newDevice(n, info, newLoss()), nil
}

// use makes a *UseError of the library's error.
func use(op string, err error) error {
	if err == nil {
		return nil
	}
	return &UseError{Op: op, Msg: err.Error()}
}

func (n *native) newBuffer(b Buffer, label string, size int64) error {
	made, err := n.dev.CreateBuffer(&wgpu.BufferDescriptor{
		Label: label, Size: uint64(size),
		Usage: wgpu.BufferUsageStorage | wgpu.BufferUsageUniform | wgpu.BufferUsageCopySrc | wgpu.BufferUsageCopyDst,
	})
	if err != nil {
		return &MemoryError{Label: label, Size: size, Msg: err.Error()}
	}
	n.buffers[b] = made
	return nil
}

func (n *native) write(b Buffer, off int64, p []byte) error {
	return use("write", n.queue.WriteBuffer(n.buffers[b], uint64(off), p))
}

func (n *native) copyBuffer(dst Buffer, dstOff int64, src Buffer, srcOff, size int64) error {
	_, err := n.submit("copy", func(e *wgpu.CommandEncoder) error {
		return e.CopyBufferToBuffer(n.buffers[src], uint64(srcOff), n.buffers[dst], uint64(dstOff), uint64(size))
	})
	return err
}

func (n *native) destroy(b Buffer) {
	n.buffers[b].Destroy()
	n.buffers[b].Release()
	delete(n.buffers, b)
}

func (n *native) bind(g Group, p Pipeline, bindings []Binding) error {
	entries := make([]wgpu.BindGroupEntry, len(bindings))
	for i, b := range bindings {
		entries[i] = wgpu.BindGroupEntry{Binding: uint32(i), Buffer: n.buffers[b.Buf], Offset: uint64(b.Off), Size: uint64(b.Size)}
	}
	made, err := n.dev.CreateBindGroup(&wgpu.BindGroupDescriptor{Layout: n.pipelines[p].layout, Entries: entries})
	if err != nil {
		return use("bind", err)
	}
	n.groups[g] = made
	return nil
}

func (n *native) unbind(g Group) {
	n.groups[g].Release()
	delete(n.groups, g)
}

// compile is synchronous here: the library has no other way.
func (n *native) compile(ctx context.Context, first Pipeline, shaders []Shader, progress func(done, total int)) (err error) {
	made := make([]compiled, 0, len(shaders))
	defer func() {
		if err != nil {
			for _, c := range made {
				c.pipe.Release()
			}
		}
	}()
	for i, s := range shaders {
		if err := ctx.Err(); err != nil {
			return err
		}
		c, err := n.compileOne(s)
		if err != nil {
			return err
		}
		made = append(made, c)
		progress(i+1, len(shaders))
	}
	for i, c := range made {
		n.pipelines[first+Pipeline(i)] = c
	}
	return nil
}

func (n *native) compileOne(s Shader) (compiled, error) {
	l, err := n.layout(s.Bindings)
	if err != nil {
		return compiled{}, err
	}
	module, err := n.dev.CreateShaderModule(&wgpu.ShaderModuleDescriptor{
		Label: s.Label, WGSLDescriptor: &wgpu.ShaderModuleWGSLDescriptor{Code: s.Code},
	})
	if err != nil {
		return compiled{}, shaderError(s.Label, err)
	}
	defer module.Release()
	pipe, err := n.dev.CreateComputePipeline(&wgpu.ComputePipelineDescriptor{
		Label: s.Label, Layout: l.pipe, Compute: wgpu.ProgrammableStageDescriptor{Module: module, EntryPoint: s.Entry},
	})
	if err != nil {
		return compiled{}, shaderError(s.Label, err)
	}
	return compiled{pipe, l.group}, nil
}

// place is how the shader compiler names a line and a column.
var place = regexp.MustCompile(`wgsl:(\d+):(\d+)`)

func shaderError(label string, err error) error {
	e := &ShaderError{Label: label, Msg: err.Error()}
	if m := place.FindStringSubmatch(e.Msg); m != nil {
		e.Line, _ = strconv.Atoi(m[1])
		e.Column, _ = strconv.Atoi(m[2])
	}
	return e
}

func (n *native) layout(list []Access) (layout, error) {
	key := accesses(list)
	if l, ok := n.layouts[key]; ok {
		return l, nil
	}
	entries := make([]wgpu.BindGroupLayoutEntry, len(list))
	for i, a := range list {
		entries[i] = wgpu.BindGroupLayoutEntry{
			Binding: uint32(i), Visibility: wgpu.ShaderStageCompute, Buffer: wgpu.BufferBindingLayout{Type: bindingTypes[a]},
		}
	}
	g, err := n.dev.CreateBindGroupLayout(&wgpu.BindGroupLayoutDescriptor{Entries: entries})
	if err != nil {
		return layout{}, use("layout", err)
	}
	p, err := n.dev.CreatePipelineLayout(&wgpu.PipelineLayoutDescriptor{BindGroupLayouts: []*wgpu.BindGroupLayout{g}})
	if err != nil {
		g.Release()
		return layout{}, use("layout", err)
	}
	n.layouts[key] = layout{g, p}
	return n.layouts[key], nil
}

var errUnmapped = errors.New("the buffer was not mapped")

func (n *native) close() {
	for b := range n.buffers {
		n.destroy(b)
	}
	for g := range n.groups {
		n.unbind(g)
	}
	for _, c := range n.pipelines {
		c.pipe.Release()
	}
	clear(n.pipelines)
	for _, l := range n.layouts {
		l.pipe.Release()
		l.group.Release()
	}
	clear(n.layouts)
	for i, s := range n.stages {
		if s.buf != nil {
			s.buf.Destroy()
			s.buf.Release()
			n.stages[i].buf = nil
		}
	}
	if n.queue != nil {
		n.queue.Release()
		n.dev.Release()
	}
	if n.adapt != nil {
		n.adapt.Release()
	}
	if n.inst != nil {
		n.inst.Release()
	}
	n.queue, n.dev, n.adapt, n.inst = nil, nil, nil, nil
}
