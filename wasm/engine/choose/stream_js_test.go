package choose

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"strings"
	"syscall/js"
	"testing"

	"kvlens/cache"
	"kvlens/wasm/gpu/gputest"
	"kvlens/wasm/kernel"
	"kvlens/wasm/llama"
	"kvlens/wasm/quant"
	"kvlens/wasm/step"
	"kvlens/wasm/weights"
)

// streamed counts the bytes that go past Go's memory, and those that go through it.
type streamed struct {
	*backend
	past, through int64
}

func (s *streamed) Stream(dst step.Buffer, off int64, f *weights.File, from, n int64) (bool, error) {
	ok, err := s.backend.Stream(dst, off, f, from, n)
	if ok {
		s.past += n
	}
	return ok, err
}

func (s *streamed) Upload(dst step.Buffer, off int64, src []byte) error {
	s.through += int64(len(src))
	return s.backend.Upload(dst, off, src)
}

// A stored model's halves and floats go from the browser's files to the device, and arrive.
func TestStream(t *testing.T) {
	dev := gputest.Open(t)
	for _, kind := range []quant.Type{quant.F16, quant.F32, quant.Q8_0} {
		data := model([]quant.Type{kind})
		serve(t, data)
		m, err := weights.Browser(ctx).Open(ctx, "https://models.example/"+kind.String()+"/manifest.json", nil)
		if err != nil {
			t.Fatal(err)
		}
		stored, err := m.File()
		if err != nil {
			t.Fatal(err)
		}
		plain, err := weights.Open(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		lib := kernel.NewLibrary(dev)
		var slabs [2][]byte
		for i, f := range []*weights.File{stored, plain} {
			b := &streamed{backend: &backend{Backend: lib.Backend(new(cache.Ledger)), dev: dev}}
			x, err := llama.Load(ctx, f, b, llama.Options{})
			if err != nil {
				t.Fatal(err)
			}
			_, size, err := llama.Check(f)
			if err != nil {
				t.Fatal(err)
			}
			slabs[i] = make([]byte, size)
			if err := b.Read(1, 0, slabs[i]); err != nil { // the first buffer is the weights'
				t.Fatal(err)
			}
			if i == 0 && (b.past < int64(hidden*4*(2*layers+1)) || kind != quant.Q8_0 && b.past != tensors(f)) {
				t.Errorf("%v: %d bytes of %d went past Go's memory", kind, b.past, tensors(f))
			}
			x.Close()
			_ = b.Backend.Close() // it never fails
		}
		if !bytes.Equal(slabs[0], slabs[1]) {
			t.Errorf("%v: other bytes have arrived", kind)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

func tensors(f *weights.File) (n int64) {
	for _, t := range f.Tensors {
		n += t.Size
	}
	return n
}

// serve puts a model of one part in the place of the network.
func serve(t *testing.T, data []byte) {
	real := js.Global().Get("fetch")
	sum := fmt.Sprintf("%x", sha256.Sum256(data))
	manifest := fmt.Sprintf(`{"format":1,"id":"m","name":"m","licence":"MIT","source":"made here","size":%d,"sha256":%q,`+
		`"parts":[{"name":"p.bin","size":%d,"sha256":%q}],"prompt":{"mode":"chat"},"stop":[]}`, len(data), sum, len(data), sum)
	fake := js.FuncOf(func(_ js.Value, args []js.Value) any {
		body := []byte(manifest)
		if strings.HasSuffix(args[0].String(), ".bin") {
			body = data
		}
		a := js.Global().Get("Uint8Array").New(len(body))
		js.CopyBytesToJS(a, body)
		head := map[string]any{"headers": map[string]any{"content-type": "application/octet-stream"}}
		return js.Global().Get("Promise").Call("resolve", js.Global().Get("Response").New(a, head))
	})
	js.Global().Set("fetch", fake)
	t.Cleanup(func() {
		js.Global().Set("fetch", real)
		fake.Release()
	})
}
