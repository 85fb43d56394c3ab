package cache

import "testing"

// The largest shape, page and cap of each kind are accepted, and one more is refused.
func TestBounds(t *testing.T) {
	for name, set := range map[string]func(g *Geometry, capBytes *int64, more int){
		"lists":         func(g *Geometry, _ *int64, more int) { g.KVHeads, g.HeadDim = 1<<20+more, 1 },
		"dimension":     func(g *Geometry, _ *int64, more int) { g.HeadDim = 1<<16 + more },
		"key format":    func(g *Geometry, _ *int64, more int) { g.Key = F16 + Format(more) },
		"value format":  func(g *Geometry, _ *int64, more int) { g.Value = F16 + Format(more) },
		"key page":      func(g *Geometry, _ *int64, more int) { g.PageK = 32 + more },
		"value page":    func(g *Geometry, _ *int64, more int) { g.PageV = 32 + more },
		"bounds":        func(g *Geometry, _ *int64, more int) { g.Bound = 1<<16 + more },
		"no bounds":     func(g *Geometry, _ *int64, more int) { g.Bound = -more },
		"smallest page": func(g *Geometry, _ *int64, more int) { g.PageK, g.PageV = 1-2*more, 1 },
		"cap":           func(g *Geometry, c *int64, more int) { g.HeadDim, *c = 1<<16, 1<<34+int64(more) },
	} {
		for more := range 2 {
			g := Geometry{Layers: 1, KVHeads: 1, HeadDim: 8, Key: F16, Value: F16, PageK: 8, PageV: 8}
			capBytes := int64(4096)
			set(&g, &capBytes, more)
			if _, err := New(g, capBytes, new(Ledger)); (err == nil) != (more == 0) {
				t.Errorf("%s + %d: %v", name, more, err)
			}
		}
	}
}
