package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// nextSmolLM returns the length in bytes of the first pre-token of s, which is not empty.
//
// The rule has two stages. First every number character (Unicode category N) stands alone. Then GPT-2's pattern cuts
// the text between numbers:
//
//	's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// To the look-ahead a number is the end of the text, so "   123" starts with one token of three spaces, whereas "   abc"
// starts with two spaces and goes on with " abc".
func nextSmolLM(s string) int {
	first, n := classify(s)
	switch {
	case first == number:
		return n
	case s[0] == '\'':
		if c := contraction(s); c > 0 {
			return c
		}
	case first == space:
		end, last := spaces(s)
		if end == len(s) {
			return end
		}
		following, _ := classify(s[end:])
		switch {
		case following == number:
			return end
		case last > 0:
			return last // the last one may belong to the word
		case s[0] != ' ':
			return end
		}
		return end + run(s[end:], following)
	}
	return run(s, first)
}

// class of a character for the pre-tokeniser.
type class uint8

const (
	other class = iota // marks, punctuation, symbols, controls, and bytes that are not UTF-8
	letter
	number
	space
)

func classify(s string) (class, int) {
	r, n := utf8.DecodeRuneInString(s)
	switch {
	case unicode.IsLetter(r):
		return letter, n
	case unicode.IsNumber(r):
		return number, n
	case unicode.IsSpace(r):
		return space, n
	}
	return other, n
}

// run is the length of the characters of class c that s starts with.
func run(s string, c class) int {
	i := 0
	for i < len(s) {
		k, n := classify(s[i:])
		if k != c {
			break
		}
		i += n
	}
	return i
}

// spaces returns where the run of white space that s starts with ends and where its last character starts.
func spaces(s string) (end, last int) {
	for end < len(s) {
		k, n := classify(s[end:])
		if k != space {
			break
		}
		last, end = end, end+n
	}
	return end, last
}

// contraction is the length of the English contraction that s starts with, or 0. Case matters, as in GPT-2.
func contraction(s string) int {
	for _, c := range [...]string{"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"} {
		if strings.HasPrefix(s, c) {
			return len(c)
		}
	}
	return 0
}
