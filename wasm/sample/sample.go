// Package sample chooses the next token from a row of logits.
package sample

import (
	"errors"
	"fmt"
	"math"
)

// Params are the settings. The zero value is greedy: the token with the largest logit, of equal ones the first.
//
// They apply in this order: repetition penalty, temperature, top-k, top-p, min-p; then a token is drawn from what is
// left, in proportion.
type Params struct {
	// Temperature divides the logits; 0 is greedy.
	Temperature float32
	// TopK keeps that many tokens with the largest logits; 0 is off.
	TopK int
	// TopP keeps the fewest tokens, largest first, whose share of what top-k left reaches it ("The Curious Case of Neural
	// Text Degeneration", 2020); 0 and 1 are off.
	TopP float32
	// MinP keeps tokens at least that fraction as likely as the likeliest ("Turning Up the Heat: Min-p Sampling", 2024);
	// 0 is off.
	MinP float32
	// Repeat divides positive logits of recent tokens and multiplies negative ones, once per token however often it
	// occurred (CTRL, 2019, which suggests 1.2); 0 and 1 are off.
	Repeat float32
	// Seed determines the draws: the same seed and logits give the same tokens.
	Seed uint64
}

// ParamError names a setting that is out of range.
type ParamError struct{ Field, Msg string }

func (e *ParamError) Error() string { return "sample: " + e.Field + ": " + e.Msg }

// ranges of the settings; NaN is in none.
func (p *Params) ranges() [4]paramRange {
	return [...]paramRange{
		{"temperature", &p.Temperature, 100}, {"top_p", &p.TopP, 1}, {"min_p", &p.MinP, 1}, {"repeat", &p.Repeat, 100},
	}
}

// paramRange is a setting between 0 and most.
type paramRange struct {
	field string
	value *float32
	most  float32
}

// Validate returns a *ParamError for the first setting that is out of range.
func (p Params) Validate() error {
	for _, r := range p.ranges() {
		if !(*r.value >= 0 && *r.value <= r.most) {
			return &ParamError{r.field, fmt.Sprintf("%v is not between 0 and %v", *r.value, r.most)}
		}
	}
	if p.TopK < 0 {
		return &ParamError{"top_k", fmt.Sprintf("%d is negative", p.TopK)}
	}
	return nil
}

// ErrLogits is why no token can be chosen: the logits hold NaN or infinity, or are all equal, as after a lost device or
// an overflow.
var ErrLogits = errors.New("logits unusable")

// Choice is a chosen token. The probabilities are those of the model: the softmax of the logits as they came, before
// penalty, temperature and filters.
type Choice struct {
	ID       int32
	Prob     float32
	TopIDs   [5]int32 // by probability, then by id; −1 beyond the vocabulary
	TopProbs [5]float32
}

// Sampler is used from one goroutine. Its scratch is allocated by the first Pick.
type Sampler struct {
	p      Params
	random uint64
	scores []float32 // [vocabulary] logits after the penalty
	weight []float32 // [vocabulary] exp of scores by temperature, 1 for the largest
	rank   ranking
}

// New makes a sampler. A setting that Validate refuses counts as the nearest one that it accepts, NaN as 0.
func New(p Params) *Sampler {
	for _, r := range p.ranges() {
		if !(*r.value >= 0) {
			*r.value = 0
		}
		*r.value = min(*r.value, r.most)
	}
	return &Sampler{p: p, random: p.Seed}
}

// State is the settings with the generator's state as the seed: a sampler made of it goes on where this one is.
func (s *Sampler) State() Params {
	p := s.p
	p.Seed = s.random
	return p
}

// Skip moves the generator past n draws that were made elsewhere.
func (s *Sampler) Skip(n int) { s.random += uint64(n) * increment }

// increment is the distance of two states of the generator.
const increment = 0x9e3779b97f4a7c15

// Pick chooses a token from logits, which it does not change. recent are the tokens that the penalty applies to; ids
// outside the vocabulary are skipped. It draws one random number unless greedy. Errors wrap ErrLogits.
func (s *Sampler) Pick(logits []float32, recent []int32) (Choice, error) {
	c, norm, err := top(logits)
	if err != nil {
		return c, err
	}
	s.scores = append(s.scores[:0], logits...)
	s.penalise(logits, recent)
	if s.p.Temperature > 0 {
		c.ID = s.draw()
	} else {
		c.ID = argmax(s.scores)
	}
	c.Prob = float32(math.Exp(float64(logits[c.ID]) - norm))
	return c, nil
}

