package tokenizer_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"kvlens/wasm/tokenizer"
	"kvlens/wasm/weights"
	"kvlens/web/lab/golden"
)

// fake is metadata in memory.
type fake map[string]any

func get[T any](f fake, key string) (T, bool) { v, ok := f[key].(T); return v, ok }

func (f fake) Has(k string) bool                 { _, ok := f[k]; return ok }
func (f fake) Uint(k string) (uint64, bool)      { return get[uint64](f, k) }
func (f fake) Bool(k string) (bool, bool)        { return get[bool](f, k) }
func (f fake) String(k string) (string, bool)    { return get[string](f, k) }
func (f fake) Strings(k string) ([]string, bool) { return get[[]string](f, k) }
func (f fake) Ints(k string) ([]int64, bool)     { return get[[]int64](f, k) }

// small is a vocabulary of every byte, token id = byte, and a few more.
func small() fake {
	var tokens []string
	next := rune(256)
	for b := range rune(256) { // GPT-2's alphabet
		if b > ' ' && b < 0x7f || b > 0xa0 && b != 0xad {
			tokens = append(tokens, string(b))
		} else {
			tokens = append(tokens, string(next))
			next++
		}
	}
	tokens = append(tokens, "ab", "bc", "abc", "Ġa", "<|end|>", "<|user|>")
	types := slices.Repeat([]int64{1}, len(tokens))
	types[260], types[261] = 3, 4
	return fake{
		"tokenizer.ggml.model":  "gpt2",
		"tokenizer.ggml.pre":    "smollm",
		"tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": types,
		"tokenizer.ggml.merges": []string{"b c", "a b", "a bc", "Ġ a"},
	}
}

