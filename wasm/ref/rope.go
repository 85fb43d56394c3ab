package ref

// turn is cos and sin of a position. Beyond the table, angles add up: the product of two rows as complex numbers.
func (e *exec) turn(pos int) []float32 {
	rot := e.shape.RotDim
	if pos < e.positions {
		return e.rope[pos*rot:][:rot]
	}
	out := make([]float32, rot)
	a, b := e.rope[(e.positions-1)*rot:], e.turn(pos-e.positions+1)
	for i := 0; i < rot; i += 2 {
		ac, as, bc, bs := float64(a[i]), float64(a[i+1]), float64(b[i]), float64(b[i+1])
		out[i], out[i+1] = float32(ac*bc-as*bs), float32(as*bc+ac*bs)
	}
	return out
}

// rotate turns one head's vector to a position.
func (e *exec) rotate(x []float32, pos int) {
	if e.shape.RotDim > 0 {
		e.b.loops.Rope(x, e.turn(pos), e.shape.Neox)
	}
}

// unrotate turns it back.
func (e *exec) unrotate(x []float32, pos int) {
	if e.shape.RotDim == 0 {
		return
	}
	cs := e.turn(pos)
	var buf [256]float32
	back := append(buf[:0], cs...)
	for i := 1; i < len(back); i += 2 {
		back[i] = -back[i]
	}
	e.b.loops.Rope(x, back, e.shape.Neox)
}
