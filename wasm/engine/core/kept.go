package core

import (
	"slices"

	"kvlens/cache/policy"
	"kvlens/wasm/llama"
	"kvlens/wasm/proto"
)

// recipeVersion changes when a recipe of the same name and knobs keeps other tokens.
const recipeVersion = 1

// tellKept sends what the cache holds.
func (e *engine) tellKept(j job) { e.send(j.id, e.kept(e.session)) }

// kept is what the cache of a session holds.
func (e *engine) kept(s *llama.Session) proto.Kept {
	c := e.model.Config()
	b := s.Budget()
	used, published := s.Window()
	k := proto.Kept{
		Tokens: uint32(s.Position()), Layers: uint32(c.Layers), KVHeads: uint32(c.KVHeads),
		Budget: uint32(b.Tokens), Reserve: uint32(b.Reserve), Window: uint32(used), Published: uint32(published),
		Recipe: s.Recipe().Method, RecipeVersion: recipeVersion,
	}
	for _, p := range s.Pins() {
		k.Pins = append(k.Pins, uint32(p))
	}
	if b.Tokens == 0 { // nothing ever leaves
		return k
	}
	for _, layer := range s.Caps() {
		for _, n := range layer {
			k.Caps = append(k.Caps, uint32(n))
		}
	}
	tokens := s.Position()
	row := (tokens + 7) / 8
	k.Bits = make([]uint8, c.Layers*c.KVHeads*row)
	k.Reasons = make([]uint8, c.Layers*c.KVHeads*tokens)
	lists := make([][]int32, c.Layers*c.KVHeads)
	whole := true
	for i := range lists {
		lists[i] = s.Kept(i/c.KVHeads, i%c.KVHeads)
		whole = whole && len(lists[i]) == tokens
		for _, p := range s.Shadowed(i/c.KVHeads, i%c.KVHeads) {
			if k.Shadowed == nil {
				k.Shadowed = make([]uint8, len(k.Bits))
			}
			k.Shadowed[i*row+int(p)/8] |= 1 << (p % 8)
		}
	}
	for i, list := range lists {
		for _, p := range list {
			k.Bits[i*row+int(p)/8] |= 1 << (p % 8)
			if !whole {
				k.Reasons[i*tokens+int(p)] = uint8(reason(s.Plan(), b, len(list), int(p), tokens))
			}
		}
	}
	return k
}

// reason says why a list of so many tokens has the one at a position, when some lists lack some of all tokens.
func reason(p *policy.Plan, b policy.Budget, held, position, tokens int) proto.Keeps {
	sinks, recent := p.Protect.Sinks, max(p.Protect.Recent, int(p.Protect.Part*float64(b.Tokens)))
	mask := p.Heads.Kind == policy.HeadsMask
	if mask {
		sinks = min(sinks, max(1, b.Tokens/4)) // as a run has it
	}
	switch {
	case mask && held == tokens:
		return proto.KeptMask
	case position < sinks:
		return proto.KeptSink
	case position >= tokens-recent || p.Score.Kind == policy.ScoreNone:
		return proto.KeptRecent
	case p.Score.Kind == policy.ScoreRandom:
		return proto.KeptChance
	case p.Select.Kind == policy.SelectChunks:
		return proto.KeptChunk
	case p.Score.Heads > 0:
		return proto.KeptVote
	}
	return proto.KeptScore
}

// evictions are what left the cache with one step, as columns.
func (e *engine) evictions(left []llama.Eviction, step int) (out proto.Evictions) {
	for _, x := range left {
		out.Layer, out.Head = append(out.Layer, uint32(x.Layer)), append(out.Head, uint32(x.KVHead))
		out.Position = append(out.Position, uint32(x.Position))
		out.Step, out.Rule = append(out.Step, uint32(step)), append(out.Rule, uint8(x.Rule))
		out.Rank, out.Score = append(out.Rank, uint32(x.Rank)), append(out.Score, x.Score)
		out.Threshold = append(out.Threshold, x.Threshold)
	}
	return out
}

// compressed is a story in the cache, as it was before a question was asked about it.
type compressed struct {
	ids        []int32
	checkpoint *llama.Checkpoint // nil if there is none
}

// holds says whether it is the story of a turn that is read in parts.
func (c *compressed) holds(parts [][]int32) bool {
	return c.checkpoint != nil && len(parts) > 1 && slices.Equal(c.ids, parts[0])
}

func (c *compressed) close() {
	if c.checkpoint != nil {
		c.checkpoint.Close()
	}
	*c = compressed{}
}
