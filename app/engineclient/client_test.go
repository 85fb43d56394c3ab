package engineclient

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kvlens/wasm/proto"
)

const build = "b1"

// bench is a client with workers that the test plays. It lives in a synctest bubble: time is the test's, and Wait
// returns when every goroutine waits for something.
type bench struct {
	t       *testing.T
	mu      sync.Mutex // guards heard, states and what workers got
	c       *Client
	workers []*worker
	refuse  error // what starting a worker reports
	heard   []string
	states  []State
}

// worker is the engine's end of one connection.
type worker struct {
	b    *bench
	conn proto.Conn
	got  []message
}

type message struct {
	id  uint32
	msg proto.Message
}

func test(t *testing.T, f func(b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{t: t}
		b.c = New(b.start, build, Handler{
			Event: func(id uint32, m proto.Event) { record(b, &b.heard, words(id, m)) },
			State: func(s State) { record(b, &b.states, s) },
		})
		f(b)
		b.c.Close()
		for _, w := range b.workers {
			w.conn.Close()
		}
		synctest.Wait()
	})
}

func record[T any](b *bench, list *[]T, v T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	*list = append(*list, v)
}

// take empties a list once everything is quiet.
func take[T any](b *bench, list *[]T) []T {
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	all := *list
	*list = nil
	return all
}

func (b *bench) start() (Port, error) {
	if b.refuse != nil {
		return nil, b.refuse
	}
	page, engine := proto.Pipe()
	w := &worker{b: b, conn: engine}
	b.workers = append(b.workers, w)
	go func() {
		for {
			p, err := engine.Recv(context.Background())
			if err != nil {
				return
			}
			id, m, err := proto.Decode(p)
			if err != nil {
				b.t.Errorf("the client sent: %v", err)
			}
			record(b, &w.got, message{id, m})
		}
	}()
	return page, nil
}

// words is an event in short.
func words(id uint32, m proto.Event) string {
	switch m := m.(type) {
	case proto.Done:
		return fmt.Sprintf("%d done %d", id, m.Reason)
	case proto.Failure:
		return fmt.Sprintf("%d failure %d", id, m.Code)
	case proto.Step:
		return fmt.Sprintf("%d step %s", id, m.Text)
	}
	return fmt.Sprintf("%d %s", id, reflect.TypeOf(m).Name())
}

func (b *bench) worker(n int) *worker {
	synctest.Wait()
	if len(b.workers) != n {
		b.t.Fatalf("%d workers were started, want %d", len(b.workers), n)
	}
	return b.workers[n-1]
}

func (w *worker) say(id uint32, m proto.Event) {
	if err := w.conn.Send(proto.Encode(id, m)); err != nil {
		w.b.t.Error(err)
	}
	synctest.Wait()
}

func (w *worker) greet() { w.say(0, proto.Hello{Version: proto.Version, Build: build}) }

// asked takes the requests since the last call.
func (w *worker) asked(want ...message) {
	w.b.t.Helper()
	got := take(w.b, &w.got)
	if !slices.EqualFunc(got, want, func(a, b message) bool { return reflect.DeepEqual(a, b) }) {
		w.b.t.Errorf("the worker was asked %+v, want %+v", got, want)
	}
}

// told checks the events since the last call.
func (b *bench) told(want ...string) {
	b.t.Helper()
	if got := take(b, &b.heard); !slices.Equal(got, want) {
		b.t.Errorf("the page heard %q, want %q", got, want)
	}
}

func (b *bench) state(want ...State) {
	b.t.Helper()
	if got := take(b, &b.states); !slices.Equal(got, want) {
		b.t.Errorf("the states were %d, want %d", got, want)
	}
}

var (
	hello = message{0, proto.Hello{Version: proto.Version, Build: build}}
	model = proto.Open{Manifest: "m.json", Memory: proto.Memory{Cap: 7}}
	ask   = proto.Generate{Text: "hi", Max: 3}
)

// opened brings the client to an open model.
func (b *bench) opened() *worker {
	id := b.c.Send(model)
	w := b.worker(1)
	w.greet()
	w.asked(hello, message{id, model})
	w.say(id, proto.Opened{})
	w.say(id, proto.Done{})
	b.told(fmt.Sprintf("%d Opened", id), fmt.Sprintf("%d done 0", id))
	b.state(Connecting, Busy, Ready)
	return w
}

func TestNothingIsSentBeforeHello(t *testing.T) {
	test(t, func(b *bench) {
		id := b.c.Send(model)
		w := b.worker(1)
		w.asked()
		w.greet()
		w.asked(hello, message{id, model})
	})
}

func TestRequestsRunOneByOne(t *testing.T) {
	test(t, func(b *bench) {
		w := b.opened()
		a, state, next, last := b.c.Send(ask), b.c.Send(proto.GetState{}), b.c.Send(proto.Reset{}), b.c.Send(ask)
		w.asked(message{a, ask}, message{state, proto.GetState{}})
		b.c.Stop(last)
		b.told(fmt.Sprintf("%d done %d", last, proto.ReasonStopped))
		b.c.Stop(a)
		w.asked(message{last + 1, proto.Stop{Target: a}})
		w.say(last+1, proto.Done{})
		w.say(a, proto.Step{Text: "x"})
		w.say(a, proto.Done{Reason: proto.ReasonStopped})
		w.asked(message{next, proto.Reset{}})
		b.told(fmt.Sprintf("%d step x", a), fmt.Sprintf("%d done %d", a, proto.ReasonStopped))
		b.c.Stop(a) // has ended
		w.asked()
	})
}

