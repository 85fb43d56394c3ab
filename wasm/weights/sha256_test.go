package weights

import (
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"testing"
)

// The examples of FIPS 180-4, and everything else as the toolchain has it: all lengths around a block, written in pieces
// of any length.
func TestDigester(t *testing.T) {
	for text, want := range map[string]string{
		"":    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		"abc": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
		"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq": "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
	} {
		d := newDigester()
		d.Write([]byte(text))
		if got := d.sum(); hex.EncodeToString(got[:]) != want {
			t.Errorf("%q: %x, want %s", text, got, want)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 300 {
		data := make([]byte, n)
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		d := newDigester()
		for rest := data; len(rest) > 0; {
			k := min(len(rest), r.IntN(150))
			d.Write(rest[:k])
			rest = rest[k:]
			d.sum() // looking changes nothing
		}
		if got, want := d.sum(), sha256.Sum256(data); got != want {
			t.Fatalf("%d bytes: %x, want %x", n, got, want)
		}
	}
}

func BenchmarkDigester(b *testing.B) {
	data := make([]byte, 1<<20)
	for _, h := range []struct {
		name string
		sum  func()
	}{
		{"own", func() { d := newDigester(); d.Write(data); d.sum() }},
		{"toolchain", func() { sha256.Sum256(data) }},
	} {
		b.Run(h.name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				h.sum()
			}
		})
	}
}
