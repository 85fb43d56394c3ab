// Package core is the engine without its worker: it answers the page's requests over any [proto.Conn].
//
// Two goroutines share the work. One receives and answers at once what must always be heard: Stop, Ping and GetState. The
// other runs one long request at a time and gives way between pieces of work, so that the first gets its turn. Model,
// session and ledger belong to the second alone.
package core

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/wasm/llama"
	"kvlens/wasm/proto"
	"kvlens/wasm/quant"
	"kvlens/wasm/step"
	"kvlens/wasm/tokenizer"
	"kvlens/wasm/weights"
)

// Config is what an engine needs of the place where it runs.
type Config struct {
	Build string // must be the page's
	Store *weights.Store
	// Backend makes the backend that is wished for and says why it is this one.
	Backend func(ctx context.Context, w Wish, led *cache.Ledger) (b step.Backend, why string, err error)
	// Yield gives way to the event loop; nil where goroutines run side by side: a prompt's pieces are then equally long, and
	// the same conversation is the same to the last bit.
	Yield func()
	// Awake keeps the machine from putting the engine to sleep until the result is called; nil where nothing does.
	Awake func() (done func())
	// Reserved is the size of the WASM memory, nil where there is none.
	Reserved func() uint64
}

// Wish says what a backend is for.
type Wish struct {
	Backend string         // name, "" for whichever is best
	Float   bool           // f32 activations on the CPU path
	Layouts []quant.Layout // of the model's weights, each once
}

// engine serves one connection.
type engine struct {
	Config
	conn proto.Conn
	jobs chan job

	mu     sync.Mutex // guards what both goroutines touch
	id     uint32     // of the request that runs
	cancel context.CancelFunc
	latest proto.State // for GetState

	// The rest belongs to the goroutine of the jobs.
	led      cache.Ledger
	backend  step.Backend
	model    *llama.Model
	manifest *weights.Manifest
	tok      *tokenizer.Tokenizer
	prompts  prompts
	session  *llama.Session
	memory   proto.Memory
	asked    proto.Open     // what the model was opened with
	history  llama.History  // the conversation as it was when the last request ended
	full     int            // tokens of the first turn, prompt and answer limit: what shares are shares of
	tables   *policy.Tables // of the model's heads, nil where they were not measured
	refused  error          // why the settings have taken the model from a GPU; nil where they have not
	saved    compressed
	prefill  rate
	decode   rate
}

type job struct {
	ctx context.Context
	id  uint32
	req proto.Request
}

// Serve greets the page and answers its requests until the connection ends.
func Serve(ctx context.Context, conn proto.Conn, c Config) error {
	if c.Awake == nil {
		c.Awake = func() func() { return func() {} }
	}
	if c.Reserved == nil {
		c.Reserved = func() uint64 { return 0 }
	}
	ctx, stop := context.WithCancel(ctx)
	e := &engine{Config: c, conn: conn, jobs: make(chan job, 1)}
	var wg sync.WaitGroup
	wg.Go(e.work)
	defer func() {
		stop()
		close(e.jobs)
		wg.Wait()
		e.close()
	}()
	e.send(0, proto.Hello{Version: proto.Version, Build: c.Build})
	return e.listen(ctx)
}

// listen receives requests. It never waits for one.
func (e *engine) listen(ctx context.Context) error {
	greeted := false
	for {
		packet, err := e.conn.Recv(ctx)
		if err != nil {
			return err
		}
		id, m, err := proto.Decode(packet)
		if err != nil {
			e.send(id, proto.Failure{Code: proto.CodeBadRequest, Op: "decode", Msg: err.Error(), Args: []string{"packet"}})
			continue
		}
		h, hello := m.(proto.Hello)
		switch {
		case hello && h.Version == proto.Version && h.Build == e.Build:
			greeted = true
		case hello || !greeted:
			e.send(id, e.stranger(h))
		default:
			e.hear(ctx, id, m)
		}
	}
}

