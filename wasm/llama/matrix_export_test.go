package llama

import "context"

// Retrace is View of a list that tokens have left, with cells of so many of them.
func (s *Session) Retrace(ctx context.Context, layer, head, pool int) (*Matrix, error) {
	n := len(s.ids)
	out := &Matrix{Tokens: n, Pool: pool, Cells: (n + pool - 1) / pool}
	return out, s.retrace(ctx, layer, head, out)
}
