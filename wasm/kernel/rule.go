package kernel

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/wasm/quant"
	"kvlens/wasm/step"
)

// Decoding under a plan. The host counts the tokens of lists, which follow from their rules; which tokens leave, and which
// slot the next one takes, the kernels say to each other: evict.wgsl writes it into the ring's next row. So steps can be
// recorded and submitted ahead, and nothing of it is read.

// ruled says that lists lose tokens while they are decoded: their slots are the device's to choose.
func (k *keeper) ruled() bool { return k != nil && k.plan.Decode.Kind != policy.DecodeStop }

// joined says that a run is of a token whose slots the ring names.
func (s *session) joined(a *step.Args) bool {
	return a.Stored && s.keeper != nil && s.keeper.turn != nil
}

// attention lists the nodes of a decoded token's attention in one layer, up to the parts of its output, and those that
// follow it: what leaves.
func (k *keeper) attention(o *operation) (parts, rule []*node) {
	if k == nil {
		return o.stored[:2], nil
	}
	p := &k.layers[o.layer]
	logits := p.logits
	if len(logits) == 0 {
		logits = o.stored[:1]
	}
	return slices.Concat(p.query, logits, p.values), slices.Concat(p.row, p.rule)
}

// unturned are nodes by which keys are stored as they are before RoPE, where positions are ranks; otherwise the nodes
// themselves.
func (k *keeper) unturned(nodes []*node) []*node {
	if k == nil || !k.plan.Store.Rank {
		return nodes
	}
	out := slices.Clone(nodes)
	for i, n := range nodes {
		consts := n.variant.Consts
		switch n.variant.Kernel {
		case "qkv", "rope":
			consts = with(consts, "TURN_KEYS", "false")
		case "store":
			consts = with(consts, "UNTURN", "true")
		default:
			continue
		}
		if k.plain[n] == nil {
			c := *n
			c.variant.Consts, c.groups = consts, map[groupKey]boundGroup{}
			k.plain[n] = &c
		}
		out[i] = k.plain[n]
	}
	return out
}

// rules tells the kernels what happens to each list, and, in a row of the ring, which slots the next tokens take.
func (k *keeper) rules(c *cache.Cache, rules []step.Rule, row int) error {
	var words, ring []uint32
	for i, r := range rules {
		l := c.List(k.place(i))
		if len(l.At) != l.Slots {
			return failed("list %d: its tokens are not known", i)
		}
		live, next := l.Live, uint32(l.Slots)
		if hole := slices.Index(l.At, cache.DeadPosition); hole >= 0 {
			next = uint32(hole)
		}
		if k.turn != nil && k.again && live > 0 {
			live, next = live-1, l.Order()[live-1]
		}
		q := Quota{
			Live: live, Slots: l.Slots, Limit: r.Limit, Full: r.Full, Oldest: r.Oldest, Newest: r.Newest, Absorbed: l.Absorbed,
		}
		words = append(words, q.Words()...)
		ring = append(ring, next, max(next+1, uint32(l.Slots)))
		k.lists[i] = list{live, l.Slots, l.Absorbed}
	}
	if err := k.write("lists", 0, words); err != nil {
		return err
	}
	at := int64(k.s.words[wordRingAt]) + int64(row*2*len(k.lists))
	if err := k.e.b.dev.Write(k.s.mem.buf, at*4, quant.Bytes(ring)); err != nil {
		return fmt.Errorf("webgpu: rules: %w", err)
	}
	all := k.s.words[k.s.words[wordRingAt]:][:ringSteps*2*len(k.lists)]
	for i := range all {
		all[i] = none // kernels write the other rows
	}
	return nil
}

// place is the layer and the KV head of a list.
func (k *keeper) place(list int) (layer, kvHead int) {
	return list / k.s.geo.KVHeads, list % k.s.geo.KVHeads
}

// joins counts a token that joins a list of a rule, and those that then leave.
func joins(r *step.Rule, n list) (then list, leave int) {
	n.live++
	n.slots = max(n.slots, n.live)
	if n.live >= r.Full {
		leave = n.live - r.Limit
		n.live = r.Limit
	}
	return n, leave
}

// ahead takes pages for a token that is about to be submitted.
func (k *keeper) ahead(a *answer) error {
	next := slices.Clone(a.lists)
	for i := range next {
		next[i], _ = joins(&a.Rules[i], next[i])
		if err := k.allot(a.Cache, i, next[i].slots); err != nil {
			return err
		}
	}
	a.lists = next
	return nil
}

