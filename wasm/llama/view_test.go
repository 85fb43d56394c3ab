package llama_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"testing"

	"kvlens/cache"
	"kvlens/wasm/llama"
	"kvlens/wasm/sample"
	"kvlens/wasm/step"
	"kvlens/web/lab/golden"
)

func watch(t *testing.T, s *llama.Session) {
	t.Helper()
	if err := s.Watch(true); err != nil {
		t.Fatal(err)
	}
}

// halfStep is what rounding to a code may change, as a factor.
var halfStep = math.Pow(10, 2.0/255)

// The rows of a prompt's last token, read as codes, are the oracle's but for the rounding to a code.
func TestTeachRows(t *testing.T) {
	prompts, _ := golden.Teach(t)
	for _, p := range prompts {
		s := session(t, teach(t), llama.SessionOptions{F32: true})
		watch(t, s)
		prefill(t, s, p.IDs)
		rows := s.Rows()
		checkRows(t, p.Name, rows, len(p.IDs), p.Attention)
	}
}

func TestGoldenRows(t *testing.T) {
	tooSlowForSoftware(t)
	g := golden.SmolLM2Attention(t)
	s := session(t, smolLM2(t), llama.SessionOptions{F32: true})
	watch(t, s)
	prefill(t, s, g.IDs)
	layers := make([][][]float64, s.Cache().Geometry().Layers)
	for layer, rows := range g.Rows {
		layers[layer] = rows
	}
	checkRows(t, "attention", s.Rows(), len(g.IDs), layers)
}

// checkRows compares rows with an oracle's, which may leave out layers.
func checkRows(t *testing.T, name string, rows *llama.Rows, tokens int, want [][][]float64) {
	t.Helper()
	heads := len(rows.Sums) / len(want)
	if rows.Tokens != tokens || len(rows.Codes) != len(want)*heads*tokens {
		t.Fatalf("%s: %d codes over %d tokens, want %d tokens", name, len(rows.Codes), rows.Tokens, tokens)
	}
	for layer := range want {
		for h, probs := range want[layer] {
			line := layer*heads + h
			sum, sink, most := 0.0, 0.0, 0.0
			for i, p := range probs {
				got := step.Uncode(rows.Codes[line*tokens+i])
				sum += got
				if math.Abs(got-p) > p*(halfStep-1)+2e-4 {
					t.Errorf("%s: layer %d, head %d, token %d: %v, want %v", name, layer, h, i, got, p)
				}
				if i < step.SinkTokens {
					sink += p
				}
				most = max(most, p)
			}
			if sum > halfStep || sum < 1/halfStep-1.1e-4*float64(tokens) {
				t.Errorf("%s: layer %d, head %d: the codes add up to %v", name, layer, h, sum)
			}
			golden.Close(t, name+" sums", []float32{rows.Sums[line].Sink, rows.Sums[line].Top1}, []float64{sink, most}, 5e-4, rel)
		}
	}
}

// A matrix's last row is the row of the last pass; every row adds up to 1; no query sees a later key.
func TestTeachMatrix(t *testing.T) {
	prompts, _ := golden.Teach(t)
	ids := prompts[0].IDs
	m := teach(t)
	s := session(t, m, llama.SessionOptions{F32: true})
	prefill(t, s, ids[:20])
	watch(t, s)
	prefill(t, s, ids[20:len(ids)-1])
	if err := s.Decode(ctx, ids[len(ids)-1]); err != nil {
		t.Fatal(err)
	}
	rows, n, heads := s.Rows(), len(ids), m.Config().Heads
	before := slices.Clone(s.Logits())
	for layer := range m.Config().Layers {
		head := layer % heads
		x, err := s.View(ctx, layer, head)
		if err != nil {
			t.Fatal(err)
		}
		if x.Tokens != n || x.Pool != 1 || x.Cells != n || len(x.Codes) != n*n {
			t.Fatalf("layer %d: %d tokens, pools of %d, %d cells, %d codes", layer, x.Tokens, x.Pool, x.Cells, len(x.Codes))
		}
		for i := range n {
			sum := 0.0
			for j, c := range x.Codes[i*n:][:n] {
				sum += step.Uncode(c)
				if j > i && c != 0 {
					t.Errorf("layer %d: query %d sees key %d", layer, i, j)
				}
			}
			if sum > halfStep || sum < 1/halfStep-1.1e-4*float64(i+1) {
				t.Errorf("layer %d: row %d adds up to %v", layer, i, sum)
			}
		}
		line := rows.Codes[(layer*heads+head)*n:][:n]
		for j, c := range x.Codes[(n-1)*n:] {
			if d := int(c) - int(line[j]); d < -1 || d > 1 {
				t.Errorf("layer %d: key %d is %d in the matrix and %d in the row", layer, j, c, line[j])
			}
		}
	}
	if s.Position() != n || s.Stored() != n || !slices.Equal(s.Logits(), before) {
		t.Error("looking changed the session")
	}
	if err := s.Decode(ctx, ids[0]); err != nil {
		t.Error(err)
	}
	for _, at := range [][2]int{{-1, 0}, {m.Config().Layers, 0}, {0, -1}, {0, heads}} {
		if _, err := s.View(ctx, at[0], at[1]); err == nil {
			t.Errorf("layer, head %d are shown", at)
		}
	}
	stopped, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := s.View(stopped, 0, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled view: %v", err)
	}
	s.Reset()
	if _, err := s.View(ctx, 0, 0); !errors.Is(err, llama.ErrEmpty) {
		t.Errorf("a view of nothing: %v", err)
	}
}

