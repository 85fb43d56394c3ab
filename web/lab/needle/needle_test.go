package needle

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kvlens/app/stories"
	"kvlens/wasm/chat"
	"kvlens/wasm/tokenizer"
	"kvlens/wasm/weights"
	"kvlens/web/lab/golden"
)

func vocabulary(t *testing.T, path string) (*tokenizer.Tokenizer, *weights.File) {
	t.Helper()
	f, err := weights.OpenPath(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	tok, err := tokenizer.FromGGUF(f.Meta)
	if err != nil {
		t.Fatal(err)
	}
	return tok, f
}

// The spans are those of the sentence and of the answer, in both languages.
func TestStory(t *testing.T) {
	tok, _ := vocabulary(t, filepath.Join(golden.Root(t), "web/static/models/teach-q8_0.gguf"))
	for i, k := range Told() {
		for _, lang := range []string{"en", "zh"} {
			s, err := NewStory(tok, stories.Spec{Lang: lang, Kind: k, Tokens: 128, Depth: 0.5, Seed: uint64(i)})
			if err != nil {
				t.Fatal(err)
			}
			sentence, value := tok.Decode(s.IDs[s.From:s.To]), tok.Decode(s.IDs[s.Value[0]:s.Value[1]])
			if !Ended(sentence) || strings.Count(sentence, value) != 1 || !strings.Contains(value, s.Answer) || len(value) > len(s.Answer)+1 {
				t.Errorf("%s: %q and %q for the answer %q", s.Name, sentence, value, s.Answer)
			}
			if !s.Right(" "+s.Answer+".") || s.Right(s.Answer+" or not") {
				t.Errorf("%s: the answer is judged wrongly", s.Name)
			}
		}
	}
}

// A code stands in its prose once, as deep as asked, in a prompt as long as asked.
func TestDigits(t *testing.T) {
	tok, f := vocabulary(t, golden.SmolLM2(t))
	template, _ := f.Meta.String("tokenizer.chat_template")
	c, err := chat.NewChatML(tok, template)
	if err != nil {
		t.Fatal(err)
	}
	prose := strings.Repeat("The boat was old. It lay in the mud, and nobody came for it. Who could say why? ", 40)
	for _, depth := range []float64{0, 0.5, 1} {
		s, err := NewDigits(tok, c, Digits{Prose: prose, Tokens: 300, Depth: depth, Code: "48213"})
		if err != nil {
			t.Fatal(err)
		}
		if text := tok.Decode(s.IDs[s.From:s.To]); strings.TrimSpace(text) != "The secret code is 48213." {
			t.Errorf("depth %v: the sentence is %q", depth, text)
		}
		// SmolLM2 has a token for each digit.
		if text := tok.Decode(s.IDs[s.Value[0]:s.Value[1]]); text != "48213" || s.Value[1]-s.Value[0] != 5 {
			t.Errorf("depth %v: the answer is %q", depth, text)
		}
		if n := len(s.IDs); n > 300 || n < 270 {
			t.Errorf("depth %v: %d tokens", depth, n)
		}
		// Around it stand some 40 tokens of the template and of the question.
		if at := float64(s.From) / float64(len(s.IDs)); at < 0.75*depth || at > 0.75*depth+0.2 {
			t.Errorf("depth %v: the sentence begins at %.2f", depth, at)
		}
	}
	if _, err := NewDigits(tok, c, Digits{Prose: prose, Tokens: 20, Code: "1"}); err == nil {
		t.Error("a prompt without room for prose has no error")
	}
}

func TestRight(t *testing.T) {
	s := Sample{Answer: "7305"}
	for answer, want := range map[string]bool{
		"The code is 7305.": true, "7305": true, "The code is: 7305, I think": true,
		"The code is 73051.": false, "17305": false, "730": false, "173057305": false, "17305, no, 7305": true, "": false,
	} {
		if s.Right(answer) != want {
			t.Errorf("%q: %v", answer, !want)
		}
	}
}

func TestSentences(t *testing.T) {
	got := Sentences("\"TOM!\"\n\nNo answer.  He said: \"What?\" and\nwent on (as always.) Then")
	want := []string{`"TOM!"`, "No answer.", `He said: "What?"`, "and went on (as always.)"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestCode(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		code := Code(r, 5)
		for i := range code {
			if code[i] < '0' || code[i] > '9' || i > 0 && code[i] == code[i-1] || code[0] == '0' {
				t.Fatalf("%q", code)
			}
		}
		if len(code) != 5 {
			t.Fatalf("%q", code)
		}
	}
}
