package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"kvlens/cache"
	"kvlens/wasm/chat"
	"kvlens/wasm/cpu"
	"kvlens/wasm/llama"
	"kvlens/wasm/ref"
	"kvlens/wasm/step"
	"kvlens/wasm/tokenizer"
	"kvlens/wasm/weights"
)

// backends are what can run a model here, by name.
var backends = map[string]func(*cache.Ledger) (step.Backend, error){
	"ref": func(led *cache.Ledger) (step.Backend, error) { return ref.New(led), nil },
	"f64": func(led *cache.Ledger) (step.Backend, error) { return ref.NewF64(led), nil },
	"cpu": func(led *cache.Ledger) (step.Backend, error) { return cpu.New(led, cpu.Options{}) },
	"gpu": newGPU,
}

// modelInput are the settings of every command that runs a model.
type modelInput struct {
	File    string   `json:"file"`
	Backend string   `json:"backend" help:"what computes: ref (default), f64 (the oracle, slow), cpu or gpu"`
	Cap     capacity `json:"cap" help:"the KV cache: bytes, or a share as 25% of what the full cache takes for the prompt and the answer; 0 is all of that"`
	F32     bool     `json:"f32" help:"f32 pages in the KV cache instead of f16"`
}

// promptInput are the ways to give a prompt; exactly one of ids, text, chat and story is set.
type promptInput struct {
	IDs      []int32 `json:"ids" help:"the prompt as token ids: 1,2,3"`
	Text     string  `json:"text" help:"the prompt as plain text"`
	Chat     string  `json:"chat" help:"the prompt as a user's message, by the model's chat template"`
	System   string  `json:"system" help:"system line of -chat, instead of the template's"`
	Story    string  `json:"story" help:"a story for -question, by the templates of the manifest"`
	Question string  `json:"question" help:"the question about -story"`
}

// source is an open model file.
type source struct {
	*weights.File
	manifest *weights.Manifest    // nil for a .gguf file
	tok      *tokenizer.Tokenizer // nil if there is none that we can read
	tokErr   error
}

func openSource(path string) (*source, error) {
	s := new(source)
	if strings.HasSuffix(path, ".json") {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if s.manifest, err = weights.ReadManifest(data); err != nil {
			return nil, err
		}
	}
	var err error
	if s.File, err = weights.OpenPath(path); err != nil {
		return nil, err
	}
	s.tok, s.tokErr = tokenizer.FromGGUF(s.Meta)
	return s, nil
}

// text decodes tokens; without a tokenizer they have no text.
func (s *source) text(ids ...int32) string {
	if s.tok == nil {
		return ""
	}
	return s.tok.Decode(ids)
}

// prompt turns the prompt into token ids.
func (s *source) prompt(p *promptInput) ([]int32, error) {
	given := 0
	for _, set := range []bool{p.IDs != nil, p.Text != "", p.Chat != "", p.Story != ""} {
		if set {
			given++
		}
	}
	if given != 1 {
		return nil, usageError("give one of ids, text, chat and story")
	}
	if p.IDs != nil {
		return p.IDs, nil
	}
	if s.tokErr != nil {
		return nil, fmt.Errorf("only ids can be a prompt: %w", s.tokErr)
	}
	switch {
	case p.Chat != "":
		template, _ := s.Meta.String("tokenizer.chat_template")
		c, err := chat.NewChatML(s.tok, template)
		if err != nil {
			return nil, err
		}
		messages := []chat.Message{{Role: "user", Content: p.Chat}}
		if p.System != "" {
			messages = append([]chat.Message{{Role: "system", Content: p.System}}, messages...)
		}
		return c.Render(messages, true), nil
	case p.Story != "":
		if s.manifest == nil {
			return nil, usageError("story needs a manifest, which has the templates")
		}
		c, err := chat.NewStory(s.tok, s.manifest.Prompt.Templates)
		if err != nil {
			return nil, err
		}
		return c.First(p.Story, p.Question), nil
	}
	return chat.Raw(s.tok, p.Text), nil
}

// engine is a loaded model with one session.
type engine struct {
	*llama.Session
	model   *llama.Model
	backend step.Backend
	info    step.Info
	led     *cache.Ledger
}

// start loads the model of s and makes a session with room for tokens.
func (s *source) start(ctx context.Context, in *modelInput, tokens int) (*engine, error) {
	return s.session(ctx, in, llama.SessionOptions{Tokens: tokens})
}

// session is start with the options that are no setting of every command.
func (s *source) session(ctx context.Context, in *modelInput, o llama.SessionOptions) (*engine, error) {
	led := new(cache.Ledger)
	b, err := openBackend(in.Backend, led)
	if err != nil {
		return nil, err
	}
	return s.on(ctx, b, led, in, o)
}

// openBackend opens a backend by its name.
func openBackend(name string, led *cache.Ledger) (step.Backend, error) {
	if name == "" {
		name = "ref"
	}
	open := backends[name]
	if open == nil {
		known := strings.Join(slices.Sorted(maps.Keys(backends)), ", ")
		return nil, usageError("there is no backend %q, only %s", name, known)
	}
	return open(led)
}

// on is session on an open backend, which it closes if it fails.
func (s *source) on(ctx context.Context, b step.Backend, led *cache.Ledger, in *modelInput, o llama.SessionOptions) (*engine, error) {
	o.Cap, o.Share, o.F32 = in.Cap.bytes, in.Cap.share, in.F32
	m, err := llama.Load(ctx, s.File, b, llama.Options{Ledger: led})
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	session, err := m.NewSession(o)
	if err != nil {
		m.Close()
		return nil, errors.Join(err, b.Close())
	}
	return &engine{session, m, b, b.Info(), led}, nil
}

func (e *engine) close() {
	e.Session.Close()
	e.model.Close()
	_ = e.backend.Close() // there is nothing left that could fail to be written
}
