package canvas

// Matrix is the attention of some queries over keys. Cells stand for Pool tokens each, as the engine makes them.
type Matrix struct {
	Tokens int       // keys
	First  int       // position of the first query
	Pool   int       // tokens to a cell of a row
	Step   int       // queries to a row
	Rows   [][]uint8 // codes, by row of queries
	// Left is how many tokens the conversation had when each key left, so that queries from that one on do not see it;
	// keys beyond its end stay. Would are the codes that evicted keys would have had, in rows like Rows, or none.
	Left  []uint32
	Would [][]uint8
}

// hatch is the line across what was evicted: between light and dark, so that it can be seen on paper of both themes.
var hatch = Pixel{0xb8, 0x62, 0x48, 255}

const (
	faint    = 150 // opacity of what an evicted token would have received
	hatching = 5   // device-independent pixels from line to line, across
)

// Draw fills a picture of w × h pixels: rows down, keys across. The largest of what shares a pixel is shown. What lies in a
// query's future stays clear, and so does, under its hatching, what was evicted. Ratio is the number of pixels to a CSS pixel.
func (p *Picture) Draw(m *Matrix, w, h int, s *Scale, ratio float64) {
	p.Reset(w, h)
	if len(m.Rows) == 0 || m.Tokens <= 0 || m.Pool <= 0 || w <= 0 || h <= 0 {
		return
	}
	cells := (m.Tokens + m.Pool - 1) / m.Pool
	seen, would := make([]uint8, cells), make([]uint8, cells)
	row, wouldRow := make([]uint8, w), make([]uint8, w)
	left, first := m.columns(w)
	period, thick := max(3, int(hatching*ratio)), max(1, int(ratio))
	was, plain := [2]int{-1, -1}, false
	for y := range h {
		from, to := span(y, h, len(m.Rows))
		if was == [2]int{from, to} && plain { // a line of the same row, without hatching
			copy(p.Pix[4*y*w:4*(y+1)*w], p.Pix[4*(y-1)*w:])
			continue
		}
		if was != [2]int{from, to} {
			was = [2]int{from, to}
			merge(seen, m.Rows, from, to)
			Resample(row, seen)
			merge(would, m.Would, from, to)
			Resample(wouldRow, would)
		}
		last := m.First + to*m.Step - 1 // the last query of this line
		plain = true
		for x := range w {
			switch {
			case first[x] > last: // and so are all further ones
			case uint32(last) < left[x]:
				copy(p.Pix[4*(y*w+x):], s[row[x]][:])
				continue
			default:
				p.gone(x, y, (x+y)%period < thick, wouldRow[x], s)
				plain = false
				continue
			}
			break
		}
	}
}

// gone draws a pixel of what was evicted.
func (p *Picture) gone(x, y int, line bool, would uint8, s *Scale) {
	switch {
	case line:
		p.set(x, y, hatch)
	case would > 0:
		c := s[would]
		c[3] = faint
		p.set(x, y, c)
	}
}

// columns are, for each pixel of a line w wide, when the last of the keys behind it left, and the first of these keys.
func (m *Matrix) columns(w int) (left []uint32, first []int) {
	const stays = ^uint32(0)
	left, first = make([]uint32, w), make([]int, w)
	for x := range left {
		from, to := span(x, w, m.Tokens)
		first[x] = from
		for k := from; k < to; k++ {
			at := stays
			if k < len(m.Left) {
				at = m.Left[k]
			}
			left[x] = max(left[x], at)
		}
	}
	return left, first
}

// merge is the largest of some rows, cell by cell.
func merge(dst []uint8, rows [][]uint8, from, to int) {
	clear(dst)
	for _, row := range rows[min(from, len(rows)):min(to, len(rows))] {
		for i, c := range row[:min(len(row), len(dst))] {
			dst[i] = max(dst[i], c)
		}
	}
}

// span is which of n things fall on pixel i of w: one where they grow, all of them where they shrink.
func span(i, w, n int) (from, to int) {
	if w >= n {
		from = i * n / w
		return from, from + 1
	}
	return i * n / w, (i + 1) * n / w
}

// At is which of n things lies under a place from 0 to 1, and Middle the place of one.
func At(place float64, n int) int { return max(0, min(n-1, int(place*float64(n)))) }

// Middle is where between 0 and 1 the middle of one of n things lies.
func Middle(i, n int) float64 { return (float64(i) + 0.5) / float64(max(1, n)) }
