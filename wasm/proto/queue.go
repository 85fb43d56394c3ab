package proto

import (
	"context"
	"sync"
)

// Queue is an unbounded queue between goroutines: a JavaScript callback must not block, so Push never does.
type Queue[T any] struct {
	mu    sync.Mutex
	items []T
	err   error
	ready chan struct{} // holds a token while there is something to pop
}

// NewQueue makes an empty queue.
func NewQueue[T any]() *Queue[T] { return &Queue[T]{ready: make(chan struct{}, 1)} }

// Push appends an item; after Fail it reports that error.
func (q *Queue[T]) Push(item T) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err != nil {
		return q.err
	}
	q.items = append(q.items, item)
	q.signal()
	return nil
}

// Fail ends the queue: items that are in it can still be popped, then Pop reports err. The first error stays.
func (q *Queue[T]) Fail(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err == nil {
		q.err = err
	}
	q.signal()
}

// Pop waits for the next item.
func (q *Queue[T]) Pop(ctx context.Context) (T, error) {
	for {
		if item, ok, err := q.next(); ok || err != nil {
			return item, err
		}
		select {
		case <-q.ready:
		case <-ctx.Done():
			var none T
			return none, ctx.Err()
		}
	}
}

func (q *Queue[T]) next() (item T, ok bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items) == 0 {
		if q.err != nil {
			q.signal() // for other readers
		}
		return item, false, q.err
	}
	var none T
	item, q.items[0] = q.items[0], none
	q.items = q.items[1:]
	if len(q.items) > 0 {
		q.signal()
	}
	return item, true, nil
}

func (q *Queue[T]) signal() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}
