package ref

// f32 is the fast variant: float32 sums in several parts at once, weights unpacked in small blocks that stay in the
// nearest cache.
type f32 struct{ f64 }
