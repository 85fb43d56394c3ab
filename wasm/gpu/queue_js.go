package gpu

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"syscall/js"

	"kvlens/wasm/jsutil"
)

// gatherMost is how many bytes a write may have that waits for the next thing to go to the queue: what a token needs to
// be told fits into the call of its replay.
const gatherMost = 4 << 10

func (w *web) write(b Buffer, off int64, p []byte) (err error) {
	defer guard("write", &err)
	if len(p) <= gatherMost && off <= math.MaxUint32 {
		if len(w.gathered)+len(p)+3*4 > handOver {
			w.flush()
		}
		for _, v := range [3]uint32{uint32(b), uint32(off), uint32(len(p))} {
			w.gathered = binary.LittleEndian.AppendUint32(w.gathered, v)
		}
		w.gathered = append(w.gathered, p...)
		return w.told("write")
	}
	w.flush()
	for len(p) > 0 {
		n := min(len(p), handOver)
		js.CopyBytesToJS(w.bytes, p[:n])
		w.doWrite.Invoke(int(b), off, n)
		off += int64(n)
		p = p[n:]
	}
	return w.told("write")
}

// handGathered gives gpu.js the writes that wait, and says how many bytes they take.
func (w *web) handGathered() (n int) {
	if n = len(w.gathered); n > 0 {
		js.CopyBytesToJS(w.bytes, w.gathered)
		w.gathered = w.gathered[:0]
	}
	return n
}

// flush does the writes that wait. Whatever else goes to the queue, or ends a buffer, calls it first.
func (w *web) flush() {
	if n := w.handGathered(); n > 0 {
		w.doWrites.Invoke(n)
	}
}

// ValueWriter is what devices in the browser do besides: they take bytes that have never been in Go's memory.
type ValueWriter interface {
	// WriteValue is Write with n bytes of a Uint8Array, from byte from on.
	WriteValue(b Buffer, off int64, chunk js.Value, from, n int64) error
}

// WriteValue implements ValueWriter.
func (d *device) WriteValue(b Buffer, off int64, chunk js.Value, from, n int64) (err error) {
	const op = "write"
	if err := d.loss.err(op); err != nil {
		return err
	}
	if err := d.part(op, b, off, n); err != nil {
		return err
	}
	if !chunk.InstanceOf(js.Global().Get("Uint8Array")) || from < 0 || from > int64(chunk.Length())-n {
		return misuse(op, "%s: the chunk has no %d bytes at %d", d.buffers[b].label, n, from)
	}
	defer guard(op, &err)
	d.drv.(*web).flush()
	d.drv.(*web).doWriteFrom.Invoke(int(b), off, chunk, from, n)
	return nil
}

func (w *web) copyBuffer(dst Buffer, dstOff int64, src Buffer, srcOff, n int64) (err error) {
	defer guard("copy", &err)
	w.flush()
	w.doCopy.Invoke(int(dst), dstOff, int(src), srcOff, n)
	return w.told("copy")
}

func (w *web) read(b Buffer, off int64, dst []byte) (err error) {
	const op = "read"
	defer guard(op, &err)
	w.flush()
	v, err := jsutil.Await(w.ctx, w.doRead.Invoke(int(b), off, len(dst)))
	var thrown js.Error
	switch {
	case errors.As(err, &thrown) && field(thrown.Value, "memory").Truthy():
		return &MemoryError{Label: "staging", Size: int64(len(dst)), Msg: thrown.Error()}
	case err != nil:
		return &UseError{Op: op, Msg: err.Error()}
	}
	js.CopyBytesToGo(dst, v)
	return w.told(op)
}

const words = 5 // of a dispatch

// hand gives dispatches to gpu.js.
func (w *web) hand(list []Dispatch) {
	p := make([]byte, 0, 4*words*len(list))
	for _, d := range list {
		for _, v := range [words]uint32{uint32(d.Pipeline), uint32(d.Group), d.X, d.Y, d.Z} {
			p = binary.LittleEndian.AppendUint32(p, v)
		}
	}
	js.CopyBytesToJS(w.bytes, p)
}

func (w *web) run(list []Dispatch) (err error) {
	defer guard("run", &err)
	w.flush()
	for len(list) > 0 {
		n := min(len(list), handOver/(4*words))
		w.hand(list[:n])
		w.doRun.Invoke(n)
		list = list[n:]
	}
	return w.told("run")
}

func (w *web) newRing() error {
	err := w.scoped("record", func() {
		for i := range w.stages {
			w.stages[i].bytes = w.doStage.Invoke(readSize)
		}
	})
	if err != nil {
		w.doUnstage.Invoke()
	}
	return sized(err, "staging", StagingBytes)
}

func (w *web) record(r Recording, list []Dispatch, read Binding) (err error) {
	if len(list) > handOver/(4*words) {
		return misuse("record", "%d dispatches", len(list))
	}
	defer guard("record", &err)
	w.hand(list)
	w.doRecord.Invoke(int(r), len(list), int(read.Buf), read.Off, read.Size)
	return nil
}

func (w *web) forget(r Recording) { w.recordings.Call("delete", int(r)) }

func (w *web) replay(r Recording) (err error) {
	defer guard("replay", &err)
	w.doReplay.Invoke(int(r), w.handGathered())
	return nil
}

// isReady is what gpu.js calls when a stage has its bytes, or never will.
func (w *web) isReady(_ js.Value, args []js.Value) any {
	s := &w.stages[args[0].Int()]
	s.done = true
	if len(args) > 1 {
		s.fault = args[1].String()
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
	return nil
}

func (w *web) wait(ctx context.Context, dst []byte) (err error) {
	const op = "wait"
	s := &w.stages[w.tail]
	for !s.done {
		select {
		case <-w.wake:
		case <-w.loss.gone:
			return w.loss.err(op)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	w.tail = (w.tail + 1) % ring
	fault := s.fault
	s.done, s.fault = false, ""
	if err := w.told(op); err != nil {
		return err
	}
	if fault != "" {
		return &UseError{Op: op, Msg: fault}
	}
	defer guard(op, &err)
	js.CopyBytesToGo(dst, s.bytes)
	return nil
}

func (w *web) close() {
	if w.released {
		return
	}
	w.released = true
	w.dev.Call("removeEventListener", "uncapturederror", w.heard)
	w.doClose.Invoke()
	w.ready.Release()
	w.heard.Release()
}
