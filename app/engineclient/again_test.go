package engineclient

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"kvlens/wasm/proto"
)

// finish ends a request of the page and takes notice that it heard so.
func (w *worker) finish(id uint32) {
	w.b.t.Helper()
	w.say(id, proto.Done{})
	w.b.told(fmt.Sprintf("%d done 0", id))
}

// The first request starts a worker, whatever it asks; a request that never was stops nothing.
func TestAnyRequestStartsTheWorker(t *testing.T) {
	test(t, func(b *bench) {
		b.c.Stop(99)
		b.state()
		list := proto.ListModels{Manifests: []string{"m.json"}}
		id := b.c.Send(list)
		w := b.worker(1)
		w.greet()
		w.asked(hello, message{id, list})
		w.finish(id)
		b.state(Connecting, Busy, Ready)
	})
}

// What waits for the greeting still goes out one by one.
func TestWaitingRequestsRunOneByOne(t *testing.T) {
	test(t, func(b *bench) {
		id, a := b.c.Send(model), b.c.Send(ask)
		w := b.worker(1)
		w.greet()
		w.asked(hello, message{id, model})
		w.finish(id)
		w.asked(message{a, ask})
	})
}

// reopened lets a worker die and plays the next one, the n-th, until the model is open again.
func (b *bench) reopened(dead *worker, n int) *worker {
	b.t.Helper()
	dead.conn.Close()
	w := b.worker(n)
	w.greet()
	asked := take(b, &w.got)
	if len(asked) != 2 || !reflect.DeepEqual(asked[1].msg, proto.Message(model)) {
		b.t.Fatalf("worker %d was asked %+v", n, asked)
	}
	w.finish(asked[1].id)
	return w
}

// Deaths count only while nothing works in between: a worker that dies now and then is always started again.
func TestDeathsFarApart(t *testing.T) {
	test(t, func(b *bench) {
		w := b.opened()
		for n := 2; n < 8; n++ {
			w = b.reopened(w, n)
			id := b.c.Send(ask)
			w.asked(message{id, ask})
			w.finish(id)
		}
	})
}

// A model that was opened again after a death gives way to another as any does.
func TestAnotherModelAfterADeath(t *testing.T) {
	test(t, func(b *bench) {
		b.reopened(b.opened(), 2)
		other := proto.Open{Manifest: "other.json"}
		id := b.c.Send(other)
		w := b.worker(3)
		w.greet()
		w.asked(hello, message{id, other})
	})
}

// A worker that follows a silent one is asked for a sign of life of its own, and has as much time for it.
func TestSilenceTwice(t *testing.T) {
	test(t, func(b *bench) {
		w := b.opened()
		time.Sleep(beat / 2) // between two beats
		for n := 2; n < 5; n++ {
			a := b.c.Send(ask)
			w.asked(message{a, ask})
			time.Sleep(beat)
			asked := take(b, &w.got)
			if len(asked) != 1 || asked[0].msg != (proto.Ping{}) {
				t.Fatalf("after a beat worker %d was asked %+v", n-1, asked)
			}
			time.Sleep((patience - 1) * beat)
			b.told()
			time.Sleep(beat)
			b.told(fmt.Sprintf("%d failure %d", a, proto.CodeDead))
			w = b.worker(n)
			w.greet()
			opening := take(b, &w.got)[1]
			w.finish(opening.id)
			a = b.c.Send(ask)
			w.asked(message{a, ask})
			w.finish(a)
		}
	})
}
