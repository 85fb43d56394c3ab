package stories

import (
	"math/rand/v2"
	"strings"
)

// New writes a story of about so many words with three questions of one kind, for the page's "new story". The same seed
// gives the same story. Each answer stands in it once.
func New(lang string, seed uint64, words int) Story {
	w := newWriter(lang, rand.New(rand.NewPCG(seed, 0x6e6577)))
	rel := Relation(w.r.IntN(int(Owner)))
	s := Story{ID: "new", Lang: lang}
	var told []fact
	var text []string
	length, taken := 0, map[string]bool{}
	spoils := func(sentence string) bool { // an answer stands in it
		for _, f := range told {
			if strings.Contains(sentence, f.value) {
				return true
			}
		}
		return false
	}
	for len(told) < 3 || length+24 < words && len(told) < 5 {
		f := w.fact(rel, Known)
		sentence := w.tell(f, w.p.facts[rel].tell).text
		if taken[f.id()] || spoils(sentence) || strings.Contains(strings.Join(text, "\n"), f.value) {
			continue
		}
		taken[f.id()] = true
		told, text = append(told, f), append(text, sentence)
		length += CountWords(sentence)
	}
	for length < words {
		if sentence := w.filler(); !spoils(sentence) {
			at := w.r.IntN(len(text) + 1)
			text = insert(text, at, sentence)
			length += CountWords(sentence)
		}
	}
	s.Text = strings.Join(text, w.p.space)
	for _, i := range w.r.Perm(len(told))[:3] {
		s.Asks = append(s.Asks, Ask{w.question(told[i], Known).text, told[i].value})
	}
	return s
}
