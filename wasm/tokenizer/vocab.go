package tokenizer

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
)

// kind says how a token may come about.
type kind uint8

const (
	ordinary kind = iota // from text
	placed               // only where a template puts it
	literal              // ordinary by its type, but no bytes spell it: never from text
)

// GGUF token types that are placed: unknown, control and user-defined.
const (
	typeUnknown = 2
	typeControl = 3
	typeUser    = 4
)

// vocab holds the tokens' bytes end to end. A vocabulary has tens of thousands of tokens and lives as long as the
// engine, whose memory never shrinks: one string per token would cost three times as much.
type vocab struct {
	text []byte
	ends []uint32 // [tokens] end of the token in text; it starts where the one before ends
	kind []kind   // [tokens]
}

func (v *vocab) bytes(id int32) []byte {
	var start uint32
	if id > 0 {
		start = v.ends[id-1]
	}
	end := v.ends[id]
	return v.text[start:end:end]
}

func newVocab(texts []string, types []int64) (vocab, error) {
	var size int
	for _, s := range texts {
		size += len(s)
	}
	if len(texts) == 0 || len(texts) > math.MaxInt32 || size > math.MaxUint32 {
		return vocab{}, &FormatError{keyTokens, fmt.Sprintf("%d tokens of %d bytes", len(texts), size)}
	}
	v := vocab{text: make([]byte, 0, size), ends: make([]uint32, len(texts)), kind: make([]kind, len(texts))}
	for id, s := range texts {
		if types != nil && types[id] >= typeUnknown && types[id] <= typeUser {
			v.kind[id] = placed
			v.text = append(v.text, s...)
		} else if out, ok := appendBytes(v.text, s); ok {
			v.text = out
		} else {
			v.kind[id] = literal
			v.text = append(v.text, s...)
		}
		v.ends[id] = uint32(len(v.text))
	}
	v.text = bytes.Clone(v.text) // the printable alphabet is longer than the bytes
	return v, nil
}

// index returns a search for ordinary tokens by their bytes, −1 if there is none; of equal tokens the first counts. It
// is a closed hash table over the vocabulary, needed only while loading. The hash is seeded, so that a file cannot be
// made to collide.
func (v *vocab) index() func([]byte) int32 {
	size := 1
	for size < 2*len(v.kind) {
		size *= 2
	}
	table := make([]int32, size) // id + 1, 0 for empty
	seed := maphash.MakeSeed()
	slot := func(b []byte) int {
		i := int(maphash.Bytes(seed, b) & uint64(size-1))
		for table[i] != 0 && !bytes.Equal(v.bytes(table[i]-1), b) {
			i = (i + 1) & (size - 1)
		}
		return i
	}
	for id, k := range v.kind {
		b := v.bytes(int32(id))
		if k != ordinary || len(b) == 0 {
			continue
		}
		if i := slot(b); table[i] == 0 {
			table[i] = int32(id) + 1
		}
	}
	return func(b []byte) int32 { return table[slot(b)] - 1 }
}

// GPT-2 writes a token's bytes as printable characters: bytes that are printable in Latin-1 stand for themselves, the
// others, in order, are the characters from U+0100.
var byteOf = func() map[rune]byte {
	m := make(map[rune]byte, 256)
	next := rune(256)
	for b := range rune(256) {
		if b >= '!' && b <= '~' || b >= '¡' && b <= '¬' || b >= '®' && b <= 'ÿ' {
			m[b] = byte(b)
		} else {
			m[next] = byte(b)
			next++
		}
	}
	return m
}()

// appendBytes appends the bytes that s spells in the printable alphabet, or reports that it does not.
func appendBytes(dst []byte, s string) ([]byte, bool) {
	start := len(dst)
	for _, r := range s {
		b, ok := byteOf[r]
		if !ok {
			return dst[:start], false
		}
		dst = append(dst, b)
	}
	return dst, true
}

// contains searches an ascending list.
func contains(ids []int32, id int32) bool {
	_, ok := slices.BinarySearch(ids, id)
	return ok
}
