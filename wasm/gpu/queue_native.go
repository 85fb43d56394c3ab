//go:build !js && cgo

package gpu

import (
	"context"
	"runtime/debug"
	"sync"

	"github.com/cogentcore/webgpu/wgpu"
)

// submit encodes commands and hands them to the queue.
func (n *native) submit(op string, encode func(*wgpu.CommandEncoder) error) (wgpu.SubmissionIndex, error) {
	e, err := n.dev.CreateCommandEncoder(nil)
	if err != nil {
		return 0, use(op, err)
	}
	defer e.Release()
	if err := encode(e); err != nil {
		return 0, use(op, err)
	}
	cmd, err := e.Finish(nil)
	if err != nil {
		return 0, use(op, err)
	}
	defer cmd.Release()
	return n.queue.Submit(cmd), nil
}

// pass encodes dispatches.
func (n *native) pass(e *wgpu.CommandEncoder, list []Dispatch) error {
	pass := e.BeginComputePass(nil)
	defer pass.Release() // before Submit, or the submission fails
	bound := Pipeline(0)
	for _, d := range list {
		if d.Pipeline != bound {
			pass.SetPipeline(n.pipelines[d.Pipeline].pipe)
			bound = d.Pipeline
		}
		pass.SetBindGroup(0, n.groups[d.Group], nil)
		pass.DispatchWorkgroups(d.X, d.Y, d.Z)
	}
	return pass.End()
}

func (n *native) run(list []Dispatch) error {
	_, err := n.submit("run", func(e *wgpu.CommandEncoder) error { return n.pass(e, list) })
	return err
}

func (n *native) staging(size int64) (*wgpu.Buffer, error) {
	b, err := n.dev.CreateBuffer(&wgpu.BufferDescriptor{
		Label: "staging", Size: uint64(size), Usage: wgpu.BufferUsageMapRead | wgpu.BufferUsageCopyDst,
	})
	if err != nil {
		return nil, &MemoryError{Label: "staging", Size: size, Msg: err.Error()}
	}
	return b, nil
}

func (n *native) read(b Buffer, off int64, dst []byte) error {
	s, err := n.staging(int64(len(dst)))
	if err != nil {
		return err
	}
	defer s.Release()
	defer s.Destroy()
	at, err := n.submit("read", func(e *wgpu.CommandEncoder) error {
		return e.CopyBufferToBuffer(n.buffers[b], uint64(off), s, 0, uint64(len(dst)))
	})
	if err != nil {
		return err
	}
	return n.fetch("read", s, at, dst)
}

// fetch waits for a submission, then maps b and copies it out.
func (n *native) fetch(op string, b *wgpu.Buffer, at wgpu.SubmissionIndex, dst []byte) error {
	defer collectorOff()()
	done, status := false, wgpu.BufferMapAsyncStatusUnknown
	err := b.MapAsync(wgpu.MapModeRead, 0, uint64(len(dst)), func(s wgpu.BufferMapAsyncStatus) { done, status = true, s })
	if err != nil {
		return use(op, err)
	}
	n.dev.Poll(true, &wgpu.WrappedSubmissionIndex{Queue: n.queue, SubmissionIndex: at})
	if !done {
		n.dev.Poll(true, nil)
	}
	if !done || status != wgpu.BufferMapAsyncStatusSuccess {
		return use(op, errUnmapped)
	}
	copy(dst, b.GetMappedRange(0, uint(len(dst))))
	return use(op, b.Unmap())
}

// The library hands C the address of a handle that Go does not see, so no collection may happen until the callback ran.
var collector struct {
	sync.Mutex
	off     int // how many want it off
	percent int
}

func collectorOff() (on func()) {
	collector.Lock()
	defer collector.Unlock()
	if collector.off == 0 {
		collector.percent = debug.SetGCPercent(-1)
	}
	collector.off++
	return func() {
		collector.Lock()
		defer collector.Unlock()
		if collector.off--; collector.off == 0 {
			debug.SetGCPercent(collector.percent)
		}
	}
}

func (n *native) newRing() error {
	for i := range n.stages {
		b, err := n.staging(readSize)
		if err != nil {
			for j := range i {
				n.stages[j].buf.Destroy()
				n.stages[j].buf.Release()
				n.stages[j].buf = nil
			}
			return err
		}
		n.stages[i].buf = b
	}
	return nil
}

func (n *native) record(r Recording, list []Dispatch, read Binding) error {
	n.recordings[r] = recorded{append([]Dispatch(nil), list...), read}
	return nil
}

func (n *native) replay(r Recording) (err error) {
	rec, s := n.recordings[r], &n.stages[n.head]
	s.at, err = n.submit("replay", func(e *wgpu.CommandEncoder) error {
		if err := n.pass(e, rec.list); err != nil {
			return err
		}
		return e.CopyBufferToBuffer(n.buffers[rec.read.Buf], uint64(rec.read.Off), s.buf, 0, uint64(rec.read.Size))
	})
	if err == nil {
		n.head = (n.head + 1) % ring
	}
	return err
}

func (n *native) wait(ctx context.Context, dst []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s := n.stages[n.tail]
	n.tail = (n.tail + 1) % ring
	return n.fetch("wait", s.buf, s.at, dst)
}

func (n *native) forget(r Recording) { delete(n.recordings, r) }
