package kernel

import (
	"fmt"
	"syscall/js"

	"kvlens/wasm/gpu"
	"kvlens/wasm/step"
)

// UploadValue is Upload of n bytes of a Uint8Array, from byte from on, that never were in Go's memory. Ranges are in
// whole words.
func (b *Backend) UploadValue(dst step.Buffer, off int64, array js.Value, from, n int64) error {
	m, err := b.find(dst, off, n)
	if err != nil {
		return err
	}
	w, ok := b.dev.(gpu.ValueWriter)
	if !ok {
		return fmt.Errorf("webgpu: upload to %s: the device takes no values", m.name)
	}
	if err := w.WriteValue(m.buf, m.base+off, array, from, n); err != nil {
		return fmt.Errorf("webgpu: upload to %s: %w", m.name, err)
	}
	return nil
}
