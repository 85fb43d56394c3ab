package kernel

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/wasm/step"
)

// The self-test's plan: of the rows some stay, whose keys are unlike the others', and one more leaves with the token after
// them, by its attention. In this model of arbitrary weights keys differ clearly, and attention does not.
var selfRecipe = policy.Plan{
	Score:   policy.Score{Kind: policy.ScoreKeyDiff},
	Protect: policy.Protect{Recent: 1},
	Decode:  policy.Decode{Kind: policy.DecodeCap, Decay: 0.5},
}

const selfBudget = selfRows / 2

// selfPlan reads a prompt under a plan and then runs one recorded step, and compares what is kept with what the oracle
// keeps. An oracle that runs no plans has nothing to say.
func selfPlan(ctx context.Context, b *Backend, oracle step.Backend, m *selfModel) error {
	integer := b.lib.Integer
	b.lib.Integer = false // activations in 8 bits have other attention, and so another order
	defer func() { b.lib.Integer = integer }()
	got, want := &side{b: b, sums: true}, &side{b: oracle, sums: true}
	defer want.close() // the other ends with its backend
	var runs [2]*policy.Run
	for i, s := range []*side{got, want} {
		if err := s.open(m); err != nil {
			return fmt.Errorf("webgpu: self-test: %w", err)
		}
		shape := policy.Shape{Layers: 1, Heads: selfShape.Heads, KVHeads: selfShape.KVHeads, HeadDim: selfShape.HeadDim}
		run, err := policy.NewRun(&selfRecipe, shape, policy.Budget{Tokens: selfBudget, Reserve: 1}, nil)
		if err != nil {
			return err
		}
		run.Prompt(selfRows)
		runs[i] = run
	}
	scorer, ok := want.exec.(step.Scorer)
	if !ok {
		return nil
	}
	e := got.exec.(*exec)
	ids := make([]int32, selfRows)
	for i := range ids {
		ids[i] = int32(i * 11)
	}
	a := step.Args{IDs: ids, To: selfRows}
	if err := got.keep(ctx, a, e, runs[0]); err != nil {
		return err
	}
	if err := want.keepAs(ctx, a, scorer, runs[1]); err != nil {
		return err
	}
	p := &e.sessions[got.arena].keeper.layers[0]
	if err := sameTokens(slices.Concat(p.input, p.choose, p.store), e, got, want); err != nil {
		return err
	}
	// One step of the oracle, the same recorded on the device.
	next := step.Args{IDs: []int32{7}, Pos: selfRows, To: 1, Stored: true}
	if err := want.drop(ctx, next, scorer, runs[1]); err != nil {
		return err
	}
	lent := step.Args{Cache: got.cache, Arena: got.arena}
	if err := e.Lend(&lent, &step.Loan{Most: selfBudget + 1}); err != nil {
		return err
	}
	rules := make([]step.Rule, selfShape.KVHeads)
	for h := range rules {
		q, full := runs[0].Rule(0, h, 0)
		rules[h] = step.Rule{Limit: q.Limit, Full: full, Oldest: q.Oldest, Newest: q.Newest}
	}
	if err := compareStep(ctx, e, got, want, rules); err != nil {
		return err
	}
	return sameTokens(slices.Concat(p.row, p.rule), e, got, want)
}

