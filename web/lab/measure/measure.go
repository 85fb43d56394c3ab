// Package measure measures what the attention heads of a model do: which of them find a needle, continue a repetition, look
// at the first token or close by, and how much each layer suffers from a small cache.
//
// The measures are those of "Retrieval Head Mechanistically Explains Long-Context Factuality" (Wu et al., 2024),
// CompressKV (semantic retrieval heads, layer errors) and RazorAttention (echo and induction heads).
package measure

import (
	"context"
	"slices"

	"kvlens/wasm/llama"
	"kvlens/wasm/tokenizer"
	"kvlens/web/lab/needle"
)

// Meter measures one model. Its session must keep everything, in f32 pages.
type Meter struct {
	Session *llama.Session
	Config  llama.Config
	Tok     *tokenizer.Tokenizer
	Output  func(layer int) ([]float32, error) // W_o: [hidden][n_heads·head_dim]
}

// Sums add up measurements. They are plain data, so that a measurement can stop and go on.
type Sums struct {
	Blocks    int       `json:"blocks"` // random blocks so far
	Induction []float64 `json:"induction"`
	Echo      []float64 `json:"echo"`

	Tried     int       `json:"tried"`
	Right     []int     `json:"right"`     // the samples that the model answered
	Retrieval []float64 `json:"retrieval"` // [layers·n_heads], as all by head
	Semantic  []float64 `json:"semantic"`

	Shrunk int       `json:"shrunk"` // samples of Right whose answer was given again from 32 tokens
	Rows   int       `json:"rows"`   // queries behind Sink and Local
	Sink   []float64 `json:"sink"`
	Local  []float64 `json:"local"`
	Errors []float64 `json:"errors"` // [layers]
}

// NewSums makes empty sums for a model.
func (m *Meter) NewSums() *Sums {
	heads := func() []float64 { return make([]float64, m.Config.Layers*m.Config.Heads) }
	return &Sums{
		Induction: heads(), Echo: heads(), Retrieval: heads(), Semantic: heads(), Sink: heads(), Local: heads(),
		Errors: make([]float64, m.Config.Layers),
	}
}

// Fits says whether sums, read from a file, are of this model.
func (m *Meter) Fits(s *Sums) bool {
	if s == nil || len(s.Errors) != m.Config.Layers {
		return false
	}
	for _, heads := range [][]float64{s.Induction, s.Echo, s.Retrieval, s.Semantic, s.Sink, s.Local} {
		if len(heads) != m.Config.Layers*m.Config.Heads {
			return false
		}
	}
	if slices.ContainsFunc(s.Right, func(i int) bool { return i < 0 || i >= s.Tried }) {
		return false
	}
	return s.Blocks >= 0 && s.Shrunk >= 0 && s.Shrunk <= len(s.Right) && len(s.Right) <= s.Tried
}

// look is what a head does in one step: the token that it looks at most, and its attention on the needle.
type look struct {
	top  int
	mass float64
}

// Needle lets the model answer a sample and adds its heads' scores if the answer is right.
//
// Retrieval: for each generated token, 1/length of the needle if the head looks most at a token of the needle that is the
// generated one. Semantic: for each generated token that is one of the needle's, the head's attention on the needle.
func (m *Meter) Needle(ctx context.Context, s *needle.Sample, sums *Sums) error {
	within := map[int32]bool{}
	for _, id := range s.IDs[s.From:s.To] {
		within[id] = true
	}
	retrieval, semantic := make([]float64, len(sums.Retrieval)), make([]float64, len(sums.Semantic))
	looks := make([]look, len(retrieval))
	seen := func(layer int, rows [][]float32) {
		for h, row := range rows {
			l := look{}
			for j, a := range row {
				if a > row[l.top] {
					l.top = j
				}
				if j >= s.From && j < s.To {
					l.mass += float64(a)
				}
			}
			looks[layer*m.Config.Heads+h] = l
		}
	}
	last := len(s.IDs) - 1
	m.Session.Reset()
	if err := m.Session.Prefill(ctx, s.IDs[:last], nil); err != nil {
		return err
	}
	text, err := m.answer(ctx, s.IDs[last], seen, func(id int32) {
		for i, l := range looks {
			if l.top >= s.From && l.top < s.To && s.IDs[l.top] == id {
				retrieval[i] += 1 / float64(s.To-s.From)
			}
			if within[id] {
				semantic[i] += l.mass
			}
		}
	})
	if err != nil {
		return err
	}
	if s.Right(text) {
		sums.Right = append(sums.Right, sums.Tried)
		for i := range retrieval {
			sums.Retrieval[i] += retrieval[i]
			sums.Semantic[i] += semantic[i]
		}
	}
	sums.Tried++
	return nil
}

// answer decodes greedily from a token on, to the end of the answer. seen gets the attention rows of every layer, then
// chosen the token that followed from them, unless it ends the answer.
func (m *Meter) answer(ctx context.Context, id int32, seen func(layer int, rows [][]float32), chosen func(id int32)) (string, error) {
	text := m.Tok.NewDecoder()
	out := ""
	for range needle.MaxAnswer {
		if err := m.Session.DecodeProbe(ctx, id, attention(seen)); err != nil {
			return "", err
		}
		id = best(m.Session.Logits())
		if m.Tok.EOG(id) {
			break
		}
		if out += text.Push(id); needle.Ended(out) {
			break
		}
		chosen(id)
	}
	return out, nil
}

func best(logits []float32) int32 {
	top := 0
	for i, x := range logits {
		if x > logits[top] {
			top = i
		}
	}
	return int32(top)
}
