package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// Decoder turns tokens into text as they come. A token may end within a character; its bytes wait until the character
// is whole, so that nobody sees half of one. Bytes that cannot become a character are shown as U+FFFD, one for each
// maximal part of a character, as browsers do.
type Decoder struct {
	t    *Tokenizer
	wait []byte
}

// NewDecoder starts a text.
func (t *Tokenizer) NewDecoder() *Decoder { return &Decoder{t: t} }

// Push adds a token and returns the text that is now final, often empty. Control tokens count as their text; leave out
// those that are not to be shown.
func (d *Decoder) Push(id int32) string {
	var out strings.Builder
	if d.t.Control(id) {
		out.WriteString(d.Flush())
		out.WriteString(strings.ToValidUTF8(string(d.t.Piece(id)), "\uFFFD"))
		return out.String()
	}
	d.wait = append(d.wait, d.t.Piece(id)...)
	b := d.wait
	for len(b) > 0 && utf8.FullRune(b) {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			n = brokenPart(b)
		}
		out.WriteRune(r)
		b = b[n:]
	}
	d.wait = append(d.wait[:0], b...)
	return out.String()
}

// Flush ends the text: what still waits becomes U+FFFD.
func (d *Decoder) Flush() string {
	if len(d.wait) == 0 {
		return ""
	}
	d.wait = d.wait[:0]
	return "\uFFFD"
}

// brokenPart is the length of the longest start of b that also starts some character, at least 1.
func brokenPart(b []byte) int {
	for n := min(3, len(b)); n > 1; n-- {
		if !utf8.FullRune(b[:n]) {
			return n
		}
	}
	return 1
}

// Decode is the text of ids.
func (t *Tokenizer) Decode(ids []int32) string {
	var out strings.Builder
	d := t.NewDecoder()
	for _, id := range ids {
		out.WriteString(d.Push(id))
	}
	out.WriteString(d.Flush())
	return out.String()
}

// Pieces cuts ids for display: one piece per token, except that tokens which share a character share a piece. ends[i] is
// the number of tokens up to and including piece i.
func (t *Tokenizer) Pieces(ids []int32) (ends []uint32, texts []string) {
	d := t.NewDecoder()
	open := "" // text of the piece in work, which has tokens as long as bytes wait
	for i, id := range ids {
		if t.Control(id) && len(d.wait) > 0 {
			ends, texts = append(ends, uint32(i)), append(texts, open+d.Flush())
			open = ""
		}
		open += d.Push(id)
		if len(d.wait) == 0 || i == len(ids)-1 {
			ends, texts = append(ends, uint32(i+1)), append(texts, open+d.Flush())
			open = ""
		}
	}
	return ends, texts
}