// stranger is the answer to a page that did not greet, or that is of another build.
func (e *engine) stranger(h proto.Hello) proto.Failure {
	return proto.Failure{
		Code: proto.CodeVersion, Op: "hello", Msg: fmt.Sprintf("protocol %d, the engine's is %d", h.Version, proto.Version),
		Args: []string{h.Build, e.Build},
	}
}

func (e *engine) hear(ctx context.Context, id uint32, m proto.Message) {
	switch m := m.(type) {
	case proto.Ping:
		e.send(id, proto.Done{})
	case proto.Stop:
		e.mu.Lock()
		if e.cancel != nil && e.id == m.Target {
			e.cancel()
		}
		e.mu.Unlock()
		e.send(id, proto.Done{})
	case proto.GetState:
		e.mu.Lock()
		s := e.latest
		e.mu.Unlock()
		e.send(id, s)
		e.send(id, proto.Done{})
	case proto.Request:
		e.begin(ctx, id, m)
	default:
		e.send(id, badRequest("kind", "kind %d is no request", m.Kind()))
	}
}

// begin hands a request to the goroutine of the jobs, unless that has one.
func (e *engine) begin(ctx context.Context, id uint32, m proto.Request) {
	e.mu.Lock()
	busy := e.cancel != nil
	if !busy {
		ctx, e.cancel = context.WithCancel(ctx)
		e.id = id
	}
	e.mu.Unlock()
	if busy {
		e.send(id, proto.Failure{Code: proto.CodeBusy, Op: "begin", Msg: "another request is running"})
		return
	}
	e.jobs <- job{ctx, id, m}
}

// work runs the jobs.
func (e *engine) work() {
	for j := range e.jobs {
		sleep := e.Awake()
		done, err := e.run(j)
		sleep()
		if e.session != nil {
			e.history = e.session.History()
		}
		e.state() // what GetState tells from now on, also of a request that failed
		var end proto.Event = done
		var own proto.Failure // what the engine itself found wrong does not come from Stop
		switch {
		case err == nil:
		case j.ctx.Err() != nil && !errors.As(err, &own):
			end = proto.Done{Reason: proto.ReasonStopped, Tokens: done.Tokens}
		default:
			end = failure(op(j.req), err)
		}
		// Whoever hears of the end may ask again at once.
		e.mu.Lock()
		e.cancel()
		e.cancel = nil
		e.mu.Unlock()
		e.send(j.id, end)
	}
}

// run runs one job. A panic is a defect of ours: what it left behind is not to be trusted, so the model goes.
func (e *engine) run(j job) (done proto.Done, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = proto.Failure{
				Code: proto.CodeInternal, Op: op(j.req), Msg: fmt.Sprintf("panic: %v\n%s", r, debug.Stack()),
			}
			e.close()
		}
	}()
	switch m := j.req.(type) {
	case proto.Open:
		return done, e.open(j, m)
	case proto.SetMemory:
		return done, e.setMemory(j, m.Memory)
	case proto.Generate:
		return e.generate(j, m)
	case proto.View:
		return done, e.view(j, m)
	case proto.Explain:
		return done, e.explain(j, m)
	case proto.Undo:
		return done, e.undo(j, m)
	case proto.Pin:
		return done, e.pin(j, m)
	case proto.Recall:
		return done, e.recall(j, m)
	case proto.Compare:
		return e.compare(j, &m)
	case proto.Reset:
		return done, e.reset(j)
	case proto.ListModels:
		return done, e.listModels(j, m)
	case proto.DeleteModel:
		return done, e.deleteModel(j, m)
	}
	return done, badRequest("kind", "kind %d is not for the engine", j.req.Kind())
}

func (e *engine) send(id uint32, m proto.Message) {
	// A connection that is gone shows in Recv, which ends everything.
	_ = e.conn.Send(proto.Encode(id, m))
}
