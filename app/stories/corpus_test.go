package stories

import (
	"math"
	"math/rand/v2"
	"slices"
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
	home := w.p.facts[Home]
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
			at, last := 0, Span{} // the last sentence that says where the name lives
			for _, sentence := range strings.SplitAfter(before, w.p.stop) {
				for _, t := range slices.Concat(home.tell, home.back, home.update) {
					if fits(sentence, strings.ReplaceAll(t, "{1}", name)) {
						last = Span{at, at + len(sentence)}
					}
				}
				at += len(sentence)
			}
			if m.Source[0].From < last.From || m.Source[0].To > last.To {
				t.Fatalf("%s: %q is not the last word in %q", q, m.In(d.Text), d.Text)
			}
			checked++
		}
	})
	if checked < 5 {
		t.Errorf("only %d questions were checked", checked)
	}
}

// castOf lists the roles that a fact's keys and its value play.
func castOf(f fact) (cast []struct {
	role []word
	word string
},
) {
	add := func(role []word, text string) {
		cast = append(cast, struct {
			role []word
			word string
		}{role, text})
	}
	switch f.rel {
	case Meal:
		add(names, f.k1.en)
		add(times, f.k2.en)
		add(foods, f.value)
	case Code:
		add(colours, f.k1.en)
		add(boxes, f.k2.en)
	case Place:
		add(objects, f.k1.en)
		add(spots, f.value)
	case Pet:
		add(names, f.k1.en)
		add(colours, f.value)
	case Home:
		add(names, f.k1.en)
		add(cities, f.value)
	case Finder:
		add(toys, f.k1.en)
		add(names, f.value)
	case Owner:
		add(names, f.k1.en)
		add(colours, f.owned[0].en)
		add(boxes, f.owned[1].en)
	}
	return cast
}

// What is held back never plays its role, in any fact that training may draw, but it is met in other roles: in answers too.
func TestTrainingLeavesOutWhatIsHeldBack(t *testing.T) {
	strange := 0
	for _, lang := range []string{"en", "zh"} {
		w := newWriter(lang, rand.New(rand.NewPCG(8, 8)))
		w.strange = 0.5
		for range 20000 {
			f := w.fact(Relation(w.r.IntN(int(relations))), Known)
			for _, c := range castOf(f) {
				own := false
				for _, x := range c.role {
					if x.held && (holds("en", c.word, x) || holds(lang, c.word, x)) {
						t.Fatalf("%s: %q plays its own role in %+v", lang, x.en, f)
					}
					own = own || holds("en", c.word, x) || holds(lang, c.word, x)
				}
				if !own {
					strange++
				}
			}
		}
	}
	if strange < 20000 || strange > 50000 { // half of some 78,000 but for the times
		t.Errorf("%d roles were played by strangers", strange)
	}
	answered := map[string]int{}
	for i := range uint64(600) {
		for _, lang := range []string{"en", "zh"} {
			d := NewDocument(3, i, lang, 250)
			for _, w := range heldWords() {
				for _, m := range d.Marks {
					if m.Role == Answer && holds(lang, m.In(d.Text), word{en: bare(w.en), zh: w.zh}) {
						answered[lang]++
					}
				}
			}
			for _, s := range strings.FieldsFunc(d.Text, func(r rune) bool { return r == '\n' }) {
				s = strings.TrimPrefix(s, strings.TrimSpace(phrasesOf(lang).ask))
				for _, part := range append(strings.SplitAfter(s, phrasesOf(lang).stop), s) {
					for _, wording := range phrasesOf(lang).facts {
						for _, template := range slices.Concat(wording.held, wording.heldAsk) {
							if fits(part, template) {
								t.Fatalf("%q has the wording %q, which is held back", part, template)
							}
						}
					}
				}
			}
		}
	}
	if answered["en"] < 100 || answered["zh"] < 100 {
		t.Errorf("too few answers are words that are held back in another role: %v", answered)
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
					if i > 0 || strings.Contains(k.In(d.Text), p.stop) {
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

// A length or a language that nobody should ask for gives a document all the same.
func TestAnyLength(t *testing.T) {
	for _, words := range []int{math.MinInt, -1, 0, 1, 16, math.MaxInt} {
		for i := range uint64(40) {
			if words > 100 && i > 1 {
				continue
			}
			d := NewDocument(5, i, []string{"en", "zh", "xx"}[i%3], words)
			if n := CountWords(d.Text); d.Text == "" || n > 1<<16+200 || words <= 16 && n > 200 {
				t.Errorf("document %d of %d words has %d", i, words, n)
			}
		}
	}
}
