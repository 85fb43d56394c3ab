// Package tokenizer turns text into the token ids of a model and back: byte-level BPE (Sennrich et al., "Neural Machine
// Translation of Rare Words with Subword Units", 2016, on bytes as in GPT-2), read from the metadata of a GGUF file.
//
// Text that a person wrote never becomes a control token: Encode treats "<|im_end|>" as ten ordinary characters. A
// prompt template asks Special for the ids of its own control tokens.
package tokenizer

import "fmt"

// Meta is what FromGGUF reads of a file's metadata; the second result says whether the key exists with that type, Has
// whether it exists at all.
type Meta interface {
	Has(key string) bool
	Uint(key string) (uint64, bool)
	Bool(key string) (bool, bool)
	String(key string) (string, bool)
	Strings(key string) ([]string, bool)
	Ints(key string) ([]int64, bool)
}

// FormatError says which metadata field cannot be used, and why.
type FormatError struct{ Field, Msg string }

func (e *FormatError) Error() string { return "tokenizer: " + e.Field + ": " + e.Msg }

// Metadata keys.
const (
	keyModel  = "tokenizer.ggml.model"
	keyPre    = "tokenizer.ggml.pre"
	keyTokens = "tokenizer.ggml.tokens"
	keyTypes  = "tokenizer.ggml.token_type"
	keyMerges = "tokenizer.ggml.merges"
	keyBOS    = "tokenizer.ggml.bos_token_id"
	keyAddBOS = "tokenizer.ggml.add_bos_token"
	keyEOS    = "tokenizer.ggml.eos_token_id"
	keyEOT    = "tokenizer.ggml.eot_token_id"
	keyEOM    = "tokenizer.ggml.eom_token_id"
)

// endTexts are the texts of control tokens that end an answer in the model families that GGUF files come from; many
// files name only one of them in their eos field.
var endTexts = []string{
	"<|im_end|>", "<|endoftext|>", "<|end_of_text|>", "<|eot_id|>", "<|eom_id|>", "<|end|>", "<end_of_turn>", "</s>", "<|eos|>",
}

// Tokenizer is immutable after FromGGUF and safe for concurrent use.
type Tokenizer struct {
	vocab   vocab
	merges  merges
	next    func(string) int // length of the first pre-token of a text that is not empty
	bytes   [256]int32       // token of a single byte, −1 if the vocabulary has none
	special []int32          // control and user-defined tokens, ascending
	end     []int32          // end-of-generation tokens, ascending
	bos     int32
	addBOS  bool
}

// splitters are the pre-tokenisers by their GGUF names.
var splitters = map[string]func(string) int{"smollm": nextSmolLM}

// FromGGUF builds the tokenizer that m describes. Every error is a *FormatError. It keeps nothing of m.
func FromGGUF(m Meta) (*Tokenizer, error) {
	if model, ok := m.String(keyModel); !ok {
		return nil, lacking(m, keyModel)
	} else if model != "gpt2" {
		return nil, &FormatError{keyModel, fmt.Sprintf("kind %q is not supported, only gpt2 (byte-level BPE)", model)}
	}
	pre, _ := m.String(keyPre)
	next, ok := splitters[pre]
	if !ok {
		return nil, &FormatError{keyPre, fmt.Sprintf("pre-tokeniser %q is not supported", pre)}
	}
	texts, ok := m.Strings(keyTokens)
	if !ok {
		return nil, lacking(m, keyTokens)
	}
	types, ok := m.Ints(keyTypes)
	switch {
	case !ok && m.Has(keyTypes):
		return nil, lacking(m, keyTypes)
	case ok && len(types) != len(texts):
		return nil, &FormatError{keyTypes, fmt.Sprintf("%d entries for %d tokens", len(types), len(texts))}
	}
	pairs, ok := m.Strings(keyMerges)
	if !ok {
		return nil, lacking(m, keyMerges)
	}

	t := &Tokenizer{next: next}
	var err error
	if t.vocab, err = newVocab(texts, types); err != nil {
		return nil, err
	}
	find := t.vocab.index()
	for b := range t.bytes {
		t.bytes[b] = find([]byte{byte(b)})
	}
	if t.merges, err = newMerges(pairs, t.Vocab(), find); err != nil {
		return nil, err
	}
	for id, k := range t.vocab.kind {
		if k == placed {
			t.special = append(t.special, int32(id))
		}
	}
	return t, t.readIDs(m)
}

// lacking says why a value cannot be had.
func lacking(m Meta, key string) *FormatError {
	if m.Has(key) {
		return &FormatError{key, "of the wrong type"}
	}
	return &FormatError{key, "missing"}
}

// readIDs reads the ids that metadata gives a role. One that is not of the right type is refused: a model that ignores
// where its texts begin or end gives wrong answers, not a failure.
func (t *Tokenizer) readIDs(m Meta) error {
	id := func(key string) (int32, error) {
		v, ok := m.Uint(key)
		switch {
		case !ok && m.Has(key):
			return -1, lacking(m, key)
		case !ok:
			return -1, nil
		case v >= uint64(t.Vocab()):
			return -1, &FormatError{key, fmt.Sprintf("token %d of a vocabulary of %d", v, t.Vocab())}
		}
		return int32(v), nil
	}
	var err error
	if t.bos, err = id(keyBOS); err != nil {
		return err
	}
	var ok bool
	switch t.addBOS, ok = m.Bool(keyAddBOS); {
	case !ok && m.Has(keyAddBOS):
		return lacking(m, keyAddBOS)
	case t.addBOS && t.bos < 0:
		return &FormatError{keyAddBOS, "set, but there is no " + keyBOS}
	}
	end := make(map[int32]bool)
	for _, key := range []string{keyEOS, keyEOT, keyEOM} {
		v, err := id(key)
		if err != nil {
			return err
		}
		end[v] = true
	}
	for _, text := range endTexts {
		if v, ok := t.Special(text); ok {
			end[v] = true
		}
	}
	for v := range int32(t.Vocab()) {
		if end[v] {
			t.end = append(t.end, v)
		}
	}
	return nil
}

// Vocab is the number of tokens.
func (t *Tokenizer) Vocab() int { return len(t.vocab.kind) }

// BOS is the token that every text of this model starts with; false if it starts with none, which is what most chat
// models want even where they name a bos token.
func (t *Tokenizer) BOS() (int32, bool) { return t.bos, t.addBOS }

// EOG reports whether a token ends the answer.
func (t *Tokenizer) EOG(id int32) bool { return contains(t.end, id) }

// Control reports whether only a template may place a token.
func (t *Tokenizer) Control(id int32) bool { return contains(t.special, id) }

// Special finds a control token by its text.
func (t *Tokenizer) Special(text string) (int32, bool) {
	for _, id := range t.special {
		if string(t.Piece(id)) == text {
			return id, true
		}
	}
	return -1, false
}

// Piece is a token's bytes: the text of a control token, otherwise the bytes it stands for, which may be a part of a
// character. It is nil for an id outside the vocabulary. The caller must not change it.
func (t *Tokenizer) Piece(id int32) []byte {
	if id < 0 || int(id) >= t.Vocab() {
		return nil
	}
	return t.vocab.bytes(id)
}
