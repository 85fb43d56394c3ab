package weights

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall/js"

	"kvlens/wasm/jsutil"
)

// Browser makes the store of a worker: over the origin private file system, or, where that is missing (old browsers,
// private windows, blocked storage), over memory for this visit. Kept says which.
func Browser(ctx context.Context) *Store {
	net := fetcher{}
	if root, err := openOPFS(ctx); err == nil {
		return NewStore(root, net)
	}
	return NewStore(&tabFS{newMemoryFS(newJSPage)}, net)
}

var (
	object     = js.Global().Get("Object")
	uint8Array = js.Global().Get("Uint8Array")
	promise    = js.Global().Get("Promise")
	aborter    = js.Global().Get("AbortController")
)

// options makes a plain JavaScript object of key, value, key, value …
func options(kv ...any) js.Value {
	o := object.New()
	for i := 0; i < len(kv); i += 2 {
		o.Set(kv[i].(string), kv[i+1])
	}
	return o
}

// call calls a method that may throw.
func call(v js.Value, method string, args ...any) (out js.Value, err error) {
	defer func() { err = storageError(err) }()
	defer jsutil.Catch(method, &err)
	return v.Call(method, args...), nil
}

// await calls a method that returns a promise and waits for it.
func await(ctx context.Context, v js.Value, method string, args ...any) (js.Value, error) {
	p, err := call(v, method, args...)
	if err != nil {
		return p, err
	}
	out, err := jsutil.Await(ctx, p)
	return out, storageError(err)
}

// storageError gives the browser's errors the meanings that the Store decides on.
func storageError(err error) error {
	var thrown js.Error
	if !errors.As(err, &thrown) {
		return err
	}
	switch jsutil.Name(thrown) {
	case "QuotaExceededError":
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	case "NotFoundError":
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return err
}

// webLock holds a lock among all tabs of the origin. Browsers without locks have none.
func webLock(ctx context.Context, name string) (unlock func(), err error) {
	locks := js.Global().Get("navigator").Get("locks")
	if locks.IsUndefined() {
		return func() {}, nil
	}
	var resolve js.Value
	executor := js.FuncOf(func(_ js.Value, args []js.Value) any {
		resolve = args[0]
		return nil
	})
	held := promise.New(executor) // until it is resolved, the lock is held
	executor.Release()
	got := make(chan struct{})
	granted := js.FuncOf(func(js.Value, []js.Value) any {
		close(got)
		return held
	})
	abort := aborter.New()
	request, err := call(locks, "request", name, options("signal", abort.Get("signal")), granted)
	if err != nil {
		granted.Release()
		return nil, err
	}
	over := make(chan error, 1)
	go func() {
		_, err := jsutil.Await(context.Background(), request)
		granted.Release()
		over <- err
	}()
	select {
	case <-got:
		return func() { resolve.Invoke() }, nil
	case err := <-over:
		return nil, err
	case <-ctx.Done():
		abort.Call("abort")
		resolve.Invoke() // in case it was granted at the last moment
		return nil, ctx.Err()
	}
}

// tabFS is memory, with locks among tabs all the same: they save a second download at the same time.
type tabFS struct{ *memoryFS }

func (tabFS) Lock(ctx context.Context, name string) (func(), error) { return webLock(ctx, name) }

// jsPage is memory of JavaScript, which is given back when nobody refers to it, unlike Go's.
type jsPage js.Value

func newJSPage() page { return jsPage(uint8Array.New(pageSize)) }

func (b jsPage) read(p []byte, off int) {
	js.CopyBytesToGo(p, js.Value(b).Call("subarray", off, off+len(p)))
}

func (b jsPage) write(p []byte, off int) {
	js.CopyBytesToJS(js.Value(b).Call("subarray", off, off+len(p)), p)
}
