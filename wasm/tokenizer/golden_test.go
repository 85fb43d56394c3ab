//go:build !js

package tokenizer_test

import (
	"slices"
	"strings"
	"testing"

	"kvlens/wasm/tokenizer"
	"kvlens/wasm/weights"
	"kvlens/web/lab/golden"
)

func open(t testing.TB, path string) (*tokenizer.Tokenizer, *weights.Meta) {
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

// parsed encodes text in the references' other mode, in which the text of a control token is that token.
func parsed(tok *tokenizer.Tokenizer, text string) (ids []int32) {
	for text != "" {
		at, length, control := len(text), 0, int32(-1)
		for id := range int32(tok.Vocab()) {
			if !tok.Control(id) {
				continue
			}
			name := string(tok.Piece(id))
			if i := strings.Index(text, name); i >= 0 && (i < at || i == at && len(name) > length) {
				at, length, control = i, len(name), id
			}
		}
		ids = append(ids, tok.Encode(text[:at])...)
		if control >= 0 {
			ids = append(ids, control)
		}
		text = text[at+length:]
	}
	return ids
}

func TestGoldenTokenizer(t *testing.T) {
	count := golden.Count(t)
	teach, _ := open(t, golden.TeachModel(t))
	prompts, _ := golden.Teach(t)
	for _, p := range prompts {
		count.Case(1)
		bos, ok := teach.BOS()
		if got := append([]int32{bos}, teach.Encode(p.Text)...); !ok || !slices.Equal(got, p.IDs) {
			t.Errorf("%s: %v, want %v", p.Name, got, p.IDs)
		}
	}

	tok, _ := open(t, golden.SmolLM2(t))
	if id, ok := tok.BOS(); ok {
		t.Errorf("texts start with token %d, want none", id)
	}
	for _, c := range golden.Tokenizer(t) {
		count.Case(1)
		if got := tok.Encode(c.Text); !slices.Equal(got, c.Ordinary()) {
			t.Errorf("%q: %v, want %v", c.Text, got, c.Ordinary())
		}
		if got := parsed(tok, c.Text); !slices.Equal(got, c.IDs) {
			t.Errorf("%q with control tokens: %v, want %v", c.Text, got, c.IDs)
		}
		want := c.Text
		if c.Decoded != nil {
			want = *c.Decoded
		}
		if got := tok.Decode(c.IDs); got != want {
			t.Errorf("%v: %q, want %q", c.IDs, got, want)
		}
		if ends, texts := tok.Pieces(c.IDs); strings.Join(texts, "") != want || len(ends) > 0 && int(ends[len(ends)-1]) != len(c.IDs) {
			t.Errorf("%v: pieces %q to %v", c.IDs, texts, ends)
		}
	}
	texts := map[string][]int32{}
	for _, p := range golden.SmolLM2Model(t).Prompts {
		if p.Chat == nil {
			texts[p.Input] = p.IDs
		}
	}
	nll, attention := golden.SmolLM2NLL(t), golden.SmolLM2Attention(t)
	texts[nll.Text], texts[attention.Text] = nll.IDs, attention.IDs
	for text, ids := range texts {
		count.Case(1)
		if got := tok.Encode(text); !slices.Equal(got, ids) {
			t.Errorf("%q: %v, want %v", text, got, ids)
		}
	}
}

// TestEnds checks which tokens end an answer: SmolLM2's file names 2, and 0 ends texts without saying so.
func TestEnds(t *testing.T) {
	for path, want := range map[string][]int32{
		golden.TeachModel(t): {1}, golden.TinyModel(t): {63}, golden.SmolLM2(t): {0, 2},
	} {
		tok, _ := open(t, path)
		var got []int32
		for id := range int32(tok.Vocab()) {
			if tok.EOG(id) {
				got = append(got, id)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
}

// TestMissingBytes: SmolLM2 has no token for these bytes, and drops them.
func TestMissingBytes(t *testing.T) {
	tok, _ := open(t, golden.SmolLM2(t))
	want := []byte{0x04, 0x06, 0x13, 0x14, 0x16, 0x1d, 0xc0, 0xc1, 0xf1, 0xf2, 0xf5, 0xf6, 0xf7, 0xf8, 0xf9, 0xfa, 0xfb, 0xfc, 0xfd, 0xfe, 0xff}
	var got []byte
	for b := range 256 {
		if len(tok.Encode(string([]byte{byte(b)}))) == 0 {
			got = append(got, byte(b))
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("% x, want % x", got, want)
	}
}