func mustSmall(t testing.TB) *tokenizer.Tokenizer {
	t.Helper()
	tok, err := tokenizer.FromGGUF(small())
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func openTeach(t testing.TB) (*tokenizer.Tokenizer, *weights.Meta) {
	t.Helper()
	raw, err := os.ReadFile(golden.TeachModel(t))
	if err != nil {
		t.Fatal(err)
	}
	f, err := weights.Open(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.FromGGUF(f.Meta)
	if err != nil {
		t.Fatal(err)
	}
	return tok, f.Meta
}

func TestMetadata(t *testing.T) {
	const p = "tokenizer.ggml."
	set := func(kv ...any) func(fake) {
		return func(f fake) {
			for i := 0; i < len(kv); i += 2 {
				f[p+kv[i].(string)] = kv[i+1]
			}
		}
	}
	// unname takes a token's name away, and has only one merge.
	unname := func(id int, merge string) func(fake) {
		return func(f fake) {
			f[p+"tokens"].([]string)[id] = "zz"
			f[p+"merges"] = []string{merge}
		}
	}
	for _, tt := range []struct {
		name   string
		change func(fake)
		field  string // "" for no error
	}{
		{"as it is", func(fake) {}, ""},
		{"no types", func(f fake) { delete(f, p+"token_type") }, ""},
		{"bos", set("bos_token_id", uint64(261), "add_bos_token", true), ""},
		{"no model", func(f fake) { delete(f, p+"model") }, p + "model"},
		{"other model", set("model", "llama"), p + "model"},
		{"no pre", func(f fake) { delete(f, p+"pre") }, p + "pre"},
		{"other pre", set("pre", "qwen2"), p + "pre"},
		{"no tokens", func(f fake) { delete(f, p+"tokens") }, p + "tokens"},
		{"empty tokens", set("tokens", []string{}, "token_type", []int64{}), p + "tokens"},
		{"types short", set("token_type", []int64{1}), p + "token_type"},
		{"no merges", func(f fake) { delete(f, p+"merges") }, p + "merges"},
		{"merge of one", set("merges", []string{"ab"}), p + "merges"},
		{"merge of none", set("merges", []string{""}), p + "merges"},
		{"merge with nothing", set("merges", []string{"a "}), p + "merges"},
		{"merge of nothing", set("merges", []string{" a"}), p + "merges"},
		{"merge left unknown", set("merges", []string{"ca b"}), p + "merges"},
		{"merge right unknown", set("merges", []string{"a cb"}), p + "merges"},
		{"merge only left unknown", unname(256, "ab c"), p + "merges"},
		{"merge only right unknown", unname(257, "a bc"), p + "merges"},
		{"merge into unknown", set("merges", []string{"c a"}), p + "merges"},
		{"merge of a control token", set("merges", []string{"<|end|> a"}), p + "merges"},
		{"merge outside the alphabet", set("merges", []string{"a 好"}), p + "merges"},
		{"bos out of range", set("bos_token_id", uint64(262)), p + "bos_token_id"},
		{"bos wanted, not given", set("add_bos_token", true), p + "add_bos_token"},
		{"eos out of range", set("eos_token_id", uint64(1<<63)), p + "eos_token_id"},
		{"model of another type", set("model", uint64(1)), p + "model"},
		{"tokens of another type", set("tokens", []int64{1}), p + "tokens"},
		{"types of another type", set("token_type", []string{"a"}), p + "token_type"},
		{"merges of another type", set("merges", []int64{1}), p + "merges"},
		{"bos of another type", set("bos_token_id", "1"), p + "bos_token_id"},
		{"eos of another type", set("eos_token_id", "1"), p + "eos_token_id"},
		{"bos wanted by another type", set("bos_token_id", uint64(261), "add_bos_token", uint64(1)), p + "add_bos_token"},
		{"eot out of range", set("eot_token_id", uint64(999)), p + "eot_token_id"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := small()
			tt.change(f)
			_, err := tokenizer.FromGGUF(f)
			var bad *tokenizer.FormatError
			switch {
			case tt.field == "" && err != nil:
				t.Fatal(err)
			case tt.field != "" && (!errors.As(err, &bad) || bad.Field != tt.field):
				t.Fatalf("error %v, want one about %s", err, tt.field)
			}
		})
	}
}

// TestMerges: the lowest rank goes first, not the leftmost pair nor the longest token.
func TestMerges(t *testing.T) {
	tok := mustSmall(t)
	for text, want := range map[string][]int32{
		"abc":      {258}, // b c, then a bc
		"abab":     {256, 256},
		"bcab":     {257, 256},
		"aabc":     {'a', 258},
		"ab abc":   {256, ' ', 258}, // a bc before Ġ a
		" a":       {259},
		"<|end|>":  []int32("<|end|>"),
		"<|user|>": []int32("<|user|>"),
	} {
		if got := tok.Encode(text); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// TestAgainstDefinition compares with byte-pair encoding as it is defined, one scan over all pairs per merge, on words
// (of one pre-token each) over the built-in model's vocabulary.
func TestAgainstDefinition(t *testing.T) {
	tok, meta := openTeach(t)
	merges, _ := meta.Strings("tokenizer.ggml.merges")
	rank := map[string]int{}
	for i, m := range merges {
		rank[m] = i
	}
	define := func(word string) (parts []string) {
		for _, r := range word {
			parts = append(parts, string(r))
		}
		for {
			best, at := len(merges), -1
			for i := range len(parts) - 1 {
				if r, ok := rank[parts[i]+" "+parts[i+1]]; ok && r < best {
					best, at = r, i
				}
			}
			if at < 0 {
				return parts
			}
			parts = slices.Replace(parts, at, at+2, parts[at]+parts[at+1])
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		b := make([]byte, 1+rng.IntN(40))
		for i := range b {
			b[i] = "etaoinshrdlucmXiaoMng"[rng.IntN(21)]
		}
		var got []string
		for _, id := range tok.Encode(string(b)) {
			got = append(got, string(tok.Piece(id)))
		}
		if want := define(string(b)); !slices.Equal(got, want) {
			t.Fatalf("%s: %q, want %q", b, got, want)
		}
	}
}

// TestLong: very long pre-tokens are encoded whole and in reasonable time (a quadratic merge would not end).
func TestLong(t *testing.T) {
	tok, _ := openTeach(t)
	for _, text := range []string{
		strings.Repeat(" ", 10_000) + "x", strings.Repeat("a", 1_000_000), strings.Repeat("the", 300_000),
		strings.Repeat("好", 300_000), strings.Repeat("\n", 100_000), strings.Repeat("'", 100_000), strings.Repeat("7", 100_000),
	} {
		if got := tok.Decode(tok.Encode(text)); got != text {
			t.Errorf("%.10q… of %d bytes does not come back", text, len(text))
		}
	}
}

// TestDecoder uses the Unicode Standard's example of U+FFFD for maximal parts (chapter 3, table 3-11) and characters
// that arrive in parts.
func TestDecoder(t *testing.T) {
	tok := mustSmall(t)
	for _, tt := range []struct {
		name, bytes string
		want        []string // after each token, then the flush
	}{
		{"the standard's", "\x61\xf1\x80\x80\xe1\x80\xc2\x62\x80\x63\x80\xbf\x64", []string{"a", "", "", "", "\ufffd", "", "\ufffd", "\ufffdb", "\ufffd", "c", "\ufffd", "\ufffd", "d", ""}},
		{"surrogate", "\xed\xa0\x80", []string{"", "\ufffd\ufffd", "\ufffd", ""}},
		{"overlong", "\xc0\x80", []string{"\ufffd", "\ufffd", ""}},
		{"emoji in four", "😀!", []string{"", "", "", "😀", "!", ""}},
		{"cut off", "x\xe5\xa5", []string{"x", "", "", "\ufffd"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := tok.NewDecoder()
			var got []string
			for _, b := range []byte(tt.bytes) {
				got = append(got, d.Push(int32(b)))
			}
			if got = append(got, d.Flush()); !slices.Equal(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func TestPieces(t *testing.T) {
	tok := mustSmall(t)
	for _, tt := range []struct {
		name  string
		ids   []int32
		ends  []uint32
		texts []string
	}{
		{"nothing", nil, nil, nil},
		{"a character in three tokens", []int32{256, 0xe5, 0xa5, 0xbd, 'c'}, []uint32{1, 4, 5}, []string{"ab", "好", "c"}},
		{"cut by a control token", []int32{0xe5, 260, 'a'}, []uint32{1, 2, 3}, []string{"\ufffd", "<|end|>", "a"}},
		{"cut by the end", []int32{'a', 0xe5, 0xa5}, []uint32{1, 3}, []string{"a", "\ufffd"}},
		{"outside the vocabulary", []int32{-1, 'a', 999}, []uint32{1, 2, 3}, []string{"", "a", ""}},
	} {
		ends, texts := tok.Pieces(tt.ids)
		if !slices.Equal(ends, tt.ends) || !slices.Equal(texts, tt.texts) {
			t.Errorf("%s: %v %q, want %v %q", tt.name, ends, texts, tt.ends, tt.texts)
		}
	}
}

func TestRoles(t *testing.T) {
	tok := mustSmall(t)
	if id, ok := tok.Special("<|end|>"); !ok || id != 260 || !tok.EOG(260) || !tok.Control(260) {
		t.Errorf("<|end|>: %d, %v", id, ok)
	}
	if id, ok := tok.Special("<|user|>"); !ok || id != 261 || tok.EOG(261) {
		t.Errorf("<|user|>: %d, %v", id, ok)
	}
	if id, ok := tok.Special("ab"); ok {
		t.Errorf("ab is special: %d", id)
	}
	if tok.Piece(-1) != nil || tok.Piece(262) != nil || tok.EOG(-1) || tok.Control(262) {
		t.Error("ids outside the vocabulary have a role")
	}
}

// FuzzEncode: whatever the text, encoding does not fail, yields no control token and loses nothing but bytes without a
// token; what is shown of it is UTF-8.
func FuzzEncode(f *testing.F) {
	for _, s := range []string{"", " a  b\n", "it's 3½ 好 😀<|end|>", "\xff\xc0a\xe5\xa5", "   123", "\u00a0\u3000x\u0085"} {
		f.Add(s)
	}
	full, _ := openTeach(f)
	meta := small()
	meta["tokenizer.ggml.tokens"].([]string)[0x04] = "<missing>" // a vocabulary without the byte 04
	partial, err := tokenizer.FromGGUF(meta)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for tok, missing := range map[*tokenizer.Tokenizer]string{full: "", partial: "\x04"} {
			ids := tok.Encode(s)
			var out []byte
			for _, id := range ids {
				if tok.Control(id) {
					t.Fatalf("%q yields control token %d", s, id)
				}
				out = append(out, tok.Piece(id)...)
			}
			want := s
			if missing != "" {
				want = string(bytes.ReplaceAll([]byte(s), []byte(missing), nil))
			}
			if string(out) != want {
				t.Fatalf("%q comes back as %q", s, out)
			}
			text := tok.Decode(ids)
			if utf8.ValidString(want) && text != want || !utf8.ValidString(text) {
				t.Fatalf("%q is shown as %q", s, text)
			}
			if _, texts := tok.Pieces(ids); strings.Join(texts, "") != text {
				t.Fatalf("%q has pieces %q", s, texts)
			}
		}
	})
}

// TestMemory: what a vocabulary of SmolLM2's size keeps on the heap, which the engine never gives back.
func TestMemory(t *testing.T) {
	const letters = "abcdefghijklmnopqrstuvwxyz"
	meta := small()
	tokens := meta["tokenizer.ggml.tokens"].([]string)
	var merges []string
	for i := 0; len(tokens) < 49_152; i++ { // every word of three letters, then of four
		n, word := i, ""
		for range 3 + i/(26*26*26) {
			word, n = word+letters[n%26:n%26+1], n/26
		}
		tokens = append(tokens, word)
	}
	for range 48_900 {
		merges = append(merges, "a b")
	}
	meta["tokenizer.ggml.tokens"], meta["tokenizer.ggml.merges"] = tokens, merges
	delete(meta, "tokenizer.ggml.token_type")
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	tok, err := tokenizer.FromGGUF(meta)
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	kept, made := int64(after.HeapAlloc)-int64(before.HeapAlloc), after.TotalAlloc-before.TotalAlloc
	t.Logf("keeps %d KiB of %d KiB allocated", kept>>10, made>>10)
	if kept > 2<<20 || made > 6<<20 {
		t.Errorf("keeps %d bytes, allocates %d", kept, made)
	}
	runtime.KeepAlive(tok)
	runtime.KeepAlive(meta)
}

func BenchmarkEncode(b *testing.B) {
	tok, _ := openTeach(b)
	text := strings.Repeat("In the evening, Xiao Ming ate a sandwich. 小明晚上吃了三明治。 It's 4817! ", 100)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		tok.Encode(text)
	}
}
