package state

import (
	"math"

	"kvlens/wasm/proto"
)

// Knob names a sampling setting.
type Knob uint8

// The knobs.
const (
	Temperature Knob = iota
	TopK
	TopP
	MinP
	Repeat
	Seed
	MaxTokens
)

// Range is what a knob may be set to.
type Range struct{ Min, Max, Step float64 }

// Ranges holds each knob's range.
var Ranges = [...]Range{
	Temperature: {0, 2, 0.1},
	TopK:        {0, 200, 1},
	TopP:        {0.05, 1, 0.05},
	MinP:        {0, 0.5, 0.01},
	Repeat:      {1, 2, 0.01},
	Seed:        {0, math.MaxUint32, 1},
	MaxTokens:   {1, 1024, 1},
}

// Clamp brings a value into the knob's range; not-a-number becomes the minimum.
func (k Knob) Clamp(v float64) float64 {
	r := Ranges[k]
	if math.IsNaN(v) || v < r.Min {
		return r.Min
	}
	if v > r.Max {
		return r.Max
	}
	if r.Step >= 1 {
		return math.Round(v)
	}
	return v
}

// Value is the knob's setting.
func (m Model) Value(k Knob) float64 {
	s := m.Sampling
	switch k {
	case Temperature:
		return float64(s.Temperature)
	case TopK:
		return float64(s.TopK)
	case TopP:
		return float64(s.TopP)
	case MinP:
		return float64(s.MinP)
	case Repeat:
		return float64(s.Repeat)
	case Seed:
		return float64(s.Seed)
	default:
		return float64(m.Max)
	}
}

func (m Model) withKnob(k Knob, v float64) Model {
	v = k.Clamp(v)
	s := &m.Sampling
	switch k {
	case Temperature:
		s.Temperature = float32(v)
	case TopK:
		s.TopK = uint32(v)
	case TopP:
		s.TopP = float32(v)
	case MinP:
		s.MinP = float32(v)
	case Repeat:
		s.Repeat = float32(v)
	case Seed:
		s.Seed = uint32(v)
	case MaxTokens:
		m.Max = uint32(v)
	}
	m.Touched = true
	return m
}

// withDefaults sets the sampling that suits a mode. Stories ask for facts: the most probable token, no penalty for
// repeating what the story says. A small chat model goes round in circles without chance and a penalty, and leaves the
// language with more of either than this.
func (m Model) withDefaults(mode proto.PromptMode) Model {
	m.Sampling = proto.Sampling{TopP: 1, Repeat: 1, Seed: m.Seed}
	m.Max = 48
	if mode == proto.Chat {
		m.Sampling.Temperature, m.Sampling.TopP, m.Sampling.Repeat = 0.2, 0.9, 1.03
		m.Max = 256
	}
	return m
}
