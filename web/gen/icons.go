//go:build !js

package main

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"math"
)

// The mark is a lens over three tokens, drawn on a 24 × 24 grid: a ring, a handle and three bars in the colours of a
// sink, a recent token and a token kept by vote.
const markSVG = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24">` +
	`<style>.i{stroke:#1b1f27}@media (prefers-color-scheme:dark){.i{stroke:#e9e6df}}</style>` +
	`<circle class="i" cx="10" cy="10" r="7.2" fill="none" stroke-width="2"/>` +
	`<path class="i" d="M15.4 15.4 21 21" stroke-width="2.4" stroke-linecap="round"/>` +
	`<path fill="#bf8b1f" d="M6 7.4h2.3v5.2H6z"/><path fill="#1997cf" d="M9 7.4h2.3v5.2H9z"/>` +
	`<path fill="#831eb7" d="M12 7.4h2.3v5.2H12z"/></svg>` + "\n"

var (
	paper = color.NRGBA{0xfb, 0xfa, 0xf7, 0xff}
	ink   = color.NRGBA{0x1b, 0x1f, 0x27, 0xff}
	bars  = []color.NRGBA{{0xbf, 0x8b, 0x1f, 0xff}, {0x19, 0x97, 0xcf, 0xff}, {0x83, 0x1e, 0xb7, 0xff}}
)

// icons writes the mark as SVG and as the PNG sizes that an installed page needs. A maskable icon may be cropped to a
// circle of 80 %, so there the mark is smaller and its background fills the square.
func (s *site) icons() error {
	if err := s.write("web/icon.svg", []byte(markSVG)); err != nil {
		return err
	}
	for name, size := range map[string]struct {
		pixels int
		scale  float64 // share of the square that the mark takes
	}{
		"web/icon-192.png":      {192, 0.86},
		"web/icon-512.png":      {512, 0.86},
		"web/icon-maskable.png": {512, 0.56},
	} {
		var b bytes.Buffer
		if err := png.Encode(&b, drawMark(size.pixels, size.scale)); err != nil {
			return err
		}
		if err := s.write(name, b.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// drawMark paints the mark by distance: a pixel takes as much of a shape as its distance to the edge says.
func drawMark(size int, scale float64) *image.NRGBA {
	img := image.NewNRGBA(image.Rect(0, 0, size, size))
	unit := float64(size) * scale / 24 // pixels per unit of the grid
	margin := float64(size) * (1 - scale) / 2
	for y := range size {
		for x := range size {
			gx := (float64(x) + 0.5 - margin) / unit
			gy := (float64(y) + 0.5 - margin) / unit
			c := paper
			for i, bar := range bars {
				c = mix(c, bar, coverage(box(gx, gy, 6+3*float64(i), 7.4, 2.3, 5.2), unit))
			}
			ring := math.Abs(math.Hypot(gx-10, gy-10)-7.2) - 1
			handle := segment(gx, gy, 15.4, 15.4, 21, 21) - 1.2
			img.SetNRGBA(x, y, mix(c, ink, coverage(math.Min(ring, handle), unit)))
		}
	}
	return img
}

// coverage turns a signed distance in grid units into the share of a pixel that lies inside.
func coverage(distance, unit float64) float64 { return min(max(0.5-distance*unit, 0), 1) }

// box is the signed distance to a rectangle.
func box(x, y, left, top, width, height float64) float64 {
	dx := math.Abs(x-left-width/2) - width/2
	dy := math.Abs(y-top-height/2) - height/2
	return math.Hypot(max(dx, 0), max(dy, 0)) + min(max(dx, dy), 0)
}

// segment is the distance to a line from (ax, ay) to (bx, by).
func segment(x, y, ax, ay, bx, by float64) float64 {
	t := ((x-ax)*(bx-ax) + (y-ay)*(by-ay)) / ((bx-ax)*(bx-ax) + (by-ay)*(by-ay))
	t = min(max(t, 0), 1)
	return math.Hypot(x-ax-t*(bx-ax), y-ay-t*(by-ay))
}

func mix(a, b color.NRGBA, t float64) color.NRGBA {
	m := func(a, b uint8) uint8 { return uint8(float64(a) + (float64(b)-float64(a))*t + 0.5) }
	return color.NRGBA{m(a.R, b.R), m(a.G, b.G), m(a.B, b.B), 0xff}
}
