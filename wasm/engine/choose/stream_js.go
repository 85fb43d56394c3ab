package choose

import (
	"syscall/js"

	"kvlens/wasm/step"
	"kvlens/wasm/weights"
)

// Stream copies n bytes of a file to the device from where the browser keeps them.
func (b *backend) Stream(dst step.Buffer, off int64, f *weights.File, from, n int64) (bool, error) {
	return f.Values(from, n, func(array js.Value, at, size int64) error {
		err := b.UploadValue(dst, off, array, at, size)
		off += size
		return err
	})
}