// keep stores what the device chooses of a prompt.
func (s *side) keep(ctx context.Context, a step.Args, e *exec, run *policy.Run) error {
	a.Cache, a.Arena = s.cache, s.arena
	err := e.Follow(&selfRecipe, nil)
	if err == nil {
		err = e.Lend(&a, &step.Loan{Rows: len(a.IDs), Most: len(a.IDs)})
	}
	if err == nil {
		err = e.Run(ctx, &a, 0, 3)
	}
	if err == nil {
		err = e.Observe(&a, 0)
	}
	if err == nil {
		err = e.Weigh(&a, 0)
	}
	if err != nil {
		return err
	}
	sz := &policy.Sizes{Sinks: make([]int, selfShape.KVHeads)}
	for range sz.Sinks {
		sz.Candidates = append(sz.Candidates, len(a.IDs))
	}
	quotas, err := run.Quotas(0, sz, e)
	if err == nil {
		err = e.Select(&a, &quotas[0])
	}
	for h := 0; err == nil && h < len(sz.Sinks); h++ {
		err = s.cache.Hold(0, h, quotas[0].Lists[h].Limit)
	}
	if err == nil {
		err = e.Keep(&a, 0)
	}
	return err
}

// keepAs is keep where the host chooses.
func (s *side) keepAs(ctx context.Context, a step.Args, sc step.Scorer, run *policy.Run) error {
	a.Cache, a.Arena = s.cache, s.arena
	err := sc.Follow(&selfRecipe)
	if err == nil {
		sc.Begin(0)
		err = s.exec.Run(ctx, &a, 0, 3)
	}
	if err == nil {
		err = sc.Observe(&a, 0)
	}
	if err != nil {
		return err
	}
	in, err := sc.Input(&a, 0)
	if err != nil {
		return err
	}
	keeps, err := run.Layer(0, in, sc.Loops())
	if err != nil {
		return err
	}
	for h, kept := range keeps[0].Heads {
		positions, rows := make([]uint32, len(kept)), slices.Repeat([]uint32{cache.NoSlot}, len(a.IDs))
		for i, at := range kept {
			positions[i] = uint32(at)
		}
		slots, err := s.cache.Put(0, h, positions)
		if err != nil {
			return err
		}
		for i, at := range kept {
			rows[at] = slots[i]
		}
		a.Slots = append(a.Slots, rows)
	}
	if err := s.exec.Run(ctx, &a, 3, 4); err != nil {
		return err
	}
	for h, sums := range keeps[0].Sums {
		if err := sc.PutSums(&a, 0, h, s.cache.List(0, h).Order(), sums); err != nil {
			return err
		}
	}
	return nil
}

// drop computes a token where the host chooses what leaves.
func (s *side) drop(ctx context.Context, a step.Args, sc step.Scorer, run *policy.Run) error {
	a.Cache, a.Arena = s.cache, s.arena
	for h := range selfShape.KVHeads {
		slots, err := s.cache.Put(0, h, []uint32{uint32(a.Pos)})
		if err != nil {
			return err
		}
		a.Slots = append(a.Slots, slots)
	}
	for _, op := range []int{0, 1, 3, 2} {
		if err := s.exec.Run(ctx, &a, op, op+1); err != nil {
			return err
		}
	}
	in, err := sc.Rows(&a, 0)
	if err != nil {
		return err
	}
	for h, leave := range run.Step(0, in) {
		slots := make([]uint32, len(leave))
		for i, at := range leave {
			slots[i] = s.cache.List(0, h).Order()[at]
		}
		s.cache.Evict(0, h, slots)
	}
	return s.exec.Run(ctx, &a, 4, 9)
}

// sameTokens compares the tokens that nodes chose with the oracle's.
func sameTokens(nodes []*node, e *exec, got, want *side) error {
	err := e.Return(&step.Args{Cache: got.cache, Arena: got.arena})
	if errors.Is(err, cache.ErrPositions) {
		return &SelfTestError{Kernel: names(nodes)}
	}
	if err != nil {
		return err
	}
	for h := range selfShape.KVHeads {
		x, y := got.cache.List(0, h), want.cache.List(0, h)
		for rank, slot := range y.Order() {
			at := uint32(cache.DeadPosition)
			if rank < len(x.Order()) {
				at = x.At[x.Order()[rank]]
			}
			if at != y.At[slot] {
				return &SelfTestError{names(nodes), rank, float32(at), float32(y.At[slot])}
			}
		}
	}
	return nil
}
