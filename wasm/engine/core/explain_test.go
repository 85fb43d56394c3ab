//go:build !js

package core

import (
	"math"
	"slices"
	"testing"

	"kvlens/cache/policy"
	"kvlens/wasm/proto"
)

// The page's decisions are those of the recipes.
func TestDecisions(t *testing.T) {
	for ours, theirs := range map[proto.Decision]policy.Decision{
		proto.DecidedRoom: policy.DecidedRoom, proto.DecidedNew: policy.DecidedNew, proto.DecidedSink: policy.DecidedSink,
		proto.DecidedRecent: policy.DecidedRecent, proto.DecidedPin: policy.DecidedPin, proto.DecidedMask: policy.DecidedMask,
		proto.DecidedScore: policy.DecidedScore, proto.DecidedPlace: policy.DecidedPlace, proto.DecidedCascade: policy.DecidedCascade,
		proto.DecidedRule: policy.DecidedRule, proto.DecidedCapRule: policy.DecidedCapRule, proto.DecidedCap: policy.DecidedCap,
		proto.DecidedRecall: policy.DecidedRecall,
	} {
		if uint8(ours) != uint8(theirs) {
			t.Errorf("%d is %d", ours, theirs)
		}
	}
}

// Of every list and recipe: what is explained as kept is what is kept, what has a rank above the threshold stayed, and what
// steps evicted has the score that they said; nothing of it touches the cache.
func TestExplain(t *testing.T) {
	p := opened(t, hooks{})
	for _, method := range []string{"full", "snapkv", "h2o", "streamingllm", "tova", "cake"} {
		share := float32(0.4)
		if method == "full" {
			share = 0
		}
		m := under(method, share)
		m.Memory.Explain = true
		p.ask(m).ok()
		g := ask(evening)
		g.Max, g.Forced = 20, slices.Repeat([]uint32{57}, 19)
		o := p.ask(g).ok()
		k := o.last()
		scored := false
		for list := range 10 {
			out := p.ask(proto.Explain{Layer: uint32(list / 2), KVHead: uint32(list % 2)}).ok()
			x, n := out.explained, int(k.Tokens)
			if int(x.Layer) != list/2 || int(x.KVHead) != list%2 || int(x.Tokens) != n || len(x.Kept) != n || len(x.Stage) != n || len(x.At) != n ||
				len(x.Score) != n || len(x.Threshold) != n || len(x.Rank) != n || len(x.Votes) != len(x.Voters)*n || len(out.kept) != 0 {
				t.Fatalf("%s, list %d: columns of %d tokens: %+v", method, list, n, x)
			}
			for at := range n {
				if kept := method == "full" || has(k, k.Bits, list, at); kept != (x.Kept[at] == 1) {
					t.Errorf("%s, list %d: position %d: kept %v, explained %d", method, list, at, kept, x.Kept[at])
				}
				if int(x.At[at]) > n || proto.Decision(x.Stage[at]) > proto.DecidedRecall {
					t.Errorf("%s, list %d: position %d: decided by %d at %d", method, list, at, x.Stage[at], x.At[at])
				}
				scored = scored || x.Rank[at] > 0 && !math.IsNaN(float64(x.Score[at]))
			}
			for _, s := range o.steps {
				e := s.Evictions
				for i, at := range e.Position {
					if int(e.Layer[i]*2+e.Head[i]) != list {
						continue
					}
					same := x.Score[at] == e.Score[i] || x.Score[at] != x.Score[at] && e.Score[i] != e.Score[i]
					if x.Stage[at] != e.Rule[i] || x.Rank[at] != e.Rank[i] || x.At[at] != s.Position || !same {
						t.Errorf("%s, list %d: position %d left by %d, score %v, rank %d at %d; explained: %d, %v, %d at %d", method, list, at,
							e.Rule[i], e.Score[i], e.Rank[i], s.Position, x.Stage[at], x.Score[at], x.Rank[at], x.At[at])
					}
				}
			}
		}
		if scored != (method != "full" && method != "streamingllm") {
			t.Errorf("%s: scored is %v", method, scored)
		}
		if again := p.ask(askOn(morning)).ok(); again.done.Tokens == 0 {
			t.Errorf("%s: the next turn ends with %+v", method, again.done)
		}
	}
}

func TestExplainRefuses(t *testing.T) {
	p := newPage(t, hooks{})
	p.ask(proto.Explain{}).fails(proto.CodeBadRequest, "model")
	p = opened(t, hooks{})
	p.ask(proto.Explain{Layer: 5}).fails(proto.CodeBadRequest, "layer")
	p.ask(proto.Explain{KVHead: 1 << 31}).fails(proto.CodeBadRequest, "kvhead")
	p.ask(proto.Explain{}).fails(proto.CodeEmpty)
	p.ask(under("snapkv", 0.4)).ok()
	p.ask(ask(evening)).ok()
	p.ask(proto.Explain{}).fails(proto.CodeNoRecord, "explain")
	m := under("snapkv", 0.4)
	m.Memory.Explain = true
	p.ask(m).ok()
	p.ask(proto.Explain{}).fails(proto.CodeNoRecord, "explain") // it began without
	p.ask(ask(evening)).ok()
	if x := p.ask(proto.Explain{}).ok().explained; x.Tokens != 64 || x.Bytes == 0 {
		t.Errorf("%+v", x)
	}
	m.Memory.Explain = false
	p.ask(m).ok()
	p.ask(proto.Explain{}).fails(proto.CodeNoRecord, "explain")
}
