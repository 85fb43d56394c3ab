package stories

import (
	"slices"
	"strings"
)

// A model that met only words in their own roles learns to guess the food that was eaten, not to copy what stands there. So
// in training a part of the roles is played by strangers: words of other roles (what is held back in its own role among
// them) and words that do not exist.

// roles are the lists whose words may stand in for each other.
var roles = [][]word{names, foods, objects, spots, colours, boxes, animals, cities, toys, lands, seasons, weather}

// Shares of strangers: words that do not exist, and words that are held back in their own roles.
const (
	madeUp   = 0.35
	heldBack = 0.3
)

// heldOnes are the words of a role that are held back in it, for every role that has any.
var heldOnes = func() (out [][]word) {
	for _, list := range roles {
		if held := slices.DeleteFunc(slices.Clone(list), func(x word) bool { return !x.held }); len(held) > 0 {
			out = append(out, held)
		}
	}
	return out
}()

// syllables of words that do not exist, few enough for a tokenizer to know them all.
var syllables = strings.Fields("ba de fi go ku la me ni po ru sa te vi zo ha ke li mo nu pa re so tu wa")

// characters of the lexicon, for words that do not exist in Chinese.
var characters = func() (out []rune) {
	for _, list := range roles {
		for _, w := range list {
			out = append(out, []rune(w.zh)...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}()

// stranger draws a word that is at home in another role than that of the list, or one that does not exist.
func (w *writer) stranger(list []word) word {
	she := w.r.IntN(2) == 0
	share := w.r.Float64()
	if share < madeUp {
		s := w.invent()
		if w.lang == "en" && (&list[0] == &names[0] || &list[0] == &cities[0]) {
			s = strings.ToUpper(s[:1]) + s[1:]
		}
		w.invented = append(w.invented, s)
		return word{en: s, zh: s, she: she}
	}
	from := roles
	if share < madeUp+heldBack {
		from = heldOnes
	}
	for {
		if x := pick(w.r, pick(w.r, from)); !slices.Contains(list, x) {
			return word{en: bare(x.en), zh: x.zh, she: she}
		}
	}
}

// bare is an English word without its article.
func bare(s string) string { return strings.TrimPrefix(strings.TrimPrefix(s, "a "), "an ") }

// invent makes a word that is neither in the lexicon nor holds a word of it.
func (w *writer) invent() string {
	for {
		s := ""
		for range 2 + w.r.IntN(2) {
			if w.lang == "zh" {
				s += string(pick(w.r, characters))
			} else {
				s += pick(w.r, syllables)
			}
		}
		known := func(x word) bool { return w.lang == "zh" && strings.Contains(s, x.zh) || s == strings.ToLower(x.en) }
		if !slices.ContainsFunc(roles, func(list []word) bool { return slices.ContainsFunc(list, known) }) {
			return s
		}
	}
}
