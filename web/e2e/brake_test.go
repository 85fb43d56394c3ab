//go:build !js

package e2e

import "fmt"

// brake goes before the worker's own script and lets a test hold the engine, so that nothing hangs on who is quicker:
// after "hold N", and once it has sent N tokens, the engine does not come back from the next place where it gives way
// until it has heard Stop. It gives way by a message to itself. The numbers are kinds of packets (wasm/proto).
const brake = `{
	const stop = 19, step = 67;
	const kind = (data) => data instanceof ArrayBuffer ? new DataView(data).getUint32(0, true) : 0;
	const post = self.postMessage, send = MessagePort.prototype.postMessage;
	let left = Infinity, held = null;
	self.postMessage = (data, ...more) => {
		if (kind(data) === step) left--;
		post.call(self, data, ...more);
	};
	MessagePort.prototype.postMessage = function (...a) {
		const go = () => send.apply(this, a);
		if (left > 0) go(); else held = go;
	};
	self.addEventListener("message", ({data}) => {
		if (typeof data === "string" && data.startsWith("hold ")) left = Number(data.slice(5));
		if (kind(data) !== stop) return;
		left = Infinity;
		held?.();
		held = null;
	});
}
`

// withBrake puts the brake into the worker.
func (h *host) withBrake() *host { return h.beforeEngine(brake) }

// beforeEngine puts a script before the worker's own.
func (h *host) beforeEngine(script string) *host {
	h.change = func(name string, body []byte) []byte {
		if name == "web/engine.js" {
			return append([]byte(script+"\n"), body...)
		}
		return body
	}
	return h
}

// hold makes the engine stand still in its next turn once that has so many tokens; 0 is while it reads.
func (v *visitor) hold(tokens int) {
	v.Helper()
	eval[bool](v, fmt.Sprintf(`(window.testWorkers.at(-1).postMessage("hold %d"), true)`, tokens))
}

// watchWorkers lets a test reach the page's workers, the way a debugger would, and notes what they say of a request after
// its end: Done or Failure is the last that is heard of it.
const watchWorkers = `{
	const done = 70, failure = 71, Real = Worker;
	window.testWorkers = [];
	window.testLate = [];
	window.Worker = class extends Real {
		constructor(...a) {
			super(...a);
			window.testWorkers.push(this);
			const ended = new Set();
			this.addEventListener("message", ({data}) => {
				if (!(data instanceof ArrayBuffer)) return;
				const [kind, id] = new Uint32Array(data, 0, 2);
				if (ended.has(id)) window.testLate.push("kind " + kind + " of request " + id);
				if (id > 0 && (kind === done || kind === failure)) ended.add(id);
			});
		}
	};
}`

// late fails the test if something came after the end of its request, since the page was loaded.
func (v *visitor) late() {
	v.Helper()
	if late := eval[[]string](v, `window.testLate`); len(late) > 0 {
		v.Errorf("after the end of their requests came %q", late)
	}
}
