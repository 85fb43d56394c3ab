package chat

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"

	"kvlens/wasm/tokenizer"
)

const (
	storyMark    = "{story}"
	questionMark = "{question}"
)

// Story renders a story and a question about it by templates like "{story}\nQuestion: {question}\nAnswer:", one for each
// language that the model knows.
type Story struct {
	t         *tokenizer.Tokenizer
	templates map[string]string
}

// NewStory checks templates, keyed by language ("en", "zh"): each holds {story}, then {question}, once. Errors wrap
// ErrTemplate.
func NewStory(t *tokenizer.Tokenizer, templates map[string]string) (*Story, error) {
	if len(templates) == 0 {
		return nil, fmt.Errorf("chat: %w: there is none", ErrTemplate)
	}
	langs := slices.Collect(maps.Keys(templates))
	sort.Slice(langs, func(a, b int) bool { return langs[a] < langs[b] })
	for _, lang := range langs {
		s := templates[lang]
		if strings.Count(s, storyMark) != 1 || strings.Count(s, questionMark) != 1 ||
			strings.Index(s, storyMark) > strings.Index(s, questionMark) {
			return nil, fmt.Errorf("chat: %w: %q must hold %s, then %s, once", ErrTemplate, lang, storyMark, questionMark)
		}
	}
	return &Story{t, maps.Clone(templates)}, nil
}

// First gives the tokens of a story and a question.
func (s *Story) First(story, question string) []int32 {
	text := strings.NewReplacer(storyMark, story, questionMark, question).Replace(s.template(story, question))
	return append(begin(s.t), s.t.Encode(text)...)
}

// Parts gives the tokens of a story, and those of a question after it, so that the story can be read before there is a
// question: its tokens are the same whatever is asked in one language.
func (s *Story) Parts(story, question string) (first, rest []int32) {
	before, after, _ := strings.Cut(s.template(story, question), storyMark)
	first = append(begin(s.t), s.t.Encode(before+story)...)
	return first, s.t.Encode(strings.Replace(after, questionMark, question, 1))
}

// Later gives the tokens of another question about the story in the cache. last is the last token of the conversation so
// far: if it ends the line, the template's line break is left out.
func (s *Story) Later(question string, last int32) []int32 {
	_, ask, _ := strings.Cut(s.template("", question), storyMark)
	if bytes.HasSuffix(s.t.Piece(last), []byte("\n")) {
		ask = strings.TrimPrefix(ask, "\n")
	}
	return s.t.Encode(strings.Replace(ask, questionMark, question, 1))
}

// Answer gives the tokens of an answer to a question, as they follow its prompt: after a template that ends in Latin
// script comes a space.
func (s *Story) Answer(question, answer string) []int32 {
	t := s.template("", question)
	if last := t[len(t)-1]; last > ' ' && last < utf8.RuneSelf {
		answer = " " + strings.TrimLeft(answer, " ")
	}
	return s.t.Encode(answer)
}

// template chooses by the language of the question, or of the story if there is no question. A language that the model
// does not know gets the first template by name.
func (s *Story) template(story, question string) string {
	if strings.TrimSpace(question) == "" {
		question = story
	}
	if t, ok := s.templates[Language(question)]; ok {
		return t
	}
	return s.templates[slices.Min(slices.Collect(maps.Keys(s.templates)))]
}

// Language tells Chinese ("zh", any Chinese character) from English ("en", everything else).
func Language(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return unicode.Is(unicode.Han, r) }) {
		return "zh"
	}
	return "en"
}
