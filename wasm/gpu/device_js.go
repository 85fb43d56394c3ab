package gpu

import (
	"context"
	"errors"
	"syscall/js"
	"unsafe"

	"github.com/cogentcore/webgpu/wgpu"

	"kvlens/wasm/jsutil"
)

// web drives the browser's device. Objects are made here, in error scopes; what happens for every token is done by the
// script gpu.js, which knows them by the same numbers.
type web struct {
	loss *loss
	ctx  context.Context // ends with the device
	dev  js.Value
	lib  wgpu.Device

	buffers map[Buffer]*wgpu.Buffer
	layouts map[string]layout
	binds   map[Pipeline]*wgpu.BindGroupLayout

	// What gpu.js offers.
	bytes                                                       js.Value // a Uint8Array, its way in
	tableOfBuffers, tableOfPipelines, tableOfGroups, recordings js.Value
	doWrite, doWriteFrom, doCopy, doRead, doCompile, doRun      js.Value
	doWrites                                                    js.Value
	doStage, doUnstage, doRecord, doReplay, doClose             js.Value

	gathered []byte // writes that wait, as gpu.js wants them: buffer, offset and length of each, and its bytes

	fault    error // an error that no scope caught, until someone is told
	heard    js.Func
	ready    js.Func
	wake     chan struct{} // a stage has changed
	stages   [ring]stage
	tail     int // the stage of the oldest replay in flight
	released bool
}

type layout struct {
	group *wgpu.BindGroupLayout
	pipe  *wgpu.PipelineLayout
}

// stage is one staging buffer of the ring.
type stage struct {
	bytes js.Value // where gpu.js leaves what came through it
	done  bool
	fault string
}

const handOver = 1 << 20 // bytes of the Uint8Array

// raw is the JavaScript object behind an object of the library, which keeps it in its only field.
func raw[T wgpu.Buffer | wgpu.BindGroup | wgpu.PipelineLayout](v *T) js.Value {
	return *(*js.Value)(unsafe.Pointer(v))
}

var (
	_ [unsafe.Sizeof(js.Value{})]byte = [unsafe.Sizeof(wgpu.Buffer{})]byte{}
	_ [unsafe.Sizeof(js.Value{})]byte = [unsafe.Sizeof(wgpu.BindGroup{})]byte{}
	_ [unsafe.Sizeof(js.Value{})]byte = [unsafe.Sizeof(wgpu.PipelineLayout{})]byte{}
)

func newWeb(dev js.Value, info Info) Device {
	ctx, cancel := context.WithCancel(context.Background())
	w := &web{
		loss: newLoss(), ctx: ctx, dev: dev, lib: wgpu.NewDevice(dev),
		buffers: map[Buffer]*wgpu.Buffer{}, layouts: map[string]layout{}, binds: map[Pipeline]*wgpu.BindGroupLayout{},
		wake: make(chan struct{}, 1),
	}
	w.ready = js.FuncOf(w.isReady)
	w.heard = js.FuncOf(w.hear)
	dev.Call("addEventListener", "uncapturederror", w.heard)
	var lost js.Func
	lost = js.FuncOf(func(_ js.Value, args []js.Value) any {
		lost.Release()
		reason, message := field(args[0], "reason"), field(args[0], "message")
		w.loss.set(reason.String() + ": " + message.String())
		cancel()
		return nil
	})
	dev.Get("lost").Call("then", lost)

	script := js.Global().Call("attachGPU", dev, w.ready)
	for name, to := range map[string]*js.Value{
		"bytes": &w.bytes, "buffers": &w.tableOfBuffers, "pipelines": &w.tableOfPipelines, "groups": &w.tableOfGroups,
		"recordings": &w.recordings, "write": &w.doWrite, "writes": &w.doWrites, "writeFrom": &w.doWriteFrom, "copy": &w.doCopy, "read": &w.doRead,
		"compile": &w.doCompile, "run": &w.doRun, "stage": &w.doStage, "unstage": &w.doUnstage, "record": &w.doRecord,
		"replay": &w.doReplay, "close": &w.doClose,
	} {
		*to = script.Get(name)
	}
	return newDevice(w, info, w.loss)
}

// hear takes an error that no scope caught: someone is told at the next occasion.
func (w *web) hear(_ js.Value, args []js.Value) any {
	args[0].Call("preventDefault") // it is reported, so the console need not
	if w.fault == nil {
		w.fault = gpuError("", field(args[0], "error"))
	}
	return nil
}

// gpuError makes an error of a GPUError.
func gpuError(op string, v js.Value) error {
	msg := field(v, "message").String()
	if class := js.Global().Get("GPUOutOfMemoryError"); class.Truthy() && v.InstanceOf(class) {
		return &MemoryError{Label: op, Msg: msg}
	}
	return &UseError{Op: op, Msg: msg}
}

// told gives the error that no scope caught, once.
func (w *web) told(op string) error {
	err := w.fault
	w.fault = nil
	if use, ok := err.(*UseError); ok {
		use.Op = op
	}
	return err
}

// guard turns an exception into an error. Use it with defer.
func guard(op string, err *error) {
	thrown := caught(recover())
	if thrown == nil {
		return
	}
	*err = &UseError{Op: op, Msg: thrown.Error()}
	if e, ok := thrown.(js.Error); ok && jsutil.Name(e) == "RangeError" { // some browsers say want of memory so
		*err = &MemoryError{Label: op, Msg: thrown.Error()}
	}
}

