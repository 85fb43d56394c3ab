package core

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"kvlens/cache"
	"kvlens/cache/policy"
	"kvlens/wasm/heads"
	"kvlens/wasm/llama"
	"kvlens/wasm/proto"
	"kvlens/wasm/quant"
	"kvlens/wasm/tokenizer"
	"kvlens/wasm/weights"
)

// open loads a model and makes an empty session. If it fails or is stopped, the engine is as empty as before.
func (e *engine) open(j job, o proto.Open) (err error) {
	if e.model != nil {
		return badRequest("model", "a model is open already")
	}
	if err := first(checkMemory(o.Memory), checkText("manifest", o.Manifest)); err != nil {
		return err
	}
	opened, err := e.load(j.ctx, o, e.best, e.progress(j))
	if err != nil {
		return err
	}
	e.asked = o
	e.send(j.id, opened)
	return nil
}

// placing loads a model into a backend and says why it is this one.
type placing func(ctx context.Context, f *weights.File, w Wish, tell telling) (why string, err error)

// telling hears of progress.
type telling func(proto.Progress)

// load fetches a model, loads it and makes an empty session. If it fails, the engine is empty.
func (e *engine) load(ctx context.Context, o proto.Open, place placing, tell telling) (opened proto.Opened, err error) {
	defer func() {
		if err != nil {
			e.close()
		}
	}()
	stored, err := e.fetch(ctx, o.Manifest, tell)
	if err != nil {
		return opened, err
	}
	defer stored.Close()
	f, err := stored.File()
	if err != nil {
		return opened, err
	}
	tell(proto.Progress{Stage: proto.StageTokenizer})
	if e.tok, err = tokenizer.FromGGUF(f.Meta); err != nil {
		if read := f.Meta.Err(); read != nil {
			err = read
		}
		return opened, err
	}
	e.manifest = stored.Manifest
	if e.prompts, err = newPrompts(e.tok, e.manifest, f); err != nil {
		return opened, err
	}
	runtime.GC() // what reading the vocabulary left behind is used again, before the weights take new memory

	w := Wish{o.Backend, o.Float, layouts(f)}
	why, err := place(ctx, f, w, tell)
	if err != nil {
		return opened, err
	}
	if n := e.model.Config().Vocab; n != e.tok.Vocab() {
		return opened, fmt.Errorf("core: open: %w", &weights.FormatError{
			Field: "tokenizer.ggml.tokens", Msg: fmt.Sprintf("%d tokens, but embeddings for %d", e.tok.Vocab(), n),
		})
	}
	if e.tables, err = e.measured(); err != nil {
		return opened, err
	}
	err = e.makeSession(o.Memory)
	if errors.Is(err, llama.ErrRecipe) && e.onGPU() {
		e.refused = err
		e.unplace()
		if why, err = e.aside(ctx, f, w, tell); err == nil {
			err = e.makeSession(o.Memory)
		}
	}
	if err != nil {
		return opened, err
	}
	return e.describe(f, why), nil
}

// fetch brings a model in. What is stored already is not fetched again.
func (e *engine) fetch(ctx context.Context, manifest string, tell telling) (*weights.Model, error) {
	tell(proto.Progress{Stage: proto.StageStore})
	return e.Store.Open(ctx, manifest, func(p weights.Progress) {
		tell(proto.Progress{
			Stage: proto.StageFetch, Done: uint64(p.Done), Total: uint64(p.Total),
			Resumed: uint64(p.Resumed), Refetched: uint32(p.Refetched),
		})
	})
}

// progress sends progress of one request, not more often than anybody can read.
func (e *engine) progress(j job) telling {
	var tell cadence
	stage := proto.Stage(255)
	return func(p proto.Progress) {
		if tell.now(p.Stage != stage || p.Done == p.Total) {
			stage = p.Stage
			e.send(j.id, p)
		}
	}
}

