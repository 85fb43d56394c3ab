package llama

// LeftAt is when tokens left a list.
func (s *Session) LeftAt(layer, kvHead int) []int32 {
	return s.gone.left(layer*s.geo.KVHeads+kvHead, s.pos)
}
