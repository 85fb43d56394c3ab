package ref

// Float32Loops are the loops of [New]: for a backend that replaces some of them, or has none of its own where it runs.
func Float32Loops() Loops { return f32{} }
