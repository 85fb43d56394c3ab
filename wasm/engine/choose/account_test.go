//go:build !js

package choose

import (
	"testing"

	"kvlens/wasm/gpu"
)

// account gives the bytes of a new device's buffers: natively by its own count.
func account(_ *testing.T, dev gpu.Device) func() int64 {
	return func() int64 {
		_, bytes := dev.Live()
		return bytes
	}
}
