// Package canvas turns attention into pixels: codes in, RGBA out, nothing else. Codes are those of wasm/proto's Step.Rows:
// c > 0 stands for 10^(4c/255 − 4), 0 for anything smaller than 10⁻⁴.
package canvas

import "math"

// Pixel is red, green, blue and opacity, not premultiplied.
type Pixel [4]byte

// stops are cividis, ten colours from least to most: dark blue to light yellow, made so that its lightness grows evenly and
// readers of all colour visions see the same order (Nuñez, Anderton and Renslow, 2018, doi:10.1371/journal.pone.0199239).
var stops = [10][3]float64{
	{0x00, 0x20, 0x4d},
	{0x00, 0x33, 0x6f},
	{0x39, 0x48, 0x6b},
	{0x57, 0x5c, 0x6d},
	{0x70, 0x71, 0x73},
	{0x8a, 0x87, 0x79},
	{0xa6, 0x9d, 0x75},
	{0xc4, 0xb5, 0x6c},
	{0xe4, 0xcf, 0x5b},
	{0xff, 0xea, 0x46},
}

// Scale gives each code its colour.
type Scale [256]Pixel

// Log and Linear show the logarithm of a weight, and the weight.
var (
	Log    = scale(func(code int) float64 { return float64(code) / 255 })
	Linear = scale(func(code int) float64 { return float64(Weight(uint8(code))) })
)

func scale(at func(code int) float64) *Scale {
	var s Scale
	for i := range s {
		s[i] = Colour(at(i))
	}
	return &s
}

// Colour is cividis at v, which is cut to 0…1.
func Colour(v float64) Pixel {
	v = max(0, min(1, v)) * float64(len(stops)-1)
	i := min(int(v), len(stops)-2)
	var p Pixel
	for c := range 3 {
		a, b := stops[i][c], stops[i+1][c]
		p[c] = uint8(math.Round(a + (b-a)*(v-float64(i))))
	}
	p[3] = 255
	return p
}

// weights are what codes stand for.
var weights = func() (w [256]float32) {
	for i := 1; i < len(w); i++ {
		w[i] = float32(math.Pow(10, 4*float64(i)/255-4))
	}
	return w
}()

// Weight is the attention that a code stands for.
func Weight(code uint8) float32 { return weights[code] }
