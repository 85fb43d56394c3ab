package jsutil

import "syscall/js"

// yielder is a message channel that talks to itself: a message takes its turn after those that wait already.
type yielder struct {
	send js.Value
	back chan struct{}
}

var pinger *yielder

// Yield lets JavaScript handle what is waiting (messages, promises) and returns afterwards, in well under a millisecond.
// A timer would take four. Only one goroutine may yield at a time.
func Yield() {
	if pinger == nil {
		ch := js.Global().Get("MessageChannel").New()
		p := &yielder{back: make(chan struct{}, 1)}
		ch.Get("port1").Set("onmessage", js.FuncOf(func(js.Value, []js.Value) any {
			p.back <- struct{}{}
			return nil
		}))
		port := ch.Get("port2")
		p.send = port.Get("postMessage").Call("bind", port, js.Null())
		pinger = p
	}
	pinger.send.Invoke()
	<-pinger.back
}

// MemoryBytes is the size of this program's WASM memory, or 0 where the bootstrap script has not set self.wasm. The
// memory never shrinks: what Go frees is kept for Go.
func MemoryBytes() uint64 {
	v := js.Global().Get("wasm")
	for _, name := range []string{"instance", "exports", "mem", "buffer", "byteLength"} {
		if v.Type() != js.TypeObject && v.Type() != js.TypeFunction {
			return 0
		}
		v = v.Get(name)
	}
	if v.Type() != js.TypeNumber {
		return 0
	}
	return uint64(v.Float())
}
