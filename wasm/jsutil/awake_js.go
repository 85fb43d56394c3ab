package jsutil

import "syscall/js"

// refused hears that a lock was not given, as in a sandboxed frame: then it goes without.
var refused = js.FuncOf(func(js.Value, []js.Value) any { return nil })

// Awake keeps the browser from freezing this tab while it is hidden, until done is called, once: tabs that hold a Web Lock are
// left running. Browsers without locks freeze what they like.
func Awake() (done func()) {
	locks := js.Global().Get("navigator").Get("locks")
	if !locks.Truthy() {
		return func() {}
	}
	var release js.Value
	hold := js.FuncOf(func(_ js.Value, args []js.Value) any { // the executor of the promise that the lock waits for
		release = args[0]
		return nil
	})
	promise := js.Global().Get("Promise").New(hold)
	hold.Release()
	var granted js.Func
	granted = js.FuncOf(func(js.Value, []js.Value) any {
		granted.Release()
		return promise
	})
	options := js.Global().Get("Object").New()
	options.Set("mode", "shared") // tabs do not wait for each other
	locks.Call("request", "kvlens awake", options, granted).Call("catch", refused)
	return func() { release.Invoke() }
}
