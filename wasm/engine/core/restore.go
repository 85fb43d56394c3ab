package core

import (
	"context"
	"errors"
	"fmt"

	"kvlens/wasm/gpu"
	"kvlens/wasm/llama"
	"kvlens/wasm/proto"
	"kvlens/wasm/step"
	"kvlens/wasm/weights"
)

// restores is how often one request sets up a lost backend.
const restores = 2

// lasting does some work, and does it again if the backend was lost meanwhile, with the conversation as it was before.
// The reader need not ask for that: a driver's reset or a sleeping tab is no reason to lose what was said.
func (e *engine) lasting(j job, gone func(error) bool, work func() error) error {
	for range restores {
		err := work()
		if err == nil || !gone(err) {
			return err
		}
		if err := e.restore(j, err); err != nil {
			return err
		}
	}
	return work()
}

func lost(err error) bool {
	var gone *gpu.LostError
	return errors.As(err, &gone)
}

// spent says that a GPU is lost, or has no memory left, as after other programs took it: then a new device may help.
func (e *engine) spent(err error) bool {
	return lost(err) || errors.Is(err, step.ErrMemory) && e.onGPU()
}

// restore sets up the backend anew, loads the model again from where it is stored, and reads the conversation again. It
// does not stop half way: a request that was cancelled meanwhile ends afterwards.
func (e *engine) restore(j job, cause error) error {
	ctx := context.WithoutCancel(j.ctx)
	progress := e.progress(j)
	tell := func(p proto.Progress) {
		p.Stage = proto.StageRestore
		progress(p)
	}
	o, h := e.asked, e.history
	o.Memory = e.memory
	e.close()
	opened, err := e.load(ctx, o, e.anew, tell)
	if err == nil {
		err = e.repeat(ctx, h, true, tell)
	}
	if err != nil {
		e.close()
		return proto.Failure{Code: proto.CodeLost, Op: "restore", Msg: fmt.Sprintf("%v\n%v", cause, err)}
	}
	e.send(j.id, proto.Moved{
		Backend: opened.Backend, BackendDetail: opened.BackendDetail, BackendWhy: opened.BackendWhy,
	})
	return nil
}

// anew is place after a loss: on the same kind of backend if there is one, else on the CPU.
func (e *engine) anew(ctx context.Context, f *weights.File, w Wish, tell telling) (string, error) {
	why, err := e.place(ctx, f, w, tell)
	if err == nil && e.onGPU() {
		return why, nil
	}
	if err != nil {
		e.unplace()
		w.Backend = "cpu"
		_, err = e.place(ctx, f, w, tell)
	}
	return proto.WhyLost, err
}

// repeat brings back a conversation the way it came, so that its numbers are the same under the same settings.
func (e *engine) repeat(ctx context.Context, h llama.History, same bool, tell telling) error {
	err := e.session.Repeat(ctx, h, same, func(done, total int) {
		tell(proto.Progress{Stage: proto.StagePrefill, Done: uint64(done), Total: uint64(total)})
	})
	if err == nil {
		e.history = h
	}
	return err
}
