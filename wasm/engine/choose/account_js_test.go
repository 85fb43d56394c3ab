package choose

import (
	"syscall/js"
	"testing"

	"kvlens/wasm/gpu"
)

// account gives the bytes of a new device's buffers, by watching the browser make and destroy them, and holds the
// device's own count to it.
func account(t *testing.T, dev gpu.Device) func() int64 {
	watch := js.Global().Call("eval", `(() => {
		const device = GPUDevice.prototype, buffer = GPUBuffer.prototype;
		const {createBuffer} = device, {destroy} = buffer;
		const live = new Map();
		device.createBuffer = function (descriptor) {
			const b = createBuffer.call(this, descriptor);
			live.set(b, descriptor.size);
			return b;
		};
		buffer.destroy = function () {
			live.delete(this);
			destroy.call(this);
		};
		return {
			bytes: () => [...live.values()].reduce((a, b) => a + b, 0),
			undo: () => { Object.assign(device, {createBuffer}); Object.assign(buffer, {destroy}); },
		};
	})()`)
	t.Cleanup(func() { watch.Call("undo") })
	return func() int64 {
		t.Helper()
		bytes := int64(watch.Call("bytes").Int())
		if _, own := dev.Live(); own != bytes {
			t.Errorf("the device says %d bytes, the browser %d", own, bytes)
		}
		return bytes
	}
}
