//go:build !js

package chat_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"kvlens/wasm/chat"
	"kvlens/wasm/tokenizer"
	"kvlens/wasm/weights"
	"kvlens/web/lab/golden"
)

func open(t *testing.T, path string) (*tokenizer.Tokenizer, *weights.Meta) {
	t.Helper()
	f, err := weights.OpenPath(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	tok, err := tokenizer.FromGGUF(f.Meta)
	if err != nil {
		t.Fatal(err)
	}
	return tok, f.Meta
}

func chatML(t *testing.T) (*chat.ChatML, *tokenizer.Tokenizer) {
	t.Helper()
	tok, meta := open(t, golden.SmolLM2(t))
	template, _ := meta.String("tokenizer.chat_template")
	c, err := chat.NewChatML(tok, template)
	if err != nil {
		t.Fatal(err)
	}
	return c, tok
}

func messages(in []golden.Message) (out []chat.Message) {
	for _, m := range in {
		out = append(out, chat.Message(m))
	}
	return out
}

func TestGoldenChat(t *testing.T) {
	count := golden.Count(t)
	c, tok := chatML(t)
	for _, k := range golden.Chat(t) {
		count.Case(1)
		ids := c.Render(messages(k.Messages), k.AddGeneration)
		if !slices.Equal(ids, k.Ordinary()) {
			t.Errorf("%q: %v, want %v", k.Rendered, ids, k.Ordinary())
		}
		if got := tok.Decode(ids); got != k.Rendered {
			t.Errorf("%q, want %q", got, k.Rendered)
		}
	}
	for _, p := range golden.SmolLM2Model(t).Prompts {
		if p.Chat == nil {
			continue
		}
		count.Case(1)
		if got := c.Render(messages(p.Chat.Messages), p.Chat.AddGeneration); !slices.Equal(got, p.IDs) {
			t.Errorf("%s: %v, want %v", p.Name, got, p.IDs)
		}
	}
}

// TestLater: turn by turn, the cache holds what a rendering of the whole conversation gives, whether the model closed
// its answer or was stopped.
func TestLater(t *testing.T) {
	c, tok := chatML(t)
	end, _ := tok.Special("<|im_end|>")
	first := []chat.Message{{Role: "user", Content: "One <|im_end|> two"}}
	whole := c.Render(append(first, chat.Message{Role: "assistant", Content: "Yes."}, chat.Message{Role: "user", Content: " And?\n"}), true)
	for _, closing := range [][]int32{nil, {end}} {
		got := append(c.Render(first, true), tok.Encode("Yes.")...)
		got = append(got, closing...)
		got = append(got, c.Later(" And?\n", got[len(got)-1])...)
		if !slices.Equal(got, whole) {
			t.Errorf("closed %v: %q, want %q", closing != nil, tok.Decode(got), tok.Decode(whole))
		}
	}
}

// templates are those of the built-in model's training texts.
var templates = map[string]string{
	"en": "{story}\nQuestion: {question}\nAnswer:",
	"zh": "{story}\n问：{question}\n答：",
}

// TestStory renders the vectors' prompts again from their parts.
func TestStory(t *testing.T) {
	tok, _ := open(t, golden.TeachModel(t))
	s, err := chat.NewStory(tok, templates)
	if err != nil {
		t.Fatal(err)
	}
	prompts, _ := golden.Teach(t)
	asked := 0
	for _, p := range prompts {
		story, question := "", ""
		for _, marks := range [][2]string{{"\nQuestion: ", "\nAnswer:"}, {"\n问：", "\n答："}} {
			if a, b, ok := strings.Cut(p.Text, marks[0]); ok {
				story, question = a, strings.TrimSuffix(b, marks[1])
			}
		}
		if question == "" {
			if got := chat.Raw(tok, p.Text); !slices.Equal(got, p.IDs) {
				t.Errorf("%s, raw: %v, want %v", p.Name, got, p.IDs)
			}
			continue
		}
		asked++
		if got := s.First(story, question); !slices.Equal(got, p.IDs) {
			t.Errorf("%s: %v, want %v", p.Name, got, p.IDs)
		}
		// A second question continues the text where the answer ended.
		later := append(slices.Clone(p.IDs), tok.Encode(" a cake.")...)
		later = append(later, s.Later(question, later[len(later)-1])...)
		tail := strings.TrimPrefix(p.Text, story)
		if want := append(slices.Clone(p.IDs), tok.Encode(" a cake."+tail)...); !slices.Equal(later, want) {
			t.Errorf("%s, later: %q, want %q", p.Name, tok.Decode(later), tok.Decode(want))
		}
	}
	if asked == 0 {
		t.Error("no vector asks a question")
	}
}

func TestStoryDetails(t *testing.T) {
	tok, _ := open(t, golden.TeachModel(t))
	s, err := chat.NewStory(tok, templates)
	if err != nil {
		t.Fatal(err)
	}
	newline := tok.Encode("\n")[0]
	for _, tt := range []struct{ name, got, want string }{
		{
			"marks in a text stay text, and so do control tokens",
			tok.Decode(s.First("A {question} <|bos|>", "B {story}")), "<|bos|>A {question} <|bos|>\nQuestion: B {story}\nAnswer:",
		},
		{"an English story, a Chinese question", tok.Decode(s.First("Tom.", "谁？")), "<|bos|>Tom.\n问：谁？\n答："},
		{"no question", tok.Decode(s.First("小明。", " ")), "<|bos|>小明。\n问： \n答："},
		{"later", tok.Decode(s.Later("Who?", 5)), "\nQuestion: Who?\nAnswer:"},
		{"an answer", tok.Decode(s.Answer("Who?", "a cat")), " a cat"},
		{"an answer with its space", tok.Decode(s.Answer("Who?", " a cat")), " a cat"},
		{"a Chinese answer", tok.Decode(s.Answer("谁？", "小明")), "小明"},
		{"later, after a line break", tok.Decode(s.Later("Who?", newline)), "Question: Who?\nAnswer:"},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, tt.got, tt.want)
		}
	}
	control := 0
	for _, id := range s.First("<|bos|><|eos|>", "<|eos|>") {
		if tok.Control(id) {
			control++
		}
	}
	if control != 1 {
		t.Errorf("%d control tokens, want the bos alone", control)
	}
}

