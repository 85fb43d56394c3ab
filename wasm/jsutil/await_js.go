package jsutil

import (
	"context"
	"syscall/js"
)

// Await waits for a promise. A rejection is an error that wraps the js.Error; its Name tells kinds apart ("AbortError",
// "QuotaExceededError", …, see Name). When ctx ends first, the promise goes on unheard.
func Await(ctx context.Context, promise js.Value) (js.Value, error) {
	type result struct {
		v   js.Value
		err error
	}
	settled := make(chan result, 1)
	var then, catch js.Func
	done := func(r result) any {
		settled <- r
		then.Release()
		catch.Release()
		return nil
	}
	then = js.FuncOf(func(_ js.Value, args []js.Value) any { return done(result{v: arg(args)}) })
	catch = js.FuncOf(func(_ js.Value, args []js.Value) any { return done(result{err: js.Error{Value: reason(arg(args))}}) })
	promise.Call("then", then, catch)
	select {
	case r := <-settled:
		return r.v, r.err
	case <-ctx.Done():
		return js.Undefined(), ctx.Err()
	}
}

func arg(args []js.Value) js.Value {
	if len(args) == 0 {
		return js.Undefined()
	}
	return args[0]
}

// reason makes an Error object of whatever a promise was rejected with, because js.Error reads its message.
func reason(v js.Value) js.Value {
	if v.Type() == js.TypeObject && v.Get("message").Type() == js.TypeString {
		return v
	}
	return js.Global().Get("Error").New(js.Global().Get("String").Invoke(v))
}

// Name is the name of a JavaScript error object ("QuotaExceededError"), or "".
func Name(err js.Error) string {
	if n := err.Value.Get("name"); n.Type() == js.TypeString {
		return n.String()
	}
	return ""
}