// describe is what the page gets to know of a model.
func (e *engine) describe(f *weights.File, why string) proto.Opened {
	c, info := e.model.Config(), e.backend.Info()
	arch, _ := f.Meta.String("general.architecture")
	o := proto.Opened{
		Name: e.manifest.Name, Licence: e.manifest.Licence, Source: e.manifest.Source, Arch: arch, FileType: fileType(f),
		Layers: uint32(c.Layers), Heads: uint32(c.Heads), KVHeads: uint32(c.KVHeads), HeadDim: uint32(c.HeadDim),
		Hidden: uint32(c.Hidden), FFN: uint32(c.FFN), Vocab: uint32(c.Vocab), Context: uint32(c.Context),
		FileBytes: uint64(f.Size), TokenBytes: e.tokenBytes(), Modes: e.prompts.modes(),
		Backend: info.Name, BackendDetail: info.Detail, BackendWhy: why,
		OPFS: e.Store.Kept(), Tables: e.tables != nil, State: e.state(),
	}
	for _, t := range f.Tensors {
		o.Params += uint64(t.Rows) * uint64(t.Cols)
	}
	return o
}

// measured are the tables of the model's heads, nil where there are none.
func (e *engine) measured() (*policy.Tables, error) {
	t, err := heads.For(e.manifest.SHA256)
	if errors.Is(err, heads.ErrUnknown) {
		return nil, nil
	}
	c := e.model.Config()
	if err == nil {
		err = t.Check(policy.Shape{Layers: c.Layers, Heads: c.Heads, KVHeads: c.KVHeads, HeadDim: c.HeadDim}, e.manifest.SHA256)
	}
	return t, err
}

// fileType is the type that most of a file's bytes have.
func fileType(f *weights.File) string {
	bytes := map[quant.Type]int64{}
	var most quant.Type
	for _, t := range f.Tensors {
		bytes[t.Type] += t.Size
		if bytes[t.Type] > bytes[most] {
			most = t.Type
		}
	}
	return most.String()
}

func (e *engine) listModels(j job, m proto.ListModels) error {
	if len(m.Manifests) > maxManifests {
		return badRequest("manifests", "%d manifests, at most %d", len(m.Manifests), maxManifests)
	}
	models, err := e.list(j.ctx, m.Manifests)
	if err != nil {
		return err
	}
	e.send(j.id, models)
	return nil
}

// list says what is stored of each manifest. One that cannot be had has no name and no size.
func (e *engine) list(ctx context.Context, manifests []string) (proto.Models, error) {
	m := proto.Models{OPFS: e.Store.Kept()}
	for _, url := range manifests {
		if err := checkText("manifests", url); err != nil {
			return m, err
		}
		s, err := e.Store.Status(ctx, url)
		if ctx.Err() != nil {
			return m, ctx.Err()
		}
		if err != nil {
			s.Manifest = new(weights.Manifest)
		}
		m.Manifest = append(m.Manifest, url)
		m.Name, m.Licence = append(m.Name, s.Manifest.Name), append(m.Licence, s.Manifest.Licence)
		m.Size, m.Stored = append(m.Size, uint64(s.Manifest.Size)), append(m.Stored, uint64(s.Stored))
	}
	usage, quota := e.Store.Space(ctx)
	m.Usage, m.Quota = uint64(usage), uint64(quota)
	return m, nil
}

func (e *engine) deleteModel(j job, m proto.DeleteModel) error {
	if err := checkText("manifest", m.Manifest); err != nil {
		return err
	}
	if err := e.Store.Delete(j.ctx, m.Manifest); err != nil {
		return err
	}
	return e.listModels(j, proto.ListModels{Manifests: []string{m.Manifest}})
}

// tokenBytes is what one token takes in all lists, without the rounding to whole pages.
func (e *engine) tokenBytes() uint32 {
	c := e.model.Config()
	size := 2
	if e.session.Cache().Geometry().Key == cache.F32 {
		size = 4
	}
	return uint32(2 * c.Layers * c.KVHeads * c.HeadDim * size)
}
