package kernel

import (
	"fmt"
	"maps"
	"math"
	"strconv"

	"kvlens/cache"
	"kvlens/shaders"
	"kvlens/wasm/gpu"
	"kvlens/wasm/quant"
	"kvlens/wasm/step"
)

// node is one dispatch of a program: a kernel with its parameters and buffers, but for what depends on the session and
// on the number of rows.
type node struct {
	variant shaders.Variant
	tiled   bool // takes rows in tiles
	pages   bool // depends on the format of pages
	params  []uint32
	at      int64 // of the parameters in the program's buffer

	codes, scales, norm gpu.Binding // bindings of weights, where there are any
	x, y                step.Name   // buffers behind the names x and y

	threads func(rows int) int // in x and y; nil where grid says it
	grid    func() (x, y int)
	work    int // multiplications a row
	from    source
	groups  map[groupKey]boundGroup
}

// groupKey is what a node's bind group depends on.
type groupKey struct {
	session *session
	id      gpu.Pipeline
}

// tile is how many rows share a pass over the weights in prefill.
const tile = 8

// splits is how many workgroups share a head's slots in decode.
const (
	splits      = 16
	plainSplits = 4
)

// choose completes a variant for a run: the rows decide on tiles, the session on pages.
func (n *node) choose(s *session, rows int) shaders.Variant {
	v := n.variant
	if !n.tiled && !n.pages {
		return v
	}
	v.Consts = maps.Clone(v.Consts)
	if v.Consts == nil {
		v.Consts = map[string]string{}
	}
	if n.tiled {
		v.Consts["TILE"] = "1u"
		if rows > 1 {
			v.Consts["TILE"] = strconv.Itoa(tile) + "u"
		}
	}
	if n.pages {
		for _, c := range pageConsts[v.Kernel] {
			f := s.geo.Value
			if c == "KEY_F16" {
				f = s.geo.Key
			}
			v.Consts[c] = strconv.FormatBool(f == cache.F16)
		}
	}
	return v
}

// pageConsts are the constants by which kernels know the formats of pages; those that read only one kind declare both.
var pageConsts = map[string][]string{
	"attend": {"KEY_F16", "VALUE_F16"}, "store": {"KEY_F16", "VALUE_F16"}, "qkv": {"KEY_F16", "VALUE_F16"},
	"score": {"KEY_F16"}, "weigh": {"VALUE_F16"}, "view": {"KEY_F16"},
}

// size is the node's grid for so many rows.
func (n *node) size(l *Library, rows int) (x, y, z uint32) {
	z = 1
	if n.tiled && rows > 1 {
		z = uint32((rows + tile - 1) / tile)
	}
	if n.grid != nil {
		gx, gy := n.grid()
		return uint32(gx), uint32(gy), z
	}
	most := l.dev.Info().Limits.Workgroups
	groups := max(1, up(n.threads(rows), shaders.Group)) // lists may be empty
	gy := (groups + most - 1) / most
	return uint32((groups + gy - 1) / gy), uint32(gy), z
}

// weightPart is some rows of a matrix that one binding reaches.
type weightPart struct {
	first, rows       int
	codes, scales     gpu.Binding
	codesAt, scalesAt uint32 // of row 0 in the bindings: in words, or in halves where elements are halves
}

// weights finds a matrix, in as many parts as the device's bindings need.
func (b *Backend) weights(t step.Tensor, rows, cols int) ([]weightPart, error) {
	switch {
	case t.Rows != rows || t.Cols != cols:
		return nil, fmt.Errorf("is %d × %d instead of %d × %d", t.Rows, t.Cols, rows, cols)
	case t.Layout > quant.Layout8:
		return nil, fmt.Errorf("has unknown layout %d", t.Layout)
	case t.Layout >= quant.Layout4 && cols%quant.GroupSize != 0:
		return nil, fmt.Errorf("has %d columns, no multiple of %d", cols, quant.GroupSize)
	case t.Off%16 != 0:
		return nil, fmt.Errorf("starts at %d, no multiple of 16", t.Off)
	}
	scaleOff, total := t.Layout.Planes(rows, cols)
	m, err := b.find(t.Buf, t.Off, total)
	if err != nil {
		return nil, err
	}
	codeRow, scaleRow := int64(t.Layout.CodeBytes(cols)), int64(t.Layout.ScaleBytes(cols))
	limits := b.dev.Info().Limits
	most := int((limits.MaxBinding - int64(limits.OffsetAlign) - 4) / codeRow)
	if most < 1 {
		return nil, fmt.Errorf("has rows of %d bytes, the device binds %d at once", codeRow, limits.MaxBinding)
	}
	var parts []weightPart
	for first := 0; first < rows; first += most {
		p := weightPart{first: first, rows: min(most, rows-first)}
		unit := int64(4)
		if t.Layout == quant.LayoutF16 {
			unit = 2
		}
		p.codes, p.codesAt = b.window(m, t.Off+int64(first)*codeRow, int64(p.rows)*codeRow, unit)
		p.scales, p.scalesAt = p.codes, 0
		if scaleRow > 0 {
			unit = 4
			if t.Layout == quant.Layout8 {
				unit = 2
			}
			p.scales, p.scalesAt = b.window(m, t.Off+scaleOff+int64(first)*scaleRow, int64(p.rows)*scaleRow, unit)
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// window binds a range of a buffer from an aligned offset on, and says where the range starts in it.
func (b *Backend) window(m *memory, off, size, unit int64) (gpu.Binding, uint32) {
	at := m.base + off
	from := at / int64(b.dev.Info().Limits.OffsetAlign) * int64(b.dev.Info().Limits.OffsetAlign)
	to := min((at+size+3)&^3, m.base+m.held)
	return gpu.Binding{Buf: m.buf, Off: from, Size: to - from}, uint32((at - from) / unit)
}

// vector binds an f32 row, which must be aligned as the device wants it: the step program promises 256 bytes.
func (b *Backend) vector(t step.Tensor, n int) (gpu.Binding, error) {
	if t.Layout != quant.LayoutF32 {
		return gpu.Binding{}, fmt.Errorf("is not f32")
	}
	parts, err := b.weights(t, 1, n)
	if err != nil {
		return gpu.Binding{}, err
	}
	if parts[0].codesAt != 0 {
		return gpu.Binding{}, fmt.Errorf("starts at %d, which is not aligned", t.Off)
	}
	return parts[0].codes, nil
}

// layoutNames are the names of layouts in those of included files.
var layoutNames = map[quant.Layout]string{
	quant.LayoutF32: "f32", quant.LayoutF16: "f16", quant.Layout4: "4", quant.Layout8: "8",
}

func float(x float32) uint32 { return math.Float32bits(x) }

func flag(on bool) uint32 {
	if on {
		return 1
	}
	return 0
}
