package golden

import "testing"

// TokenizerCase is a text and its tokens.
type TokenizerCase struct {
	Text  string
	IDs   []int32 // with the text of control tokens parsed as control tokens
	Plain []int32 `json:"ids_plain"` // with it as ordinary text; nil if that is the same
	// Decoded is the text of IDs where it is not Text.
	Decoded *string `json:"decode"`
}

// Ordinary are the tokens of Text as something a person wrote.
func (c *TokenizerCase) Ordinary() []int32 {
	if c.Plain != nil {
		return c.Plain
	}
	return c.IDs
}

// Tokenizer reads tokenizer_cases.json (SmolLM2's tokenizer). Exact.
func Tokenizer(t testing.TB) []TokenizerCase {
	t.Helper()
	type file struct{ Cases []TokenizerCase }
	return load(t, "tokenizer_cases.json", func(f *file) int { return len(f.Cases) }).Cases
}

// ChatCase is a conversation and its rendering by SmolLM2's template.
type ChatCase struct {
	Messages      []Message
	AddGeneration bool `json:"add_generation_prompt"`
	Rendered      string
	IDs           []int32 // of Rendered, with control tokens parsed wherever their text stands
	Safe          []int32 `json:"ids_safe"` // with messages as ordinary text; nil if that is the same
}

// Message is one turn of a conversation.
type Message struct{ Role, Content string }

// Ordinary are the tokens where messages are something a person wrote.
func (c *ChatCase) Ordinary() []int32 {
	if c.Safe != nil {
		return c.Safe
	}
	return c.IDs
}

// Chat reads chat_template.json. Exact.
func Chat(t testing.TB) []ChatCase {
	t.Helper()
	type file struct{ Cases []ChatCase }
	return load(t, "chat_template.json", func(f *file) int { return len(f.Cases) }).Cases
}
