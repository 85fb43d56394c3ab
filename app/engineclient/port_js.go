package engineclient

import (
	"context"
	"errors"
	"syscall/js"

	"kvlens/wasm/jsutil"
	"kvlens/wasm/proto"
)

// StartWorker returns a starter of the worker at url, a script of the same origin.
func StartWorker(url string) func() (Port, error) {
	return func() (Port, error) {
		w, err := newWorker(url)
		if err != nil {
			return nil, err
		}
		p := &workerPort{worker: w, in: proto.NewQueue[[]byte]()}
		p.listen()
		return p, nil
	}
}

func newWorker(url string) (w js.Value, err error) {
	defer jsutil.Catch("new Worker", &err)
	return js.Global().Get("Worker").New(url), nil
}

// workerPort is a worker as a connection.
type workerPort struct {
	worker  js.Value
	in      *proto.Queue[[]byte]
	release func()
}

func (p *workerPort) listen() {
	stop := jsutil.Listen(p.worker,
		func(packet []byte) { _ = p.in.Push(packet) },
		func(text string) { p.in.Fail(errors.New(text)) })
	// An error event of a script that doesn't load has no message.
	failed := js.FuncOf(func(_ js.Value, args []js.Value) any {
		args[0].Call("preventDefault")
		msg := "the engine's script could not be loaded"
		if m := args[0].Get("message"); m.Type() == js.TypeString && m.String() != "" {
			msg = m.String()
		}
		p.in.Fail(errors.New(msg))
		return nil
	})
	p.worker.Set("onerror", failed)
	p.release = func() {
		p.worker.Set("onerror", nil)
		failed.Release()
		stop()
	}
}

func (p *workerPort) Send(packet []byte) error { return jsutil.Post(p.worker, packet) }

func (p *workerPort) Recv(ctx context.Context) ([]byte, error) { return p.in.Pop(ctx) }

func (p *workerPort) Close() {
	p.worker.Call("terminate")
	p.in.Fail(proto.ErrClosed)
	if p.release != nil {
		p.release()
		p.release = nil
	}
}
