//go:build !js

package core

import (
	"math"
	"slices"
	"testing"

	"kvlens/cache"
	"kvlens/wasm/proto"
	"kvlens/wasm/step"
)

// decoded is the probability that a code stands for, as the protocol says.
func decoded(c uint8) float64 {
	if c == 0 {
		return 0
	}
	return math.Pow(10, 4*float64(c)/255-4)
}

// adds says whether codes of n tokens add up to 1, but for what rounding changes and what is too small for a code.
func adds(codes []uint8) bool {
	sum := 0.0
	for _, c := range codes {
		sum += decoded(c)
	}
	half := math.Pow(10, 2.0/255)
	return sum < half && sum > 1/half-1.1e-4*float64(len(codes))
}

// A turn with rows has the answer of one without; its rows add up to 1, and so do those of the matrix, whose last row is
// that of the step which read the last token of the cache.
func TestRowsAndMatrix(t *testing.T) {
	p := opened(t, hooks{})
	p.ask(proto.SetMemory{Memory: proto.Memory{F32: true}}).ok()
	g := ask(evening)
	plain := p.ask(g).ok()
	for _, s := range plain.steps {
		if len(s.Rows) != 0 || s.RowTokens != 0 || len(s.Heads.Sink) != 0 {
			t.Fatalf("rows that nobody asked for: %+v", s)
		}
	}
	if peak := p.led.Rows()[cache.Views].Peak; peak != 0 {
		t.Errorf("views that nobody asked for took %d bytes", peak)
	}
	const layers, heads = 5, 6
	g.Rows = true
	o := p.ask(g).ok()
	if o.text() != plain.text() {
		t.Errorf("with rows the answer is %q, want %q", o.text(), plain.text())
	}
	for _, s := range o.steps {
		n := int(s.RowTokens)
		if n != int(s.Position) || len(s.Rows) != layers*heads*n || len(s.Rows) > 320<<10 {
			t.Fatalf("step %d: %d codes over %d tokens at position %d", s.Step, len(s.Rows), n, s.Position)
		}
		for i := range layers * heads {
			h := s.Heads
			if !adds(s.Rows[i*n:][:n]) {
				t.Errorf("step %d: row %d does not add up to 1", s.Step, i)
			}
			if h.Sink[i] < 0 || h.Local[i] < 0 || h.Sink[i]+h.Local[i] > 1.0001 || h.Top1[i] > 1.0001 ||
				float64(h.Entropy[i]) > math.Log(float64(n))+1e-3 || h.Entropy[i] < 0 {
				t.Errorf("step %d: sums of row %d: %v %v %v %v", s.Step, i, h.Sink[i], h.Local[i], h.Entropy[i], h.Top1[i])
			}
		}
	}
	last := o.steps[len(o.steps)-1]
	n := int(last.RowTokens)
	for layer := range uint32(layers) {
		head := (layer + 1) % heads
		x := p.ask(proto.View{Layer: layer, Head: head}).ok().matrix
		if x.Layer != layer || x.Head != head || x.First != 0 || int(x.Tokens) != n || x.Pool != 1 || int(x.Cells) != n || len(x.Codes) != n*n {
			t.Fatalf("the matrix is of %d, %d: %d+%d tokens, %d cells of %d", x.Layer, x.Head, x.First, x.Tokens, x.Cells, x.Pool)
		}
		for i := range n {
			line := x.Codes[i*n:][:n]
			if !adds(line) {
				t.Errorf("layer %d: row %d of the matrix does not add up to 1", layer, i)
			}
			for j := i + 1; j < n; j++ {
				if line[j] != 0 {
					t.Errorf("layer %d: query %d sees key %d", layer, i, j)
				}
			}
		}
		row := last.Rows[int(layer*heads+head)*n:][:n]
		for j, c := range x.Codes[(n-1)*n:] {
			if d := int(c) - int(row[j]); d < -1 || d > 1 {
				t.Errorf("layer %d: key %d is %d in the matrix, %d in the row", layer, j, c, row[j])
			}
		}
	}
	// Looking changed nothing: the conversation goes on as without it.
	if got := p.ask(askOn(morning)).ok(); got.text() != " bread." || len(got.steps[0].Rows) != 0 {
		t.Errorf("the next turn says %q, with %d codes", got.text(), len(got.steps[0].Rows))
	}
	if left := p.led.Rows()[cache.Views].Allocated; left != 0 {
		t.Errorf("views still hold %d bytes", left)
	}
}

