// Package chat turns what a person wrote into the tokens of a prompt: by a model's chat template, by the story templates
// of a manifest, or as it is. Only templates place control tokens; the same characters in a person's text stay text.
package chat

import (
	"errors"
	"fmt"
	"strings"

	"kvlens/wasm/tokenizer"
)

// ErrTemplate is why a template cannot be used.
var ErrTemplate = errors.New("template not supported")

// Message is one turn of a conversation. Its content is taken as it is, white space and all.
type Message struct {
	Role    string // "system", "user" or "assistant"
	Content string
}

// The control tokens of ChatML.
const (
	startText = "<|im_start|>"
	endText   = "<|im_end|>"
)

// ChatML is the template in which a message is <|im_start|>role newline content <|im_end|> newline.
type ChatML struct {
	t          *tokenizer.Tokenizer
	start, end int32
	newline    []int32
	system     string // the system line of a conversation that brings none
	hasSystem  bool
}

// NewChatML recognises ChatML in a model's chat template, the value of tokenizer.chat_template in its file. The system
// line that the template puts in by itself, if any, is the text there between the control tokens. Errors wrap
// ErrTemplate.
func NewChatML(t *tokenizer.Tokenizer, template string) (*ChatML, error) {
	if !strings.Contains(template, startText) {
		return nil, fmt.Errorf("chat: %w: it is not ChatML", ErrTemplate)
	}
	c := &ChatML{t: t, newline: t.Encode("\n")}
	for _, control := range []struct {
		text string
		id   *int32
	}{{startText, &c.start}, {endText, &c.end}} {
		id, ok := t.Special(control.text)
		if !ok {
			return nil, fmt.Errorf("chat: %w: the vocabulary has no control token %s", ErrTemplate, control.text)
		}
		*control.id = id
	}
	// The newline is itself in some files and an escape of the template language in others.
	for _, newline := range []string{"\n", `\n`} {
		_, rest, found := strings.Cut(template, startText+"system"+newline)
		line, _, closed := strings.Cut(rest, endText)
		if found && closed && !strings.ContainsAny(line, `'"{}`) { // otherwise it is not a literal
			c.system, c.hasSystem = line, true
		}
	}
	return c, nil
}

// Render gives the tokens of a whole conversation. The template's own system line comes first unless the first message
// is a system message; an empty one thus means no system line. answer adds the start of the model's turn.
func (c *ChatML) Render(messages []Message, answer bool) []int32 {
	ids := begin(c.t)
	if c.hasSystem && len(messages) > 0 && messages[0].Role != "system" {
		ids = c.message(ids, Message{"system", c.system})
	}
	for _, m := range messages {
		ids = c.message(ids, m)
	}
	if answer {
		ids = c.answer(ids)
	}
	return ids
}

// Later gives the tokens of a user message that follows an answer in the cache, with the start of the next answer: what
// Render would give from the end of that answer on. last is the last token of the conversation so far; unless the model
// closed its answer itself, the closing is put in first.
func (c *ChatML) Later(content string, last int32) []int32 {
	var ids []int32
	if last != c.end {
		ids = append(ids, c.end)
	}
	ids = append(ids, c.newline...)
	return c.answer(c.message(ids, Message{"user", content}))
}

func (c *ChatML) message(ids []int32, m Message) []int32 {
	ids = append(ids, c.start)
	ids = append(ids, c.t.Encode(m.Role+"\n"+m.Content)...)
	ids = append(ids, c.end)
	return append(ids, c.newline...)
}

func (c *ChatML) answer(ids []int32) []int32 {
	ids = append(ids, c.start)
	return append(ids, c.t.Encode("assistant\n")...)
}

// Raw gives the tokens of a text as it is, after the token that every text of the model starts with, if there is one. A
// text that continues another is just its Encode.
func Raw(t *tokenizer.Tokenizer, text string) []int32 { return append(begin(t), t.Encode(text)...) }

// begin is the start of every prompt.
func begin(t *tokenizer.Tokenizer) []int32 {
	if id, ok := t.BOS(); ok {
		return []int32{id}
	}
	return nil
}
