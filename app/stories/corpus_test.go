package stories

import (
	"math"
	"strings"
	"testing"
)

const checked = 150 // documents of each language

func eachDocument(words int, f func(lang string, d Document)) {
	for _, lang := range []string{"en", "zh"} {
		for i := range uint64(checked) {
			f(lang, NewDocument(3, i, lang, words))
		}
	}
}

// A mark is the text that its source tells, and its source comes before it; only what was not told has none.
func TestMarksMatchTheirSources(t *testing.T) {
	seen := map[Role]int{}
	untold, behind, steps := 0, 0, 0
	eachDocument(250, func(lang string, d Document) {
		for _, m := range d.Marks {
			seen[m.Role]++
			text := strings.TrimSpace(m.In(d.Text))
			if len(m.Source) == 0 {
				untold++
				if text != phrasesOf(lang).untold {
					t.Fatalf("%q has no source in %q", text, d.Text)
				}
				continue
			}
			if got := strings.TrimSpace(m.Source[0].In(d.Text)); got != text {
				t.Fatalf("%q has the source %q in %q", text, got, d.Text)
			}
			for _, s := range append(m.Source, m.Via...) {
				if s.To > m.From {
					t.Fatalf("%q is told after it is asked in %q", text, d.Text)
				}
			}
			if len(m.Source) > 1 {
				behind++
			}
			if len(m.Via) > 0 {
				steps++
			}
		}
	})
	if seen[Answer] < 400 || seen[Copied] < 400 || untold < 40 || behind < 40 || steps < 5 {
		t.Errorf("too little of something: %v, %d untold, %d with the value first, %d in two steps", seen, untold, behind, steps)
	}
}

// Where a question is asked of a fact that was told twice, the later value is the answer.
func TestTheLaterFactHolds(t *testing.T) {
	w := newWriter("en", nil)
	checked := 0
	eachDocument(250, func(lang string, d Document) {
		if lang != "en" {
			return
		}
		for _, m := range d.Marks {
			before := d.Text[:m.From]
			q := before[strings.LastIndex(before, w.p.ask)+len(w.p.ask):]
			name, ok := strings.CutPrefix(q, "Where does ")
			name, _, ok2 := strings.Cut(name, " live?")
			if !ok || !ok2 || m.Role != Answer || len(m.Source) == 0 {
				continue
			}
			last := -1 // of all sentences that say where somebody lives
			for _, s := range []string{name + " lives in ", "The home of " + name + " is in ", name + " moved to "} {
				last = max(last, strings.LastIndex(before, s))
			}
			for _, c := range cities {
				last = max(last, strings.LastIndex(before, "In the city of "+c.en+" lives "+name+"."))
			}
			if !strings.Contains(before[last:m.Source[0].To], strings.TrimSpace(m.In(d.Text))) {
				t.Fatalf("%s: %q is not the last word in %q", q, m.In(d.Text), d.Text)
			}
			checked++
		}
	})
	if checked < 5 {
		t.Errorf("only %d questions were checked", checked)
	}
}

// What is held back stands in filler and lists only: never in an answer, a question or a told fact.
func TestTrainingLeavesOutWhatIsHeldBack(t *testing.T) {
	met := map[string]bool{}
	eachDocument(250, func(lang string, d Document) {
		list := strings.HasPrefix(d.Text, strings.TrimSpace(phrasesOf(lang).again[0]))
		for _, m := range d.Marks {
			if list {
				break
			}
			for _, w := range heldWords() {
				if holds(lang, m.In(d.Text), w) {
					t.Fatalf("the answer %q is held back", m.In(d.Text))
				}
			}
		}
		for _, s := range strings.SplitAfter(d.Text, phrasesOf(lang).stop) {
			for _, w := range heldWords() {
				if !holds(lang, s, w) {
					continue
				}
				met[lang+w.en] = true
				if !list && !isFiller(lang, s) {
					t.Fatalf("%q is held back but told in %q", w.in(lang), s)
				}
			}
			for _, wording := range phrasesOf(lang).facts {
				for _, template := range append(append([]string(nil), wording.held...), wording.heldAsk...) {
					if fits(s, template) {
						t.Fatalf("%q has the wording %q, which is held back", s, template)
					}
				}
			}
		}
	})
	for _, w := range heldWords() {
		for _, lang := range []string{"en", "zh"} {
			if !met[lang+w.en] {
				t.Errorf("%s: training never meets %q as a word", lang, w.in(lang))
			}
		}
	}
}