// counted counts the views of its programs; blind ones offer none.
type counted struct {
	step.Backend
	blind bool
	looks int
}

type (
	blindExec   struct{ step.Exec }
	countedExec struct {
		step.Exec
		step.Viewer
		b *counted
	}
)

func (b *counted) Compile(p *step.Program) (step.Exec, error) {
	x, err := b.Backend.Compile(p)
	if err != nil || b.blind {
		return blindExec{x}, err
	}
	return countedExec{x, x.(step.Viewer), b}, nil
}

func (x countedExec) Look(a *step.Args, v *step.View) error {
	x.b.looks++
	return x.Viewer.Look(a, v)
}

// Views that nobody asks for cost nothing: no program, no byte. A watched answer has the same tokens, and one look a
// layer for each of its passes; afterwards nothing is left.
func TestTeachWatched(t *testing.T) {
	prompts, _ := golden.Teach(t)
	ids := prompts[0].IDs
	led := new(cache.Ledger)
	b := &counted{Backend: newBackend(t, led)}
	t.Cleanup(func() { _ = b.Close() })
	m := open(t, golden.TeachModel(t), b, led)
	t.Cleanup(m.Close)
	s := session(t, m, llama.SessionOptions{})
	prefill(t, s, ids)
	want := greedy(t, s, 6, -1)
	if row := led.Rows()[cache.Views]; b.looks != 0 || row.Peak != 0 || s.Rows() != nil {
		t.Errorf("unwatched, there were %d looks and %d bytes", b.looks, row.Peak)
	}
	s.Reset()
	watch(t, s)
	prefill(t, s, ids)
	var got []int32
	o := llama.GenerateOptions{Max: 6, Sampler: sample.New(sample.Params{})}
	_, err := s.Generate(ctx, o, func(tok llama.Token) error {
		got = append(got, tok.ID)
		if rows := s.Rows(); rows == nil || rows.Tokens != tok.Position {
			t.Errorf("the token at %d has rows %+v", tok.Position, rows)
		}
		return nil
	})
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("watched, the answer is %d, %v, want %d", got, err, want)
	}
	if looks := m.Config().Layers * 6; b.looks != looks {
		t.Errorf("%d looks, want %d", b.looks, looks)
	}
	if row := led.Rows()[cache.Views]; row.Allocated != 0 || row.Peak == 0 {
		t.Errorf("views hold %+v", row)
	}
}

func TestTeachBlind(t *testing.T) {
	led := new(cache.Ledger)
	b := &counted{Backend: newBackend(t, led), blind: true}
	t.Cleanup(func() { _ = b.Close() })
	m := open(t, golden.TeachModel(t), b, led)
	t.Cleanup(m.Close)
	s := session(t, m, llama.SessionOptions{Tokens: 8})
	prefill(t, s, []int32{1, 2, 3})
	if err := s.Watch(true); !errors.Is(err, llama.ErrNoViews) {
		t.Errorf("Watch: %v", err)
	}
	if _, err := s.View(ctx, 0, 0); !errors.Is(err, llama.ErrNoViews) {
		t.Errorf("View: %v", err)
	}
}

// Beyond 1,024 tokens neighbours share a cell, which shows the largest of them.
func TestTeachPooled(t *testing.T) {
	if onGPU && runtime.GOARCH == "wasm" {
		t.Skip("a thousand tokens take a browser's software GPU minutes: it pools in the suite of all backends")
	}
	prompts, _ := golden.Teach(t)
	var ids []int32
	for len(ids) < 1030 {
		ids = append(ids, prompts[len(ids)%len(prompts)].IDs...)
	}
	ids = ids[:1030]
	s := session(t, teach(t), llama.SessionOptions{Tokens: len(ids)})
	watch(t, s)
	const layer, head, cells = 2, 3, 515
	var want [][]float32
	err := s.PrefillProbe(ctx, ids, func(at *llama.At) (err error) {
		if _, ok := at.Op.(step.Store); ok && at.Layer == layer && at.To == len(ids) {
			want, err = at.Attention(len(ids) - 1)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	rows := s.Rows()
	if rows.Tokens != len(ids) || len(rows.Codes) != len(rows.Sums)*cells {
		t.Fatalf("%d codes over %d tokens", len(rows.Codes), rows.Tokens)
	}
	x, err := s.View(ctx, layer, head)
	if err != nil {
		t.Fatal(err)
	}
	if x.Tokens != len(ids) || x.Pool != 2 || x.Cells != cells || len(x.Codes) != cells*cells {
		t.Fatalf("%d tokens, pools of %d, %d cells, %d codes", x.Tokens, x.Pool, x.Cells, len(x.Codes))
	}
	heads := len(want)
	for j := range cells {
		got := rows.Codes[(layer*heads+head)*cells:][j]
		if c := step.Code(float64(max(want[head][2*j], want[head][2*j+1]))); int(got) > int(c)+1 || int(got)+1 < int(c) {
			t.Errorf("cell %d is %d, want %d", j, got, c)
		}
		// The matrix's last row holds the query before, too. Its queries are those of a first turn, so they are the same.
		if m := x.Codes[(cells-1)*cells+j]; int(m)+1 < int(got) {
			t.Errorf("cell %d is %d in the matrix, %d in the row", j, m, got)
		}
	}
}
