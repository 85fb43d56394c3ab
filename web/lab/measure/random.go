package measure

import (
	"context"
	"math/rand/v2"

	"kvlens/wasm/llama"
	"kvlens/wasm/step"
	"kvlens/web/lab/capture"
)

// Repeats is how often a block of random tokens stands in a prompt of [Meter.Block].
const Repeats = 4

// Block adds the echo and induction scores of a prompt in which a block of random tokens is repeated: the attention of each
// token after the first block on the earlier copies of itself (echo), and on what followed them (induction).
func (m *Meter) Block(ctx context.Context, block int, r *rand.Rand, sums *Sums) error {
	ids, begin := m.RandomIDs(block, r)
	m.Session.Reset()
	row := make([]float32, len(ids))
	n := float64(block * (Repeats - 1))
	err := capture.Prefill(ctx, m.Session, &m.Config, ids, func(l *capture.Layer) error {
		for h := range l.Heads {
			echo, induction := 0.0, 0.0
			for i := begin + block; i < len(ids); i++ {
				row := l.Attention(row, i, h)
				for j := i - block; j >= begin; j -= block {
					echo += float64(row[j])
					induction += float64(row[j+1])
				}
			}
			at := l.Index*l.Heads + h
			sums.Echo[at] += echo / n
			sums.Induction[at] += induction / n
		}
		return nil
	})
	if err != nil {
		return err
	}
	sums.Blocks++
	return nil
}

// RandomIDs is a prompt of the token that begins texts, if the model names one, and a block of ordinary tokens, no two the
// same, again and again; and where the first block begins.
func (m *Meter) RandomIDs(block int, r *rand.Rand) (ids []int32, begin int) {
	// A chat model names one, too, that its texts do not begin with (SmolLM2: <|im_start|>): here it gives heads that
	// have nothing to do a place to look at.
	if bos, _ := m.Tok.BOS(); bos >= 0 {
		ids, begin = []int32{bos}, 1
	}
	for _, id := range r.Perm(m.Tok.Vocab()) {
		if len(ids) == begin+block {
			break
		}
		if !m.Tok.Control(int32(id)) && len(m.Tok.Piece(int32(id))) > 0 {
			ids = append(ids, int32(id))
		}
	}
	first := ids[begin:]
	for range Repeats - 1 {
		ids = append(ids, first...)
	}
	return ids, begin
}

// attention is a probe that shows the attention rows of a decoded token, layer by layer.
func attention(seen func(layer int, rows [][]float32)) llama.Probe {
	return func(at *llama.At) error {
		if _, ok := at.Op.(step.Attend); !ok {
			return nil
		}
		rows, err := at.Attention(0)
		if err == nil {
			seen(at.Layer, rows)
		}
		return err
	}
}
