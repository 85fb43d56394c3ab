package llama

import (
	"slices"

	"kvlens/cache"
	"kvlens/wasm/quant"
)

// Copy is the key and the value of a token that has left a list.
func (s *Session) Copy(layer, kvHead int, position int32) (key, value []float32) {
	c := &s.shadow.lists[layer*s.geo.KVHeads+kvHead]
	i, _ := slices.BinarySearch(c.at, position)
	lane := s.shadow.row(c, i)
	var all []float32
	if s.geo.Key == cache.F32 {
		all = quant.Float32s(lane)
	} else {
		for _, h := range quant.Uint16s(lane) {
			all = append(all, quant.Half(h))
		}
	}
	return all[:s.geo.HeadDim], all[s.geo.HeadDim:]
}
