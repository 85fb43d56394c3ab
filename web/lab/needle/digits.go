package needle

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"kvlens/wasm/chat"
	"kvlens/wasm/tokenizer"
)

// Digits asks for a code of digits that one sentence of some prose tells, by a chat template.
type Digits struct {
	Prose  string // where the passage is cut from; the passage begins with a sentence
	Tokens int    // of the prompt, at most
	Depth  float64
	Code   string
}

const (
	tell = "The secret code is %s."
	ask  = "\n\nWhat is the secret code?"
)

// NewDigits writes the prompt.
func NewDigits(t *tokenizer.Tokenizer, c *chat.ChatML, d Digits) (*Sample, error) {
	sentences := Sentences(d.Prose)
	needle := fmt.Sprintf(tell, d.Code)
	length := make([]int, len(sentences))
	room := d.Tokens - len(c.Render([]chat.Message{{Role: "user", Content: needle + ask}}, true))
	n, sum := 0, 0
	for ; n < len(sentences); n++ {
		length[n] = len(t.Encode(" " + sentences[n]))
		if sum+length[n] > room {
			break
		}
		sum += length[n]
	}
	if n == 0 {
		return nil, fmt.Errorf("needle: no sentence of the prose fits %d tokens", d.Tokens)
	}
	at, before := 0, 0
	for at < n && float64(before)+float64(length[at])/2 <= d.Depth*float64(sum) {
		before += length[at]
		at++
	}
	told := append(append(append([]string(nil), sentences[:at]...), needle), sentences[at:n]...)
	s := &Sample{
		Name:   fmt.Sprintf("%s at %.1f of %d", d.Code, d.Depth, d.Tokens),
		IDs:    c.Render([]chat.Message{{Role: "user", Content: strings.Join(told, " ") + ask}}, true),
		Answer: d.Code,
	}
	return s, s.locate(t, needle, d.Code)
}

// Code draws so many digits, no two neighbours equal: a model that only repeats itself is not right by luck.
func Code(r *rand.Rand, digits int) string {
	b := make([]byte, digits)
	for i := range b {
		b[i] = byte('0' + r.IntN(10))
		for i > 0 && b[i] == b[i-1] || i == 0 && b[i] == '0' {
			b[i] = byte('0' + r.IntN(10))
		}
	}
	return string(b)
}

// Sentences cuts a text into its sentences, with single spaces in them. A text that has line breaks within sentences is
// the same without.
func Sentences(text string) []string {
	var out []string
	var sentence []string
	for _, word := range strings.Fields(text) {
		sentence = append(sentence, word)
		if strings.TrimRight(word, `"'”’)`) != strings.TrimRight(word, `"'”’).!?;`) {
			out = append(out, strings.Join(sentence, " "))
			sentence = nil
		}
	}
	return out
}