// allot gives a list the pages of so many slots.
func (k *keeper) allot(c *cache.Cache, i, slots int) error {
	if slots > k.s.capacity() {
		return failed("step: lists have outgrown their tables")
	}
	layer, h := k.place(i)
	return c.Allot(layer, h, slots)
}

// join lets the cache count a token that a list got.
func (k *keeper) join(c *cache.Cache, i int) error {
	layer, h := k.place(i)
	return c.Hold(layer, h, k.lists[i].live+1)
}

// leaves lets the cache count what then left the list, and says how many.
func (k *keeper) leaves(c *cache.Cache, i int, r *step.Rule) (int, error) {
	layer, h := k.place(i)
	then, n := joins(r, k.lists[i])
	if n > 0 {
		if err := c.Hold(layer, h, then.live); err != nil {
			return 0, err
		}
		if k.plan.Store.Virtual {
			c.Absorb(layer, h, n)
			then.absorbed += n
		}
	}
	k.lists[i] = then
	return n, nil
}

// settle lets the cache count the token of a step that was waited for, and says what left.
func (a *answer) settle() (left []step.Left, err error) {
	at := a.waited - 1
	if a.Rules == nil || at < a.first {
		return nil, nil
	}
	k := a.session.keeper
	leave, any := make([]int, len(a.Rules)), false
	for i := range a.Rules {
		if err = k.join(a.Cache, i); err == nil {
			leave[i], err = k.leaves(a.Cache, i, &a.Rules[i])
		}
		if err != nil {
			return nil, fmt.Errorf("webgpu: step: %w", err)
		}
		any = any || leave[i] > 0
	}
	if !any || !a.Watch {
		return nil, nil
	}
	if at >= a.logged {
		if a.log, err = k.log(); err != nil {
			return nil, err
		}
		a.logged = a.steps
	}
	return k.left(a.log, at, a.Rules, leave), nil
}

// The log of what left, as shaders/lib/log.wgsl names it.
const (
	logSteps  = step.InFlight
	logTokens = 16 // of a list: the largest reserve
)

// logRoom is how many words the log takes at most.
func logRoom(lists int) int { return logSteps * lists * (1 + 2*logTokens) }

// logs makes the log as long as rules let tokens of a list leave in one step, and gives the session's word for it.
func (k *keeper) logs(rules []step.Rule, wanted bool) uint32 {
	if !wanted || !k.ruled() {
		return 0
	}
	k.entries = 1
	for i := range rules {
		if r := &rules[i]; r.Full-r.Limit <= logTokens {
			k.entries = max(k.entries, r.Full-r.Limit)
		}
	}
	return uint32(k.entries)
}

// log reads the log of the last steps.
func (k *keeper) log() ([]uint32, error) {
	log := make([]uint32, logSteps*len(k.lists)*(1+2*k.entries))
	if err := k.e.b.dev.Read(k.buffers["lists"].buf, int64(len(k.lists))*ListWords*4, quant.Bytes(log)); err != nil {
		return nil, fmt.Errorf("webgpu: what left: %w", err)
	}
	return log, nil
}

// left is what left the lists in a step, by the log; leave says how many each lost.
func (k *keeper) left(log []uint32, at int, rules []step.Rule, leave []int) (out []step.Left) {
	size, nan := 1+2*k.entries, float32(math.NaN())
	for i, n := range leave {
		row := log[(at%logSteps*len(k.lists)+i)*size:][:size]
		list := make([]step.Left, min(n, k.entries))
		for e := range list {
			list[e] = step.Left{
				List: i, Position: int32(row[1+2*e]),
				Worth: math.Float32frombits(row[2+2*e]), Threshold: math.Float32frombits(row[0]),
			}
		}
		stay := rules[i].Limit - rules[i].Oldest - rules[i].Newest - rules[i].Pins // by what they are worth
		sort.Slice(list, func(a, b int) bool {
			if list[a].Worth != list[b].Worth {
				return list[a].Worth > list[b].Worth
			}
			return list[a].Position < list[b].Position
		})
		for e := range list {
			if list[e].Rank = stay + e + 1; stay <= 0 { // age alone decides
				list[e].Worth, list[e].Threshold, list[e].Rank = nan, nan, 0
			}
		}
		sort.Slice(list, func(a, b int) bool { return list[a].Position < list[b].Position })
		out = append(out, list...)
	}
	return out
}