// top fills in the five likeliest tokens and returns the logarithm of the softmax's denominator.
func top(logits []float32) (c Choice, norm float64, err error) {
	for i := range c.TopIDs {
		c.TopIDs[i] = -1
	}
	equal := true
	fifth := float32(math.Inf(-1)) // the least of the top five
	for i, v := range logits {
		if v-v != 0 { // NaN or infinite
			return c, 0, fmt.Errorf("sample: %w: token %d has %v", ErrLogits, i, v)
		}
		equal = equal && v == logits[0]
		if v <= fifth {
			continue
		}
		at := len(c.TopIDs) - 1
		for at > 0 && (c.TopIDs[at-1] < 0 || v > logits[c.TopIDs[at-1]]) {
			at--
		}
		copy(c.TopIDs[at+1:], c.TopIDs[at:])
		c.TopIDs[at] = int32(i)
		if last := c.TopIDs[len(c.TopIDs)-1]; last >= 0 {
			fifth = logits[last]
		}
	}
	if equal {
		return c, 0, fmt.Errorf("sample: %w: all %d are equal", ErrLogits, len(logits))
	}
	peak := float64(logits[c.TopIDs[0]])
	var sum float64
	for _, v := range logits {
		sum += exp(float64(v) - peak)
	}
	norm = peak + math.Log(sum)
	for i, id := range c.TopIDs {
		if id >= 0 {
			c.TopProbs[i] = float32(math.Exp(float64(logits[id]) - norm))
		}
	}
	return c, norm, nil
}

// penalise applies the repetition penalty to scores, which are a copy of logits.
func (s *Sampler) penalise(logits []float32, recent []int32) {
	if s.p.Repeat == 0 || s.p.Repeat == 1 {
		return
	}
	for _, id := range recent {
		if id < 0 || int(id) >= len(logits) {
			continue
		}
		// From the logit as it came, so that a token which occurs twice is penalised once.
		v := logits[id]
		if v > 0 {
			v /= s.p.Repeat
		} else {
			v *= s.p.Repeat
		}
		s.scores[id] = max(-math.MaxFloat32, min(v, math.MaxFloat32))
	}
}

// draw draws a token from the scores by temperature, top-k, top-p and min-p. The same scores and seed give the same
// token on every platform.
func (s *Sampler) draw() int32 {
	n := len(s.scores)
	s.weight = s.weight[:0]
	peak := s.scores[argmax(s.scores)]
	var mass float64
	for _, v := range s.scores {
		w := float32(exp(float64(v-peak) / float64(s.p.Temperature)))
		s.weight = append(s.weight, w)
		mass += float64(w)
	}
	candidate := func(i int) int32 { return int32(i) }
	topK := s.p.TopK > 0 && s.p.TopK < n
	topP := s.p.TopP > 0 && s.p.TopP < 1
	switch {
	case topK:
		s.rank.reset(s.scores, s.weight, 0)
		candidate = s.rank.at
		n, mass = s.p.TopK, 0
		for i := range n {
			mass += float64(s.weight[candidate(i)])
		}
	case topP:
		// Tokens below this, all n of them together, have less than 1−p of the mass: the rest suffices. Of a model that
		// knows what it wants a few dozen are left to sort.
		s.rank.reset(s.scores, s.weight, float32((1-float64(s.p.TopP))*mass/float64(n)*(1-1e-6)))
		n, candidate = len(s.rank.order), s.rank.at
	}
	if topP {
		least, sum := float64(s.p.TopP)*mass, 0.0
		for i := range n {
			if sum += float64(s.weight[candidate(i)]); sum >= least {
				n = i + 1
				break
			}
		}
	}
	mass = 0
	for i := range n {
		if w := s.weight[candidate(i)]; w >= s.p.MinP {
			mass += float64(w)
		}
	}
	left := float64(s.uniform() * mass) // the conversion forbids a fused multiply and subtract, which not all platforms have
	last := int32(-1)
	for i := range n {
		id := candidate(i)
		w := s.weight[id]
		if w == 0 || w < s.p.MinP {
			continue
		}
		last = id
		if left -= float64(w); left < 0 {
			break
		}
	}
	return last
}

// uniform is the next number in [0, 1) of SplitMix64 ("Fast Splittable Pseudorandom Number Generators", 2014).
func (s *Sampler) uniform() float64 {
	s.random += increment
	z := s.random
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	z ^= z >> 31
	return float64(z>>11) / (1 << 53)
}

// exp is e^x for x ≤ 0, to a relative error of 10⁻⁹. Over a whole vocabulary [math.Exp] costs more than the rest of Pick,
// and its last bits differ between platforms. Conversions to float64 forbid fused operations, so that these do not.
func exp(x float64) float64 {
	if x < -700 {
		return 0
	}
	n := int(float64(x*math.Log2E) - 0.5) // nearest to x/ln 2: the conversion cuts towards zero
	r := x - float64(float64(n)*math.Ln2) // |r| ≤ ln 2 / 2
	y := 1.0 / 40320                      // Taylor: the first term left out is r⁹/9! < 3·10⁻¹⁰
	y = 1.0/5040 + float64(y*r)
	y = 1.0/720 + float64(y*r)
	y = 1.0/120 + float64(y*r)
	y = 1.0/24 + float64(y*r)
	y = 1.0/6 + float64(y*r)
	y = 1.0/2 + float64(y*r)
	y = 1 + float64(y*r)
	y = 1 + float64(y*r)
	return y * math.Float64frombits(uint64(1023+n)<<52)
}

func argmax(v []float32) int32 {
	best := 0
	for i := range v {
		if v[i] > v[best] {
			best = i
		}
	}
	return int32(best)
}
