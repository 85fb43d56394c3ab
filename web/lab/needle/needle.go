// Package needle makes prompts that a model can answer only from one sentence of them: a digit code in prose for chat
// models, and the stories that the built-in model reads.
package needle

import (
	"bytes"
	"errors"
	"slices"
	"strings"

	"kvlens/wasm/tokenizer"
)

// Sample is a prompt with the sentence that answers it.
type Sample struct {
	Name     string
	IDs      []int32
	From, To int    // tokens [From, To) of the prompt hold the sentence
	Value    [2]int // tokens of the answer in it
	Answer   string
	Exact    bool // the whole answer must be Answer; otherwise it must hold Answer as a word
}

// MaxAnswer is how many tokens an answer may have.
const MaxAnswer = 20

// Stops are the texts that end an answer; what they are made of is no part of it.
var Stops = []string{".", "。", "\n"}

// Ended says whether an answer is complete.
func Ended(answer string) bool {
	return slices.ContainsFunc(Stops, func(s string) bool { return strings.Contains(answer, s) })
}

// Right compares what a model answered.
func (s *Sample) Right(answer string) bool {
	answer = strings.TrimSpace(strings.TrimRight(answer, ".。\n"))
	if s.Exact {
		return answer == s.Answer
	}
	for at := 0; ; at++ {
		i := strings.Index(answer[at:], s.Answer)
		if i < 0 {
			return false
		}
		at += i
		if !digitAt(answer, at-1) && !digitAt(answer, at+len(s.Answer)) {
			return true
		}
	}
}

func digitAt(s string, i int) bool { return i >= 0 && i < len(s) && '0' <= s[i] && s[i] <= '9' }

var errSpan = errors.New("needle: the prompt does not hold its sentence once")

// locate finds the tokens of the sentence in the prompt, and those of the answer in the sentence. Of a token that
// reaches across an edge, the whole counts.
func (s *Sample) locate(t *tokenizer.Tokenizer, sentence, value string) error {
	var text []byte
	ends := make([]int, len(s.IDs)) // bytes up to and with each token
	for i, id := range s.IDs {
		text = append(text, t.Piece(id)...)
		ends[i] = len(text)
	}
	at := bytes.Index(text, []byte(sentence))
	in := strings.Index(sentence, value)
	if at < 0 || in < 0 || bytes.Contains(text[at+1:], []byte(sentence)) {
		return errSpan
	}
	tokens := func(from, to int) (int, int) {
		first, _ := slices.BinarySearch(ends, from+1)
		last, _ := slices.BinarySearch(ends, to)
		return first, last + 1
	}
	s.From, s.To = tokens(at, at+len(sentence))
	s.Value[0], s.Value[1] = tokens(at+in, at+in+len(value))
	return nil
}