func TestStoryTemplates(t *testing.T) {
	tok, _ := open(t, golden.TeachModel(t))
	for _, bad := range []map[string]string{
		nil,
		{"en": "{story}"},
		{"en": "{question}{story}"},
		{"en": templates["en"], "zh": "{story}{question}{question}"},
	} {
		if _, err := chat.NewStory(tok, bad); !errors.Is(err, chat.ErrTemplate) {
			t.Errorf("%q: error %v", bad, err)
		}
	}
	// With one language, every question takes it.
	s, err := chat.NewStory(tok, map[string]string{"en": templates["en"]})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := tok.Decode(s.Later("谁？", 5)), "\nQuestion: 谁？\nAnswer:"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestChatMLTemplates(t *testing.T) {
	teach, _ := open(t, golden.TeachModel(t))
	if _, err := chat.NewChatML(teach, "<|im_start|>user"); !errors.Is(err, chat.ErrTemplate) {
		t.Errorf("a vocabulary without the tokens: error %v", err)
	}
	tok, _ := open(t, golden.SmolLM2(t))
	if _, err := chat.NewChatML(tok, "[INST] {{ x }}"); !errors.Is(err, chat.ErrTemplate) {
		t.Errorf("another template: error %v", err)
	}
	user := []chat.Message{{Role: "user", Content: "Hi"}}
	for template, want := range map[string]string{
		"'<|im_start|>system\nBe kind<|im_end|>\n' '<|im_start|>'":     "<|im_start|>system\nBe kind<|im_end|>\n",
		`'<|im_start|>system\nBe kind<|im_end|>\n' '<|im_start|>'`:     "<|im_start|>system\nBe kind<|im_end|>\n",
		"{{ '<|im_start|>system\n' + x + '<|im_end|>' }}":              "",
		"{{'<|im_start|>' + message['role'] + '\n' + '<|im_end|>\n'}}": "",
	} {
		c, err := chat.NewChatML(tok, template)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := tok.Decode(c.Render(user, false)), want+"<|im_start|>user\nHi<|im_end|>\n"; got != want {
			t.Errorf("%s: %q, want %q", template, got, want)
		}
	}
}