// fits reports whether the literal parts of a template stand in a text in order, from its start to its end.
func fits(s, template string) bool {
	s = strings.TrimSpace(s)
	parts := []string{}
	for t := template; ; {
		before, rest, ok := strings.Cut(t, "{")
		parts = append(parts, before)
		if !ok {
			break
		}
		_, t, _ = strings.Cut(rest, "}")
	}
	if !strings.HasPrefix(s, parts[0]) || !strings.HasSuffix(s, parts[len(parts)-1]) {
		return false
	}
	for _, p := range parts {
		i := strings.Index(s, p)
		if i < 0 {
			return false
		}
		s = s[i+len(p):]
	}
	return true
}

func isFiller(lang, s string) bool {
	for _, f := range phrasesOf(lang).filler {
		if fits(s, f) {
			return true
		}
	}
	return false
}

func heldWords() []word {
	var out []word
	for _, list := range slots {
		for _, w := range list {
			if w.held {
				out = append(out, w)
			}
		}
	}
	return out
}

// holds reports whether a word stands in a text, not as a part of a longer English one.
func holds(lang, s string, w word) bool {
	if lang == "zh" {
		return strings.Contains(s, w.zh)
	}
	return strings.Contains(" "+strings.NewReplacer(".", " ", ",", " ", "?", " ").Replace(s)+" ", " "+w.en+" ")
}

// Documents are about as long as asked, in words.
func TestDocumentLength(t *testing.T) {
	for _, words := range []int{62, 250, 2000} {
		sum, n := 0.0, 0
		eachDocument(words, func(lang string, d Document) {
			sum += float64(CountWords(d.Text))
			n++
		})
		if mean := sum / float64(n); math.Abs(mean/float64(words)-1) > 0.2 {
			t.Errorf("documents of %d words have %.0f on average", words, mean)
		}
	}
}

func TestLexiconHasEveryWordOnce(t *testing.T) {
	for _, lang := range []string{"en", "zh"} {
		seen := map[string]bool{}
		for _, s := range Lexicon(lang) {
			if seen[s] || s == "" {
				t.Errorf("%s: %q", lang, s)
			}
			seen[s] = true
		}
		for slot, list := range slots {
			for _, w := range list {
				if !seen[w.in(lang)] {
					t.Errorf("%s: %s %q is not in the lexicon", lang, slot, w.in(lang))
				}
			}
		}
	}
}

// Keys name the fact: those of a told fact stand in its sentence or, for a pronoun, where the name stood before; those of a
// mark stand in its question.
func TestKeysStandWhereTheyShould(t *testing.T) {
	before := 0
	eachDocument(250, func(lang string, d Document) {
		p := phrasesOf(lang)
		for _, f := range d.Facts {
			if len(f.Keys) == 0 || len(f.Keys) > 2 {
				t.Fatalf("%q has %d keys", f.Value.In(d.Text), len(f.Keys))
			}
			start := strings.LastIndex(d.Text[:f.Value.From], p.stop) + 1
			for i, k := range f.Keys {
				if k.From >= k.To || k.From < f.Value.To && k.To > f.Value.From {
					t.Fatalf("the key %v of the value %v in %q", k, f.Value, d.Text)
				}
				if k.To < start {
					before++
					if i > 0 || !isName(lang, k.In(d.Text)) {
						t.Fatalf("the key %q stands in another sentence than %q of %q", k.In(d.Text), f.Value.In(d.Text), d.Text)
					}
				}
			}
		}
		for _, m := range d.Marks {
			for _, k := range m.Keys {
				asked := strings.LastIndex(d.Text[:m.From], p.ask)
				if k.From < asked || k.To > m.From {
					t.Fatalf("the key %q does not stand in the question of %q", k.In(d.Text), m.In(d.Text))
				}
			}
		}
	})
	if before < 10 {
		t.Errorf("only %d pronouns were met", before)
	}
}

func isName(lang, s string) bool {
	for _, n := range names {
		if n.in(lang) == s {
			return true
		}
	}
	return false
}
