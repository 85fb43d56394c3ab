package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"

	"kvlens/wasm/chat"
	"kvlens/wasm/llama"
	"kvlens/wasm/quant"
	"kvlens/wasm/weights"
	"kvlens/web/lab/measure"
	"kvlens/web/lab/needle"
)

// examinee is a model that is asked for needles.
type examinee struct {
	*engine
	s     *source
	sha   string
	chat  *chat.ChatML // nil for a model of stories
	meter *measure.Meter
	texts *needle.Prose
}

func newExaminee(file string) (*examinee, error) {
	s, err := openSource(file)
	if err != nil {
		return nil, err
	}
	x := &examinee{s: s}
	if err := x.check(); err != nil {
		x.close()
		return nil, err
	}
	return x, nil
}

func (x *examinee) check() (err error) {
	if x.s.tokErr != nil {
		return x.s.tokErr
	}
	if !x.story() {
		template, _ := x.s.Meta.String("tokenizer.chat_template")
		if x.chat, err = chat.NewChatML(x.s.tok, template); err != nil {
			return err
		}
	}
	x.sha, err = x.s.sum()
	return err
}

// load loads the model and makes a session with f32 pages.
func (x *examinee) load(ctx context.Context, in *modelInput, o llama.SessionOptions) (err error) {
	full := *in
	full.F32, full.Cap = true, capacity{}
	if x.engine, err = x.s.session(ctx, &full, o); err != nil {
		return err
	}
	x.meter = &measure.Meter{Session: x.Session, Config: x.model.Config(), Tok: x.s.tok, Output: x.s.output()}
	return nil
}

func (x *examinee) close() {
	if x.engine != nil {
		x.engine.close()
	}
	_ = x.s.Close() // it was only read
}

// story says whether the model's prompts are stories.
func (x *examinee) story() bool {
	return x.s.manifest != nil && x.s.manifest.Prompt.Mode == weights.ModeStory
}

func (x *examinee) prose(ctx context.Context) (p *needle.Prose, err error) {
	if x.texts == nil {
		x.texts, err = needle.LoadProse(ctx)
	}
	return x.texts, err
}

// sum is the SHA-256 of the model's file.
func (s *source) sum() (string, error) {
	if s.manifest != nil {
		return s.manifest.SHA256, nil
	}
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(s.File, 0, s.Size)); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// output reads W_o of a layer; each is kept once it was read.
func (s *source) output() func(layer int) ([]float32, error) {
	known := map[int][]float32{}
	return func(layer int) ([]float32, error) {
		if w, ok := known[layer]; ok {
			return w, nil
		}
		t, ok := s.Tensor(fmt.Sprintf("blk.%d.attn_output.weight", layer))
		if !ok {
			return nil, fmt.Errorf("layer %d has no attn_output.weight", layer)
		}
		data := make([]byte, t.Size)
		if _, err := s.ReadAt(data, t.Off); err != nil {
			return nil, err
		}
		w := make([]float32, t.Rows*t.Cols)
		if err := quant.Dequantize(t.Type, w, data); err != nil {
			return nil, err
		}
		known[layer] = w
		return w, nil
	}
}
