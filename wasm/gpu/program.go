package gpu

import (
	"context"
	"errors"
)

func (d *device) Pipelines(ctx context.Context, shaders []Shader, progress func(done, total int)) ([]Pipeline, error) {
	const op = "pipelines"
	if err := d.loss.err(op); err != nil {
		return nil, err
	}
	for _, s := range shaders {
		storage := 0
		for _, a := range s.Bindings {
			if a > ReadWrite {
				return nil, misuse(op, "%s: access %d", s.Label, a)
			}
			if a != Uniform {
				storage++
			}
		}
		if storage > d.info.Limits.StorageBuffers {
			return nil, &LimitError{op, s.Label, "maxStorageBuffersPerShaderStage", int64(storage), int64(d.info.Limits.StorageBuffers)}
		}
	}
	if progress == nil {
		progress = func(int, int) {}
	}
	first := Pipeline(d.last + 1)
	if err := d.drv.compile(ctx, first, shaders, progress); err != nil {
		return nil, d.result(op, err)
	}
	made := make([]Pipeline, len(shaders))
	for i, s := range shaders {
		made[i] = Pipeline(d.next())
		d.pipelines[made[i]] = accesses(s.Bindings)
	}
	return made, nil
}

// accesses makes a key of a list of accesses.
func accesses(list []Access) string {
	key := make([]byte, len(list))
	for i, a := range list {
		key[i] = byte(a)
	}
	return string(key)
}

func (d *device) Bind(p Pipeline, bindings []Binding) (Group, error) {
	const op = "bind"
	if err := d.loss.err(op); err != nil {
		return 0, err
	}
	key, ok := d.pipelines[p]
	if !ok {
		return 0, misuse(op, "no pipeline %d", p)
	}
	if len(bindings) != len(key) {
		return 0, misuse(op, "%d bindings for %d", len(bindings), len(key))
	}
	whole := make([]Binding, len(bindings))
	for i, b := range bindings {
		var err error
		if whole[i], err = d.binding(b); err != nil {
			return 0, err
		}
		for j, other := range whole[:i] {
			if clash(Access(key[i]), Access(key[j]), whole[i], other) {
				return 0, misuse(op, "bindings %d and %d of %s clash", j, i, d.buffers[b.Buf].label)
			}
		}
	}
	g := Group(d.next())
	if err := d.drv.bind(g, p, whole); err != nil {
		return 0, d.result(op, err)
	}
	made := group{accesses: key}
	for _, b := range whole {
		made.buffers = append(made.buffers, b.Buf)
		if e := d.buffers[b.Buf]; len(e.groups) == 0 || e.groups[len(e.groups)-1] != g {
			e.groups = append(e.groups, g)
		}
	}
	d.groups[g] = made
	return g, nil
}

// binding checks one binding and gives it its size.
func (d *device) binding(b Binding) (Binding, error) {
	const op = "bind"
	if e := d.buffers[b.Buf]; e != nil && b.Size == 0 {
		b.Size = e.size - b.Off
	}
	if err := d.part(op, b.Buf, b.Off, b.Size); err != nil {
		return b, err
	}
	label, limits := d.buffers[b.Buf].label, d.info.Limits
	if b.Size == 0 || b.Off%int64(limits.OffsetAlign) != 0 {
		return b, misuse(op, "%s: %d bytes at %d, aligned to %d", label, b.Size, b.Off, limits.OffsetAlign)
	}
	if b.Size > limits.MaxBinding {
		return b, &LimitError{op, label, "maxStorageBufferBindingSize", b.Size, limits.MaxBinding}
	}
	return b, nil
}

// clash says that one group cannot hold both: WebGPU lets a buffer be written, or otherwise used, but not both in one
// dispatch, and written parts be disjoint.
func clash(a, b Access, x, y Binding) bool {
	if x.Buf != y.Buf || a != ReadWrite && b != ReadWrite {
		return false
	}
	return a != b || x.Off < y.Off+y.Size && y.Off < x.Off+x.Size
}

