package core

import (
	"context"
	"fmt"
	"io"
	"runtime"

	"kvlens/cache"
	"kvlens/wasm/llama"
	"kvlens/wasm/proto"
	"kvlens/wasm/quant"
	"kvlens/wasm/tokenizer"
	"kvlens/wasm/weights"
)

// Store keeps models for the next visit, or for this one where there is no storage.
type Store interface {
	// Get brings a model in: what is not stored is fetched and verified.
	Get(ctx context.Context, manifest string, progress func(proto.Progress)) (*Stored, error)
	List(ctx context.Context, manifests []string) (proto.Models, error)
	Delete(ctx context.Context, manifest string) error
}

// Stored is a whole, verified model.
type Stored struct {
	Manifest *weights.Manifest
	Data     io.ReaderAt
	Kept     bool // for the next visit
	Close    func()
}

// open loads a model and makes an empty session. If it fails or is stopped, the engine is as empty as before.
func (e *engine) open(j job, o proto.Open) (err error) {
	if e.model != nil {
		return badRequest("model", "a model is open already")
	}
	if err := first(checkMemory(o.Memory), checkText("manifest", o.Manifest)); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			e.close()
		}
	}()
	tell := e.progress(j)
	stored, err := e.Store.Get(j.ctx, o.Manifest, tell)
	if err != nil {
		return err
	}
	defer stored.Close()
	f, err := weights.Open(stored.Data, stored.Manifest.Size)
	if err != nil {
		return err
	}
	tell(proto.Progress{Stage: proto.StageTokenizer})
	if e.tok, err = tokenizer.FromGGUF(f.Meta); err != nil {
		if read := f.Meta.Err(); read != nil {
			err = read
		}
		return err
	}
	e.manifest = stored.Manifest
	if e.prompts, err = newPrompts(e.tok, e.manifest, f); err != nil {
		return err
	}
	runtime.GC() // what reading the vocabulary left behind is used again, before the weights take new memory

	backend, why, err := e.Backend(j.ctx, o.Backend, o.Float, &e.led)
	if err != nil {
		return err
	}
	e.backend = backend
	e.model, err = llama.Load(j.ctx, f, backend, llama.Options{
		Ledger: &e.led,
		Yield:  e.Yield,
		Progress: func(done, total int64) {
			tell(proto.Progress{Stage: proto.StageLoad, Done: uint64(done), Total: uint64(total)})
		},
	})
	if err != nil {
		return err
	}
	if n := e.model.Config().Vocab; n != e.tok.Vocab() {
		return fmt.Errorf("core: open: %w", &weights.FormatError{
			Field: "tokenizer.ggml.tokens", Msg: fmt.Sprintf("%d tokens, but embeddings for %d", e.tok.Vocab(), n),
		})
	}
	if err := e.makeSession(o.Memory); err != nil {
		return err
	}
	e.send(j.id, e.describe(f, stored, why))
	return nil
}

// progress sends progress of one request, not more often than anybody can read.
func (e *engine) progress(j job) func(proto.Progress) {
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
func (e *engine) describe(f *weights.File, s *Stored, why string) proto.Opened {
	c, info := e.model.Config(), e.backend.Info()
	arch, _ := f.Meta.String("general.architecture")
	o := proto.Opened{
		Name: s.Manifest.Name, Licence: s.Manifest.Licence, Source: s.Manifest.Source, Arch: arch, FileType: fileType(f),
		Layers: uint32(c.Layers), Heads: uint32(c.Heads), KVHeads: uint32(c.KVHeads), HeadDim: uint32(c.HeadDim),
		Hidden: uint32(c.Hidden), FFN: uint32(c.FFN), Vocab: uint32(c.Vocab), Context: uint32(c.Context),
		FileBytes: uint64(f.Size), TokenBytes: e.tokenBytes(), Modes: e.prompts.modes(),
		Backend: info.Name, BackendDetail: info.Detail, BackendWhy: why,
		OPFS: s.Kept, State: e.state(),
	}
	for _, t := range f.Tensors {
		o.Params += uint64(t.Rows) * uint64(t.Cols)
	}
	return o
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
	if len(m.Manifests) > 1000 {
		return badRequest("manifests", "%d manifests", len(m.Manifests))
	}
	models, err := e.Store.List(j.ctx, m.Manifests)
	if err != nil {
		return err
	}
	e.send(j.id, models)
	return nil
}

func (e *engine) deleteModel(j job, m proto.DeleteModel) error {
	if err := first(checkText("manifest", m.Manifest)); err != nil {
		return err
	}
	if err := e.Store.Delete(j.ctx, m.Manifest); err != nil {
		return err
	}
	models, err := e.Store.List(j.ctx, []string{m.Manifest})
	if err != nil {
		return err
	}
	e.send(j.id, models)
	return nil
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