// The matrix of a list that tokens have left: it says when each left, as the evictions of the steps did; no query has looked
// at one from then on, and with a shadow it says what such queries would have given.
func TestMatrixOfWhatLeft(t *testing.T) {
	p := opened(t, hooks{})
	for _, shadow := range []bool{false, true} {
		m := under("h2o", 0.4)
		m.Memory.Shadow = shadow
		p.ask(m).ok()
		g := ask(evening)
		g.Max, g.Forced = 20, slices.Repeat([]uint32{57}, 19)
		o := p.ask(g).ok()
		k, prompt, would := o.last(), uint32(len(o.prompt.IDs)), 0
		for layer := range uint32(5) {
			head := layer % 6
			list := layer*k.KVHeads + head/3
			left := map[uint32]uint32{}
			for _, s := range o.steps {
				for i, at := range s.Evictions.Position {
					if s.Evictions.Layer[i]*k.KVHeads+s.Evictions.Head[i] == list {
						left[at] = s.Position
					}
				}
			}
			x := p.ask(proto.View{Layer: layer, Head: head}).ok().matrix
			n := int(x.Tokens)
			if len(x.Left) != n || x.Cells != x.Tokens || len(x.Codes) != n*n || len(x.Would) != map[bool]int{true: n * n}[shadow] {
				t.Fatalf("%d tokens, %d cells, %d times, %d codes, %d beside them", n, x.Cells, len(x.Left), len(x.Codes), len(x.Would))
			}
			for at, since := range x.Left {
				want, evicted := left[uint32(at)]
				switch {
				case has(k, k.Bits, int(list), at):
					want = proto.Stays
				case !evicted:
					want = prompt
				}
				if since != want {
					t.Errorf("layer %d: position %d left at %d, want %d", layer, at, since, want)
				}
				for q := range n {
					gone := uint32(q) >= since
					if gone && x.Codes[q*n+at] != 0 {
						t.Errorf("layer %d: query %d looks at %d, which left at %d", layer, q, at, since)
					}
					if shadow && x.Would[q*n+at] != 0 {
						if would++; !gone {
							t.Errorf("layer %d: query %d would look at %d, which is there", layer, q, at)
						}
					}
				}
			}
		}
		if shadow && would == 0 {
			t.Error("nothing would have got anything")
		}
	}
}

// blind hides the views of a backend.
type blind struct{ step.Backend }

type blindExec struct{ step.Exec }

func (b blind) Compile(p *step.Program) (step.Exec, error) {
	x, err := b.Backend.Compile(p)
	return blindExec{x}, err
}

func TestViewRefuses(t *testing.T) {
	p := newPage(t, hooks{})
	p.ask(proto.View{}).fails(proto.CodeBadRequest, "model")
	p = opened(t, hooks{})
	p.ask(proto.View{}).fails(proto.CodeEmpty)
	p.ask(proto.View{Layer: 5}).fails(proto.CodeBadRequest, "layer")
	p.ask(proto.View{Head: 6}).fails(proto.CodeBadRequest, "head")

	p = opened(t, hooks{backend: func(b step.Backend) step.Backend { return blind{b} }})
	o := p.ask(ask(evening)).ok()
	g := askOn(morning)
	g.Rows = true
	p.ask(g).fails(proto.CodeBadRequest, "rows")
	p.ask(proto.View{}).fails(proto.CodeBadRequest, "rows")
	if s := p.ask(proto.GetState{}).ok().state; s.Stored != o.state.Stored {
		t.Errorf("what was refused left %d tokens of %d", s.Stored, o.state.Stored)
	}
}
