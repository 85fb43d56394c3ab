package ref

import (
	"testing"

	"kvlens/cache"
	"kvlens/wasm/step"
)

// An attention row is of a layer and a chunk row that exist, and has a place for every query head.
func TestAttentionRowRefuses(t *testing.T) {
	led := new(cache.Ledger)
	b := New(led)
	x, err := b.Compile(&step.Program{
		Shape: step.Shape{Layers: 1, Hidden: 8, Heads: 2, KVHeads: 1, HeadDim: 4, FFN: 8, Vocab: 4}, Chunk: 3,
	})
	if err != nil {
		t.Fatal(err)
	}
	arena, err := b.Alloc(cache.Free, "arena", 4096)
	if err != nil {
		t.Fatal(err)
	}
	c, err := cache.New(cache.Geometry{Layers: 1, KVHeads: 1, HeadDim: 4}, 4096, led)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		layer, row, heads int
		ok                bool
	}{
		{0, 0, 2, true},
		{0, 2, 2, true},
		{0, 3, 2, false},
		{0, -1, 2, false},
		{0, 0, 1, false},
		{0, 0, 3, false},
		{1, 0, 2, false},
		{-1, 0, 2, false},
	} {
		err := x.AttentionRow(&step.Args{Cache: c, Arena: arena}, tt.layer, tt.row, make([][]float32, tt.heads))
		if (err == nil) != tt.ok {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}
