package canvas

// Picture is W × H pixels, row after row.
type Picture struct {
	W, H int
	Pix  []byte // RGBA
}

// Reset makes the picture another size and clears it; its memory is used again.
func (p *Picture) Reset(w, h int) {
	n := 4 * max(0, w) * max(0, h)
	if cap(p.Pix) < n {
		p.Pix = make([]byte, n)
	}
	p.W, p.H, p.Pix = w, h, p.Pix[:n]
	clear(p.Pix)
}

func (p *Picture) set(x, y int, c Pixel) { copy(p.Pix[4*(y*p.W+x):], c[:]) }

// Resample stretches a row or shrinks it. Of cells that share a place the largest stays, so that none vanishes.
func Resample(dst, src []uint8) {
	n, m := len(src), len(dst)
	switch {
	case n == 0:
		clear(dst)
	case m >= n:
		for i := range dst {
			dst[i] = src[i*n/m]
		}
	default:
		for i := range dst {
			dst[i] = most(src[i*n/m : (i+1)*n/m])
		}
	}
}

// Pool shrinks a row to a cell for every stride tokens, counted from the first, and appends it to dst.
func Pool(dst, src []uint8, stride int) []uint8 {
	for stride = max(1, stride); len(src) > stride; src = src[stride:] {
		dst = append(dst, most(src[:stride]))
	}
	if len(src) > 0 {
		dst = append(dst, most(src))
	}
	return dst
}

func most(codes []uint8) (m uint8) {
	for _, c := range codes {
		m = max(m, c)
	}
	return m
}

// Strips draws rows of different lengths below each other, the first at the top, flush left, h pixels high in all; what a
// row lacks of the width is left clear. Pictures of equal groups of rows, each h pixels high, follow each other.
func (p *Picture) Strips(groups [][][]uint8, w, h int, s *Scale) {
	p.Reset(w, h*len(groups))
	for g, rows := range groups {
		for y := range h {
			row := rows[y*len(rows)/h]
			line := p.Pix[4*(g*h+y)*w:]
			for x, code := range row[:min(w, len(row))] {
				copy(line[4*x:], s[code][:])
			}
		}
	}
}

// Cells draws a value from 0 to 1 in each of w × h pixels; what is not a number is left clear.
func (p *Picture) Cells(values []float32, w, h int) {
	p.Reset(w, h)
	for i, v := range values[:min(len(values), w*h)] {
		if v == v {
			p.set(i%w, i/w, Colour(float64(v)))
		}
	}
}
