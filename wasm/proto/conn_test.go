package proto

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
)

func TestPipe(t *testing.T) {
	ctx := context.Background()
	page, engine := Pipe()
	var wg sync.WaitGroup
	for _, c := range []struct{ from, to Conn }{{page, engine}, {engine, page}} {
		wg.Go(func() {
			for id := range uint32(100) {
				if err := c.from.Send(Encode(id, Ping{})); err != nil {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			for want := range uint32(100) {
				p, err := c.to.Recv(ctx)
				if id, _, _ := Decode(p); err != nil || id != want {
					t.Errorf("packet %d arrived as %d, %v", want, id, err)
				}
			}
		})
	}
	wg.Wait()

	if err := page.Send([]byte("last words")); err != nil {
		t.Fatal(err)
	}
	page.Close()
	if p, err := engine.Recv(ctx); string(p) != "last words" || err != nil {
		t.Errorf("what was sent before Close is lost: %q, %v", p, err)
	}
	for _, c := range []Conn{page, engine} {
		if _, err := c.Recv(ctx); !errors.Is(err, ErrClosed) {
			t.Errorf("Recv after Close: %v", err)
		}
		if err := c.Send(nil); !errors.Is(err, ErrClosed) {
			t.Errorf("Send after Close: %v", err)
		}
	}
}

func TestPopEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := NewQueue[int]().Pop(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestEveryReaderHearsTheEnd: the end of a queue wakes all who wait, not one of them.
func TestEveryReaderHearsTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue[int]()
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if _, err := q.Pop(t.Context()); !errors.Is(err, ErrClosed) {
					t.Errorf("got %v", err)
				}
			})
		}
		synctest.Wait() // all wait
		q.Fail(ErrClosed)
		wg.Wait()
	})
}