// scoped runs f in error scopes and waits for what they say.
func (w *web) scoped(op string, f func()) error {
	w.dev.Call("pushErrorScope", "out-of-memory")
	w.dev.Call("pushErrorScope", "validation")
	err := func() (err error) {
		defer guard(op, &err)
		f()
		return nil
	}()
	for range 2 { // both, whatever the first says
		v, failed := jsutil.Await(w.ctx, w.dev.Call("popErrorScope"))
		switch {
		case err != nil: // the first counts
		case failed != nil:
			err = &UseError{Op: op, Msg: failed.Error()}
		case v.Truthy():
			err = gpuError(op, v)
		}
	}
	return err
}

// sized tells a *MemoryError what was asked for.
func sized(err error, label string, size int64) error {
	if e, ok := err.(*MemoryError); ok {
		return &MemoryError{Label: label, Size: size, Msg: e.Msg}
	}
	return err
}

func (w *web) newBuffer(b Buffer, label string, size int64) error {
	var made *wgpu.Buffer
	err := w.scoped("new buffer", func() {
		made, _ = w.lib.CreateBuffer(&wgpu.BufferDescriptor{ // its error is always nil
			Label: label, Size: uint64(size),
			Usage: wgpu.BufferUsageStorage | wgpu.BufferUsageUniform | wgpu.BufferUsageCopySrc | wgpu.BufferUsageCopyDst,
		})
	})
	if err != nil {
		if made != nil {
			made.Destroy()
		}
		return sized(err, label, size)
	}
	w.buffers[b] = made
	w.tableOfBuffers.Call("set", int(b), raw(made))
	return nil
}

func (w *web) destroy(b Buffer) {
	w.flush()
	w.tableOfBuffers.Call("delete", int(b))
	w.buffers[b].Destroy()
	delete(w.buffers, b)
}

func (w *web) bind(g Group, p Pipeline, bindings []Binding) error {
	entries := make([]wgpu.BindGroupEntry, len(bindings))
	for i, b := range bindings {
		entries[i] = wgpu.BindGroupEntry{Binding: uint32(i), Buffer: w.buffers[b.Buf], Offset: uint64(b.Off), Size: uint64(b.Size)}
	}
	var made *wgpu.BindGroup
	err := w.scoped("bind", func() {
		made, _ = w.lib.CreateBindGroup(&wgpu.BindGroupDescriptor{Layout: w.binds[p], Entries: entries})
	})
	if err != nil {
		return err
	}
	w.tableOfGroups.Call("set", int(g), raw(made))
	return nil
}

func (w *web) unbind(g Group) { w.tableOfGroups.Call("delete", int(g)) }

func (w *web) layout(list []Access) (l layout, err error) {
	key := accesses(list)
	if l, ok := w.layouts[key]; ok {
		return l, nil
	}
	entries := make([]wgpu.BindGroupLayoutEntry, len(list))
	for i, a := range list {
		entries[i] = wgpu.BindGroupLayoutEntry{
			Binding: uint32(i), Visibility: wgpu.ShaderStageCompute, Buffer: wgpu.BufferBindingLayout{Type: bindingTypes[a]},
		}
	}
	err = w.scoped("layout", func() {
		l.group, _ = w.lib.CreateBindGroupLayout(&wgpu.BindGroupLayoutDescriptor{Entries: entries})
		l.pipe, _ = w.lib.CreatePipelineLayout(&wgpu.PipelineLayoutDescriptor{BindGroupLayouts: []*wgpu.BindGroupLayout{l.group}})
	})
	if err == nil {
		w.layouts[key] = l
	}
	return l, err
}

// compile starts all shaders at once and waits for all of them.
func (w *web) compile(ctx context.Context, first Pipeline, shaders []Shader, progress func(done, total int)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.ctx, cancel)()
	made := make([]js.Value, len(shaders))
	layouts := make([]layout, len(shaders))
	for i, s := range shaders {
		var err error
		if layouts[i], err = w.layout(s.Bindings); err != nil {
			return err
		}
	}
	results := make(chan error, len(shaders))
	for i, s := range shaders {
		promise := w.doCompile.Invoke(raw(layouts[i].pipe), s.Label, s.Code, s.Entry)
		go func() {
			v, err := jsutil.Await(ctx, promise)
			made[i] = v
			results <- shaderError(s.Label, err)
		}()
	}
	var failed error
	for done := range shaders {
		err := <-results
		switch {
		case failed != nil:
		case err != nil:
			failed = err
			cancel() // nobody will use the others
		default:
			progress(done+1, len(shaders))
		}
	}
	if failed != nil {
		return failed
	}
	for i, v := range made {
		p := first + Pipeline(i)
		w.tableOfPipelines.Call("set", int(p), v)
		w.binds[p] = layouts[i].group
	}
	return nil
}

// shaderError reads the place that gpu.js put on the error.
func shaderError(label string, err error) error {
	var thrown js.Error
	if !errors.As(err, &thrown) {
		return err
	}
	line, column := field(thrown.Value, "line"), field(thrown.Value, "column")
	return &ShaderError{
		Label: label, Line: int(number(line, 0)), Column: int(number(column, 0)), Msg: field(thrown.Value, "message").String(),
	}
}
