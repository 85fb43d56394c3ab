package core

import (
	"strings"

	"kvlens/wasm/chat"
	"kvlens/wasm/proto"
	"kvlens/wasm/tokenizer"
	"kvlens/wasm/weights"
)

// prompts knows how the open model wants to be asked. Nil fields are modes that it doesn't have.
type prompts struct {
	tok   *tokenizer.Tokenizer
	chat  *chat.ChatML
	story *chat.Story
}

// newPrompts takes the mode from the manifest, and the chat template from the file.
func newPrompts(tok *tokenizer.Tokenizer, m *weights.Manifest, f *weights.File) (p prompts, err error) {
	p.tok = tok
	switch m.Prompt.Mode {
	case weights.ModeChat:
		template, _ := f.Meta.String("tokenizer.chat_template")
		p.chat, err = chat.NewChatML(tok, template)
	case weights.ModeStory:
		p.story, err = chat.NewStory(tok, m.Prompt.Templates)
	}
	return p, err
}

// modes lists what the model can be asked in, its own mode first.
func (p *prompts) modes() []uint8 {
	var modes []uint8
	if p.story != nil {
		modes = append(modes, uint8(proto.Story))
	}
	if p.chat != nil {
		modes = append(modes, uint8(proto.Chat))
	}
	return append(modes, uint8(proto.Raw))
}

// first gives the tokens of a turn that starts a conversation, in the parts in which they are read.
func (p *prompts) first(g *proto.Generate) ([][]int32, error) {
	switch {
	case g.Mode == proto.Story && p.story != nil:
		if err := said("text", g.Text); err != nil {
			return nil, err
		}
		if err := said("question", g.Question); err != nil {
			return nil, err
		}
		if g.Later {
			story, question := p.story.Parts(g.Text, g.Question)
			return [][]int32{story, question}, nil
		}
		return [][]int32{p.story.First(g.Text, g.Question)}, nil
	case g.Mode == proto.Chat && p.chat != nil:
		if err := said("text", g.Text); err != nil {
			return nil, err
		}
		var messages []chat.Message
		if g.System != "" {
			messages = append(messages, chat.Message{Role: "system", Content: g.System})
		}
		return [][]int32{p.chat.Render(append(messages, chat.Message{Role: "user", Content: g.Text}), true)}, nil
	case g.Mode == proto.Raw:
		return [][]int32{chat.Raw(p.tok, g.Text)}, said("text", g.Text)
	}
	return nil, badRequest("mode", "the model has no mode %d", g.Mode)
}

// later gives the tokens of a turn after the token last.
func (p *prompts) later(g *proto.Generate, last int32) ([]int32, error) {
	switch {
	case g.Mode == proto.Story && p.story != nil:
		return p.story.Later(g.Question, last), said("question", g.Question)
	case g.Mode == proto.Chat && p.chat != nil:
		return p.chat.Later(g.Text, last), said("text", g.Text)
	case g.Mode == proto.Raw:
		return p.tok.Encode(g.Text), said("text", g.Text)
	}
	return nil, badRequest("mode", "the model has no mode %d", g.Mode)
}

// answer gives the tokens of an answer to a comparison's question, as the model would begin it.
func (p *prompts) answer(m *proto.Compare, text string) []int32 {
	if m.Mode == proto.Story && p.story != nil {
		return p.story.Answer(m.Question, text)
	}
	return p.tok.Encode(text)
}

// said refuses a text of nothing but white space.
func said(field, text string) error {
	if strings.TrimSpace(text) == "" {
		return proto.Failure{Code: proto.CodeEmpty, Op: "prompt", Msg: field + " is empty", Args: []string{field}}
	}
	return nil
}

// prompt gives the tokens of a turn, in the parts in which they are read.
func (e *engine) prompt(g *proto.Generate, later bool) ([][]int32, error) {
	switch {
	case g.Resume:
		return nil, nil
	case !later:
		return e.prompts.first(g)
	}
	last, ok := e.session.Pending()
	if !ok {
		ids := e.session.IDs()
		last = ids[len(ids)-1]
	}
	ids, err := e.prompts.later(g, last)
	return [][]int32{ids}, err
}

// pieces are tokens as the page shows them.
func (e *engine) pieces(ids []int32) (out, ends []uint32, text []string) {
	for _, id := range ids {
		out = append(out, uint32(id))
	}
	ends, text = e.tok.Pieces(ids)
	return out, ends, text
}
