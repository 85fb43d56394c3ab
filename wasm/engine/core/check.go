package core

import (
	"errors"
	"fmt"

	"kvlens/cache/policy"
	"kvlens/wasm/proto"
	"kvlens/wasm/sample"
)

// Limits of what a request may ask for.
const (
	maxText      = 1 << 20 // bytes of one text
	maxTokens    = 1 << 20
	maxManifests = 100
	maxWraps     = 8
	maxKnobs     = 32
	maxCap       = 1 << 30 // bytes of the arena: more would not fit beside the weights in a 32-bit memory
)

func badRequest(field, format string, args ...any) proto.Failure {
	return proto.Failure{Code: proto.CodeBadRequest, Op: "check", Msg: fmt.Sprintf(format, args...), Args: []string{field}}
}

// first returns the first failure of a list of checks.
func first(checks ...error) error {
	for _, err := range checks {
		if err != nil {
			return err
		}
	}
	return nil
}

// within refuses numbers outside [lo, hi] and NaN.
func within[T uint32 | uint64 | float32](field string, v, lo, hi T) error {
	if !(v >= lo && v <= hi) {
		return badRequest(field, "%v is not within %v and %v", v, lo, hi)
	}
	return nil
}

func checkText(field, s string) error {
	if len(s) > maxText {
		return badRequest(field, "%d bytes, at most %d are read", len(s), maxText)
	}
	return nil
}

func checkMemory(m proto.Memory) error {
	if m.Share > 0 && m.Cap > 0 {
		return badRequest("share", "a cap in bytes and a share of %v at once", m.Share)
	}
	return first(within("cap", m.Cap, 0, maxCap), within("share", m.Share, 0, 1), checkRecipe(m.Recipe))
}

func checkRecipe(r proto.Recipe) error {
	if len(r.Wraps) > maxWraps {
		return badRequest("recipe", "%d wrappers, at most %d", len(r.Wraps), maxWraps)
	}
	for _, s := range append([]proto.Setting{r.Method}, r.Wraps...) {
		if len(s.Knobs) != len(s.At) || len(s.Knobs) > maxKnobs {
			return badRequest("recipe", "%d knobs with %d values", len(s.Knobs), len(s.At))
		}
	}
	err := recipe(r).Check()
	var knob *policy.KnobError
	switch {
	case errors.As(err, &knob):
		return badRequest(knob.Method+"."+knob.Knob, "%v", err)
	case err != nil:
		return badRequest("recipe", "%v", err)
	}
	return nil
}

func checkGenerate(g proto.Generate, vocab int) error {
	for _, id := range g.Forced {
		if uint64(id) >= uint64(vocab) {
			return badRequest("forced", "token %d of a vocabulary of %d", id, vocab)
		}
	}
	if g.Mode > proto.Chat {
		return badRequest("mode", "mode %d is not known", g.Mode)
	}
	return first(
		checkText("text", g.Text),
		checkText("question", g.Question),
		checkText("system", g.System),
		within("max", g.Max, 1, maxTokens),
		params(g.Sampling).Validate(),
	)
}

// Limits of a comparison, which has three caches at once: tokens of its answers, and bytes of one that a margin is asked
// for.
const (
	maxCompared = 4 << 10
	maxAnswer   = 4 << 10
)

func checkCompare(m *proto.Compare) error {
	if m.Mode > proto.Chat {
		return badRequest("mode", "mode %d is not known", m.Mode)
	}
	if n := max(len(m.Gold), len(m.Other)); n > maxAnswer || (m.Gold == "") != (m.Other == "") {
		return badRequest("gold", "answers of %d and %d bytes: both or none, of at most %d", len(m.Gold), len(m.Other), maxAnswer)
	}
	return first(
		checkText("text", m.Text),
		checkText("question", m.Question),
		checkText("system", m.System),
		within("max", m.Max, 1, maxCompared),
		checkMemory(m.A),
		checkMemory(m.B),
	)
}

func params(s proto.Sampling) sample.Params {
	return sample.Params{
		Temperature: s.Temperature, TopP: s.TopP, MinP: s.MinP, Repeat: s.Repeat, TopK: int(s.TopK), Seed: uint64(s.Seed),
	}
}
