package weights

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/bits"
)

// digester computes SHA-256 (FIPS 180-4) of what is written to it; Write never fails. The toolchain's package brings its
// whole module of ciphers and self-tests with it, which is 47 kB of the engine's download.
type digester struct {
	h     [8]uint32
	block [64]byte
	n     int // bytes in block
	size  uint64
}

// The first 32 bits of the fractional parts of the square roots of the first 8 primes, and of the cube roots of the
// first 64.
var sha256Begin, sha256Rounds = func() (begin [8]uint32, rounds [64]uint32) {
	fraction := func(x float64) uint32 { return uint32((x - math.Floor(x)) * (1 << 32)) }
	for n, i := 2, 0; i < len(rounds); n++ {
		prime := true
		for d := 2; d*d <= n; d++ {
			prime = prime && n%d != 0
		}
		if !prime {
			continue
		}
		if i < len(begin) {
			begin[i] = fraction(math.Sqrt(float64(n)))
		}
		rounds[i] = fraction(math.Cbrt(float64(n)))
		i++
	}
	return begin, rounds
}()

func newDigester() *digester { return &digester{h: sha256Begin} }

// Write adds bytes.
func (d *digester) Write(p []byte) (int, error) {
	n := len(p)
	d.size += uint64(n)
	if d.n > 0 {
		took := copy(d.block[d.n:], p)
		d.n, p = d.n+took, p[took:]
		if d.n < len(d.block) {
			return n, nil
		}
		d.add(d.block[:])
	}
	whole := len(p) &^ 63
	d.add(p[:whole])
	d.n = copy(d.block[:], p[whole:])
	return n, nil
}

// sum is the digest of what was written so far.
func (d *digester) sum() (out [32]byte) {
	end := *d
	pad := append(make([]byte, 0, 72), 0x80)
	pad = pad[:1+(119-end.n)%64]
	end.Write(binary.BigEndian.AppendUint64(pad, end.size*8))
	for i, v := range end.h {
		binary.BigEndian.PutUint32(out[4*i:], v)
	}
	return out
}

// hex is the digest in lower-case hex digits, as manifests have it.
func (d *digester) hex() string {
	sum := d.sum()
	return hex.EncodeToString(sum[:])
}

// add adds whole blocks.
func (d *digester) add(p []byte) {
	var w [64]uint32
	for ; len(p) > 0; p = p[64:] {
		for i := range 16 {
			w[i] = binary.BigEndian.Uint32(p[4*i:])
		}
		for i := 16; i < 64; i++ {
			x, y := w[i-15], w[i-2]
			w[i] = w[i-16] + w[i-7] +
				(bits.RotateLeft32(x, -7) ^ bits.RotateLeft32(x, -18) ^ x>>3) +
				(bits.RotateLeft32(y, -17) ^ bits.RotateLeft32(y, -19) ^ y>>10)
		}
		a, b, c, e, f, g, h, l := d.h[0], d.h[1], d.h[2], d.h[4], d.h[5], d.h[6], d.h[7], d.h[3]
		for i := range 64 {
			t := h + (bits.RotateLeft32(e, -6) ^ bits.RotateLeft32(e, -11) ^ bits.RotateLeft32(e, -25)) +
				(e&f ^ ^e&g) + sha256Rounds[i] + w[i]
			u := (bits.RotateLeft32(a, -2) ^ bits.RotateLeft32(a, -13) ^ bits.RotateLeft32(a, -22)) + (a&b ^ a&c ^ b&c)
			h, g, f, e, l, c, b, a = g, f, e, l+t, c, b, a, t+u
		}
		for i, v := range [8]uint32{a, b, c, l, e, f, g, h} {
			d.h[i] += v
		}
	}
}