func TestDeathInTheMiddleOfAnAnswer(t *testing.T) {
	test(t, func(b *bench) {
		w := b.opened()
		a := b.c.Send(ask)
		w.say(a, proto.Step{Text: "Once"})
		w.conn.Close()
		b.told(fmt.Sprintf("%d step Once", a), fmt.Sprintf("%d failure %d", a, proto.CodeDead))

		w = b.worker(2)
		w.greet()
		w.asked(hello, message{a + 1, model})
		w.say(a+1, proto.Opened{})
		w.say(a+1, proto.Done{})
		b.told(fmt.Sprintf("%d Opened", a+1), fmt.Sprintf("%d done 0", a+1))
		b.state(Busy, Connecting, Busy, Ready)
	})
}

func TestDeathWhileOpening(t *testing.T) {
	test(t, func(b *bench) {
		id := b.c.Send(model)
		b.worker(1).conn.Close()
		w := b.worker(2)
		w.greet()
		w.asked(hello, message{id, model})
		b.told() // the first death is not worth a word: opening goes on
		w.conn.Close()
		b.worker(2) // the second one is
		b.told(fmt.Sprintf("%d failure %d", id, proto.CodeDead))
		b.state(Connecting, Busy, Dead)

		refused := b.c.Send(ask)
		b.told(fmt.Sprintf("%d failure %d", refused, proto.CodeDead))
		b.c.Restart()
		w = b.worker(3)
		w.greet()
		w.asked(hello, message{refused + 1, model})
	})
}

// A worker that never greets is given up with the request that waits for it: trying again takes another one.
func TestStopWhileTheWorkerStarts(t *testing.T) {
	test(t, func(b *bench) {
		id := b.c.Send(model)
		b.worker(1)
		b.c.Stop(id)
		b.told(fmt.Sprintf("%d done %d", id, proto.ReasonStopped))
		b.state(Connecting, Dead)
		id = b.c.Send(model)
		w := b.worker(2)
		w.greet()
		w.asked(hello, message{id, model})
	})
}

func TestWorkerThatCannotStart(t *testing.T) {
	test(t, func(b *bench) {
		b.refuse = errors.New("no such script")
		id := b.c.Send(model)
		b.told(fmt.Sprintf("%d failure %d", id, proto.CodeDead))
		b.state(Dead)
		b.refuse = nil
		id = b.c.Send(model)
		w := b.worker(1)
		w.greet()
		w.asked(hello, message{id, model})
	})
}

func TestSilence(t *testing.T) {
	test(t, func(b *bench) {
		w := b.opened()
		time.Sleep(time.Hour) // nothing runs: nothing is asked
		w.asked()

		a := b.c.Send(ask)
		w.asked(message{a, ask})
		for range 100 { // a busy worker that answers is left alone
			time.Sleep(beat)
			for _, m := range take(b, &w.got) {
				w.say(m.id, proto.Done{})
			}
		}
		b.told()
		time.Sleep((patience + 2) * beat)
		b.told(fmt.Sprintf("%d failure %d", a, proto.CodeDead))
		b.worker(2)
	})
}

func TestOtherBuilds(t *testing.T) {
	for name, m := range map[string]proto.Event{
		"build":    proto.Hello{Version: proto.Version, Build: "b2"},
		"protocol": proto.Hello{Version: proto.Version + 1, Build: build},
		"refused":  proto.Failure{Code: proto.CodeVersion},
	} {
		t.Run(name, func(t *testing.T) {
			test(t, func(b *bench) {
				id := b.c.Send(model)
				w := b.worker(1)
				w.say(0, m)
				b.told(fmt.Sprintf("%d failure %d", id, proto.CodeVersion), fmt.Sprintf("0 failure %d", proto.CodeVersion))
				b.state(Connecting, Dead)
				b.worker(1)
			})
		})
	}
}

func TestAnotherModelIsAnotherWorker(t *testing.T) {
	test(t, func(b *bench) {
		first := b.opened()
		a := b.c.Send(ask)
		synctest.Wait()
		other := proto.Open{Manifest: "other.json"}
		id := b.c.Send(other)
		w := b.worker(2)
		if err := first.conn.Send(nil); !errors.Is(err, proto.ErrClosed) {
			t.Errorf("the first worker still runs: %v", err)
		}
		w.greet()
		w.asked(hello, message{id, other})
		b.told(fmt.Sprintf("%d done %d", a, proto.ReasonStopped))
		// A failed Open can be tried again where it left off.
		w.say(id, proto.Failure{Code: proto.CodeNetwork})
		id = b.c.Send(other)
		b.worker(2).asked(message{id, other})
	})
}

func TestBrokenPacketIsADeath(t *testing.T) {
	test(t, func(b *bench) {
		w := b.opened()
		if err := w.conn.Send([]byte("not a packet at all")); err != nil {
			t.Fatal(err)
		}
		b.worker(2)
	})
}
