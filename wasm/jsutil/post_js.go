package jsutil

import (
	"fmt"
	"syscall/js"
)

var (
	uint8Array  = js.Global().Get("Uint8Array")
	arrayBuffer = js.Global().Get("ArrayBuffer")
)

// Post sends a packet to a worker, to the page or to a port: one ArrayBuffer, transferred.
func Post(target js.Value, packet []byte) (err error) {
	defer Catch("postMessage", &err)
	a := uint8Array.New(len(packet))
	js.CopyBytesToJS(a, packet)
	buf := a.Get("buffer")
	target.Call("postMessage", buf, []any{buf})
	return nil
}

// Listen calls packet for every ArrayBuffer that arrives at target and text for every string, which is how the bootstrap
// script of a worker reports that it failed. The callbacks must not block. Call the result to stop listening.
func Listen(target js.Value, packet func([]byte), text func(string)) (stop func()) {
	f := js.FuncOf(func(_ js.Value, args []js.Value) any {
		data := args[0].Get("data")
		switch {
		case data.InstanceOf(arrayBuffer):
			a := uint8Array.New(data)
			p := make([]byte, a.Length())
			js.CopyBytesToGo(p, a)
			packet(p)
		case data.Type() == js.TypeString:
			text(data.String())
		}
		return nil
	})
	target.Set("onmessage", f)
	return func() {
		target.Set("onmessage", nil)
		f.Release()
	}
}

// Catch turns a thrown JavaScript exception into an error. Use it with defer around calls that may throw.
func Catch(what string, err *error) {
	switch r := recover().(type) {
	case nil:
	case js.Error:
		*err = fmt.Errorf("jsutil: %s: %w", what, r)
	default:
		panic(r)
	}
}
