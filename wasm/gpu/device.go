package gpu

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	ring     = 4  // replays in flight
	readSize = 64 // bytes of a staging buffer of the ring

	// StagingBytes is what the ring of staging buffers takes, from the first Record on.
	StagingBytes = ring * readSize
)

const readChunk = 16 << 20 // bytes that Read stages at once

// driver is a platform's part of a device. Objects go by the numbers that the common part gives them; arguments have been
// checked.
type driver interface {
	newBuffer(b Buffer, label string, size int64) error
	write(b Buffer, off int64, p []byte) error
	copyBuffer(dst Buffer, dstOff int64, src Buffer, srcOff, n int64) error
	read(b Buffer, off int64, dst []byte) error
	destroy(b Buffer)
	// compile makes pipelines first, first+1, … of the shaders, or none.
	compile(ctx context.Context, first Pipeline, shaders []Shader, progress func(done, total int)) error
	bind(g Group, p Pipeline, bindings []Binding) error
	unbind(g Group)
	run(d []Dispatch) error
	// newRing makes the staging buffers, before the first record.
	newRing() error
	record(r Recording, d []Dispatch, read Binding) error
	replay(r Recording) error
	// wait gives the bytes of the oldest replay. It has not happened if ctx ended first.
	wait(ctx context.Context, dst []byte) error
	forget(r Recording)
	close()
}

// device is the part that all platforms share: numbers, checks and accounts.
type device struct {
	drv  driver
	info Info
	loss *loss
	last int32 // the newest number of any object; none is used twice

	buffers    map[Buffer]*buffer
	pipelines  map[Pipeline]string // the accesses, as a string
	groups     map[Group]group
	recordings map[Recording]*recording
	bytes      int64
	staged     bool  // the ring exists
	epoch      int   // counts destroyed buffers
	flight     []int // bytes of each replay in flight, oldest first
}

type buffer struct {
	label  string
	size   int64
	groups []Group
}

type group struct {
	accesses string
	buffers  []Buffer
}

type recording struct {
	groups []Group
	read   Binding
	epoch  int // when all of them were last seen alive
}

// loss is the end of a device.
type loss struct {
	once   sync.Once
	gone   chan struct{}
	reason string
}

func newLoss() *loss { return &loss{gone: make(chan struct{})} }

func (l *loss) set(reason string) {
	l.once.Do(func() {
		l.reason = reason
		close(l.gone)
	})
}

// err is a *LostError once the device is gone.
func (l *loss) err(op string) error {
	select {
	case <-l.gone:
		return &LostError{Op: op, Reason: l.reason}
	default:
		return nil
	}
}

func newDevice(drv driver, info Info, l *loss) *device {
	return &device{
		drv: drv, info: info, loss: l, flight: make([]int, 0, ring),
		buffers: map[Buffer]*buffer{}, pipelines: map[Pipeline]string{}, groups: map[Group]group{}, recordings: map[Recording]*recording{},
	}
}

func (d *device) Info() Info            { return d.info }
func (d *device) Lost() <-chan struct{} { return d.loss.gone }

func (d *device) LostReason() string {
	select {
	case <-d.loss.gone:
		return d.loss.reason
	default:
		return ""
	}
}

func (d *device) Live() (int, int64) {
	if d.staged {
		return len(d.buffers) + ring, d.bytes + StagingBytes
	}
	return len(d.buffers), d.bytes
}

func (d *device) next() int32 {
	d.last++
	return d.last
}

// A browser may refuse what a lost device was asked before it says that the device is lost.
const grace = 50 * time.Millisecond

// result words a driver's error: a lost device explains every other.
func (d *device) result(op string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		if lost := d.loss.err(op); err != nil && lost != nil {
			return lost
		}
		return err
	}
	select {
	case <-d.loss.gone:
		return d.loss.err(op)
	case <-time.After(grace):
		return err
	}
}

func misuse(op, format string, args ...any) error {
	return &UseError{Op: op, Msg: fmt.Sprintf(format, args...)}
}

func (d *device) NewBuffer(label string, size int64) (Buffer, error) {
	const op = "new buffer"
	if err := d.loss.err(op); err != nil {
		return 0, err
	}
	if size <= 0 || size%4 != 0 {
		return 0, misuse(op, "%s: %d bytes", label, size)
	}
	if size > d.info.Limits.MaxBuffer {
		return 0, &LimitError{op, label, "maxBufferSize", size, d.info.Limits.MaxBuffer}
	}
	b := Buffer(d.next())
	if err := d.drv.newBuffer(b, label, size); err != nil {
		return 0, d.result(op, err)
	}
	d.buffers[b] = &buffer{label: label, size: size}
	d.bytes += size
	return b, nil
}

func (d *device) Destroy(b Buffer) {
	e := d.buffers[b]
	if e == nil {
		return
	}
	for _, g := range e.groups {
		d.unbind(g, b)
	}
	delete(d.buffers, b)
	d.bytes -= e.size
	d.epoch++
	d.drv.destroy(b)
}

// unbind drops a group because of buffer b, and takes it off the lists of its other buffers.
func (d *device) unbind(g Group, b Buffer) {
	for _, other := range d.groups[g].buffers {
		if e := d.buffers[other]; e != nil && other != b {
			e.groups = slices.DeleteFunc(e.groups, func(x Group) bool { return x == g })
		}
	}
	delete(d.groups, g)
	d.drv.unbind(g)
}

// part checks a range of a buffer, all of it in multiples of 4.
func (d *device) part(op string, b Buffer, off, n int64) error {
	e := d.buffers[b]
	switch {
	case e == nil:
		return misuse(op, "no buffer %d", b)
	case off < 0 || n < 0 || off%4 != 0 || n%4 != 0:
		return misuse(op, "%s: bytes %d to %d+%d are no words", e.label, off, off, n)
	case off > e.size || n > e.size-off:
		return misuse(op, "%s: bytes %d to %d+%d of %d", e.label, off, off, n, e.size)
	}
	return nil
}

func (d *device) Write(b Buffer, off int64, p []byte) error {
	const op = "write"
	if err := d.loss.err(op); err != nil {
		return err
	}
	if err := d.part(op, b, off, int64(len(p))); err != nil || len(p) == 0 {
		return err
	}
	return d.result(op, d.drv.write(b, off, p))
}

func (d *device) Copy(dst Buffer, dstOff int64, src Buffer, srcOff, n int64) error {
	const op = "copy"
	if err := d.loss.err(op); err != nil {
		return err
	}
	if err := d.part(op, dst, dstOff, n); err != nil {
		return err
	}
	if err := d.part(op, src, srcOff, n); err != nil || n == 0 {
		return err
	}
	if dst == src {
		return misuse(op, "%s onto itself", d.buffers[dst].label)
	}
	return d.result(op, d.drv.copyBuffer(dst, dstOff, src, srcOff, n))
}

func (d *device) Read(b Buffer, off int64, dst []byte) error {
	const op = "read"
	if err := d.loss.err(op); err != nil {
		return err
	}
	if err := d.part(op, b, off, int64(len(dst))); err != nil {
		return err
	}
	for p := range slices.Chunk(dst, readChunk) {
		if err := d.drv.read(b, off, p); err != nil {
			return d.result(op, err)
		}
		off += int64(len(p))
	}
	return nil
}

func (d *device) Abandon(reason string) { d.loss.set(reason) }

func (d *device) Close() {
	d.loss.set("closed")
	d.drv.close()
	clear(d.buffers)
	clear(d.pipelines)
	clear(d.groups)
	clear(d.recordings)
	d.bytes, d.staged, d.flight = 0, false, nil
}