// planned finds the kernels of the plan that an answer is decoded under; nil is Full.
func (e *exec) planned(s *session, a *step.Answer) (*keeper, error) {
	if e.plan == nil {
		if a.Rules != nil {
			return nil, failed("answer: rules without a plan")
		}
		return nil, nil
	}
	k, err := e.keeper(s)
	if err != nil {
		return nil, err
	}
	if rules := len(a.Rules); k.ruled() && rules != len(k.lists) || !k.ruled() && rules > 0 {
		return nil, failed("answer: rules for %d of %d lists", rules, len(k.lists))
	}
	k.turn = nil
	return k, k.reserve()
}

// decodes makes the kernels ready that a plan without rules takes for a token.
func (e *exec) decodes(s *session) error {
	k, err := e.keeper(s)
	if err != nil || k.ruled() || len(k.buffers) > 0 {
		return err
	}
	return k.reserve()
}

// Join gives the next token a place in every list.
func (e *exec) Join(a *step.Args, rules []step.Rule) error {
	k, err := e.joining(a, rules)
	if err != nil {
		return err
	}
	for i := range rules {
		l := a.Cache.List(k.place(i))
		if err := k.allot(a.Cache, i, max(l.Slots, l.Live+1)); err != nil {
			return err
		}
	}
	if err := k.rules(a.Cache, rules, 0); err != nil {
		return err
	}
	for i := range rules {
		if err := k.join(a.Cache, i); err != nil {
			return fmt.Errorf("webgpu: join: %w", err)
		}
	}
	return nil
}

// Rejoin takes the newest token of every list for one that joins.
func (e *exec) Rejoin(a *step.Args, rules []step.Rule) error {
	k, err := e.joining(a, rules)
	if err != nil {
		return err
	}
	k.again = true
	return k.rules(a.Cache, rules, 0)
}

// joining begins a token.
func (e *exec) joining(a *step.Args, rules []step.Rule) (*keeper, error) {
	k, err := e.lent(a)
	if err != nil {
		return nil, err
	}
	if n := len(rules); !k.ruled() || n < 1 || n > len(k.lists) || n%e.shape.KVHeads != 0 {
		return nil, failed("join: rules for %d of %d lists", n, len(k.lists))
	}
	k.turn, k.again = rules, false
	clear(k.leave)
	k.s.words[wordLog], k.s.stale = k.logs(rules, true), true
	return k, e.tables(k.s, a.Cache, extent{})
}

// Drop lets the lists of a layer lose what their rules say.
func (e *exec) Drop(a *step.Args, layer int) error {
	k, err := e.lent(a)
	if err != nil {
		return err
	}
	if err := e.checkLayer(layer); err != nil || k.turn == nil || k.leave[layer] != nil {
		return failed("drop: layer %d, of a token that has not joined it", layer)
	}
	p := &k.layers[layer]
	row := p.row
	if k.again {
		row = nil
	}
	if err := k.header(a); err != nil {
		return err
	}
	if err := k.run(row, p.rule); err != nil {
		return err
	}
	for h := range e.shape.KVHeads {
		i := layer*e.shape.KVHeads + h
		n, err := k.leaves(a.Cache, i, &k.turn[i])
		if err != nil {
			return fmt.Errorf("webgpu: drop: %w", err)
		}
		k.leave[layer] = append(k.leave[layer], n)
	}
	return nil
}

// header writes the session's words for a token at work, which no operation may have come before.
func (k *keeper) header(a *step.Args) error {
	return k.e.header(k.s, func(h []uint32) {
		h[wordPos], h[wordStep], h[wordHalt], h[wordQuery], h[wordLast] = uint32(a.Pos), 0, 0, 0, anyLast
	})
}

// Left says what the last token made leave.
func (e *exec) Left(a *step.Args) ([]step.Left, error) {
	k, err := e.lent(a)
	if err != nil {
		return nil, err
	}
	leave := slices.Concat(k.leave...)
	if k.turn == nil || len(leave) != len(k.turn) {
		return nil, failed("what left: a token is at work")
	}
	if slices.Max(leave) == 0 || k.s.words[wordLog] == 0 {
		return nil, nil
	}
	log, err := k.log()
	if err != nil {
		return nil, err
	}
	return k.left(log, 0, k.turn, leave), nil
}
