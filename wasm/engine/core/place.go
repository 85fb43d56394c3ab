package core

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"kvlens/wasm/gpu"
	"kvlens/wasm/llama"
	"kvlens/wasm/proto"
	"kvlens/wasm/quant"
	"kvlens/wasm/sample"
	"kvlens/wasm/step"
	"kvlens/wasm/weights"
)

// place loads a model into the backend that is wished for.
func (e *engine) place(ctx context.Context, f *weights.File, w Wish, tell telling) (why string, err error) {
	tell(proto.Progress{Stage: proto.StageSelfTest})
	if e.backend, why, err = e.Backend(ctx, w, &e.led); err != nil {
		return why, err
	}
	e.model, err = llama.Load(ctx, f, e.backend, llama.Options{
		Ledger: &e.led,
		Yield:  e.Yield,
		Progress: func(done, total int64) {
			tell(proto.Progress{Stage: proto.StageLoad, Done: uint64(done), Total: uint64(total)})
		},
	})
	return why, err
}

// best is place, but a model that cannot be loaded into a GPU which nobody insisted on goes to the CPU, and a small one
// where it is quicker.
func (e *engine) best(ctx context.Context, f *weights.File, w Wish, tell telling) (why string, err error) {
	why, err = e.place(ctx, f, w, tell)
	if w.Backend != "" || ctx.Err() != nil || !e.onGPU() {
		return why, err
	}
	w.Backend = "cpu"
	if err != nil {
		why = whyNot(err)
		e.unplace()
		_, err = e.place(ctx, f, w, tell)
		return why, err
	}
	if _, size, err := llama.Check(f); err != nil || size > smallModel {
		return why, err
	}
	return e.race(ctx, f, w, tell)
}

// aside is place on the CPU path, for recipes that run nowhere else.
func (e *engine) aside(ctx context.Context, f *weights.File, w Wish, tell telling) (why string, err error) {
	w.Backend = "cpu"
	_, err = e.place(ctx, f, w, tell)
	return proto.WhyRecipe, err
}

func (e *engine) onGPU() bool { return e.backend != nil && e.backend.Info().Name == "webgpu" }

// unplace takes the model from its backend.
func (e *engine) unplace() {
	if e.model != nil {
		e.model.Close()
	}
	if e.backend != nil {
		_ = e.backend.Close() // what it held is gone either way
	}
	e.model, e.backend = nil, nil
}

// whyNot is the reason for which a model is not where it could not be loaded.
func whyNot(err error) string {
	var lost *gpu.LostError
	switch {
	case errors.As(err, &lost):
		return proto.WhyLost
	case errors.Is(err, step.ErrMemory):
		return proto.WhyMemory
	}
	return proto.WhySelfTest
}

const (
	// smallModel is the packed size, in bytes, up to which a model may be quicker on the CPU: what a GPU gains by
	// reading weights faster then does not make up for what each token costs it.
	smallModel = 32 << 20
	raceTokens = 5
	racePrompt = 8
)

// race loads the model into the CPU path besides, lets both answer, and keeps the quicker one.
func (e *engine) race(ctx context.Context, f *weights.File, w Wish, tell telling) (why string, err error) {
	gpuModel, gpuBackend := e.model, e.backend
	e.model, e.backend = nil, nil
	var cpuTime, gpuTime time.Duration
	if _, err = e.place(ctx, f, w, tell); err == nil {
		cpuTime, err = pace(ctx, e.model)
	}
	why = proto.WhyRace
	if err != nil { // no rival
		why, cpuTime = proto.WhyTested, math.MaxInt64
	}
	if gpuTime, err = pace(ctx, gpuModel); err == nil && gpuTime <= cpuTime {
		e.unplace()
		e.model, e.backend = gpuModel, gpuBackend
		return why, ctx.Err()
	}
	gpuModel.Close()
	_ = gpuBackend.Close() // what it held is gone either way
	if err != nil {
		why = whyNot(err)
	}
	if e.model == nil {
		return why, err
	}
	return why, ctx.Err()
}

// pace is how long a model takes for a few tokens, once it is warm.
func pace(ctx context.Context, m *llama.Model) (time.Duration, error) {
	s, err := m.NewSession(llama.SessionOptions{Tokens: racePrompt + raceTokens})
	if err != nil {
		return 0, err
	}
	defer s.Close()
	ids := make([]int32, racePrompt)
	for i := range ids {
		ids[i] = int32(i % m.Config().Vocab)
	}
	var took time.Duration
	for range 2 {
		s.Reset()
		if err := s.Prefill(ctx, ids, nil); err != nil {
			return 0, err
		}
		begin := time.Now()
		o := llama.GenerateOptions{Max: raceTokens, Sampler: sample.New(sample.Params{})}
		if _, err := s.Generate(ctx, o, func(llama.Token) error { return nil }); err != nil {
			return 0, err
		}
		took = time.Since(begin)
	}
	return took, nil
}

// layouts are those of a file's matrices; vectors always have the same. An unknown type is the loader's to refuse.
func layouts(f *weights.File) []quant.Layout {
	var list []quant.Layout
	for _, t := range f.Tensors {
		if l, err := quant.LayoutOf(t.Type); err == nil && t.Rows > 1 && !slices.Contains(list, l) {
			list = append(list, l)
		}
	}
	return list
}