// dispatches checks a list.
func (d *device) dispatches(op string, list []Dispatch) error {
	for i, x := range list {
		key, ok := d.pipelines[x.Pipeline]
		g, bound := d.groups[x.Group]
		most := uint32(d.info.Limits.Workgroups)
		switch {
		case !ok:
			return misuse(op, "dispatch %d: no pipeline %d", i, x.Pipeline)
		case !bound:
			return misuse(op, "dispatch %d: no group %d: was one of its buffers destroyed?", i, x.Group)
		case g.accesses != key:
			return misuse(op, "dispatch %d: the group is for other bindings than the pipeline's", i)
		case x.X == 0 || x.Y == 0 || x.Z == 0:
			return misuse(op, "dispatch %d: %d × %d × %d workgroups", i, x.X, x.Y, x.Z)
		case max(x.X, x.Y, x.Z) > most:
			return &LimitError{op, "dispatch", "maxComputeWorkgroupsPerDimension", int64(max(x.X, x.Y, x.Z)), int64(most)}
		}
	}
	return nil
}

func (d *device) Run(list []Dispatch) error {
	const op = "run"
	if err := d.loss.err(op); err != nil {
		return err
	}
	if err := d.dispatches(op, list); err != nil || len(list) == 0 {
		return err
	}
	return d.result(op, d.drv.run(list))
}

func (d *device) Record(list []Dispatch, read Binding) (Recording, error) {
	const op = "record"
	if err := d.loss.err(op); err != nil {
		return 0, err
	}
	if err := d.dispatches(op, list); err != nil {
		return 0, err
	}
	if err := d.part(op, read.Buf, read.Off, read.Size); err != nil {
		return 0, err
	}
	if read.Size == 0 || read.Size > readSize {
		return 0, misuse(op, "%d bytes to read", read.Size)
	}
	if !d.staged {
		if err := d.drv.newRing(); err != nil {
			return 0, d.result(op, err)
		}
		d.staged = true
	}
	r := Recording(d.next())
	if err := d.drv.record(r, list, read); err != nil {
		return 0, d.result(op, err)
	}
	made := &recording{read: read, epoch: d.epoch}
	for _, x := range list {
		made.groups = append(made.groups, x.Group)
	}
	d.recordings[r] = made
	return r, nil
}

// alive checks that nothing that r uses was destroyed.
func (d *device) alive(r *recording) error {
	if r.epoch == d.epoch {
		return nil
	}
	if d.buffers[r.read.Buf] == nil {
		return misuse("replay", "the buffer to read was destroyed")
	}
	for i, g := range r.groups {
		if _, ok := d.groups[g]; !ok {
			return misuse("replay", "dispatch %d: a buffer of its group was destroyed", i)
		}
	}
	r.epoch = d.epoch
	return nil
}

func (d *device) Replay(r Recording) error {
	const op = "replay"
	if err := d.loss.err(op); err != nil {
		return err
	}
	e := d.recordings[r]
	if e == nil {
		return misuse(op, "no recording %d", r)
	}
	if err := d.alive(e); err != nil {
		return err
	}
	if len(d.flight) == ring {
		return misuse(op, "%d are in flight", ring)
	}
	if err := d.drv.replay(r); err != nil {
		return d.result(op, err)
	}
	d.flight = append(d.flight, int(e.read.Size))
	return nil
}

func (d *device) Wait(ctx context.Context, dst []byte) error {
	const op = "wait"
	if err := d.loss.err(op); err != nil {
		return err
	}
	if len(d.flight) == 0 {
		return misuse(op, "nothing is in flight")
	}
	if n := d.flight[0]; len(dst) != n {
		return misuse(op, "%d bytes for %d", len(dst), n)
	}
	err := d.drv.wait(ctx, dst)
	if ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
		d.flight = append(d.flight[:0], d.flight[1:]...)
	}
	return d.result(op, err)
}

func (d *device) Forget(r Recording) {
	if d.recordings[r] == nil {
		return
	}
	delete(d.recordings, r)
	d.drv.forget(r)
}
