package stories

import (
	"math/rand/v2"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Role says why a part of a document can be known.
type Role string

// The roles of marked text.
const (
	Answer Role = "answer" // the answer to a question
	Copied Role = "copied" // what stands after the same words further up
)

// Mark is a part of a document that can only be known by looking back.
type Mark struct {
	Span
	Role   Role
	Source []Span // where it was told: the value, and the keys behind it where they come last; empty when untold
	Via    []Span // where the first of two steps leads
	Keys   []Span // of the fact, in the question
}

// Told is a fact that a document tells.
type Told struct {
	Value Span
	Keys  []Span // where a pronoun stands for the first, it is where the name was told last
}

// Document is a text for training: a story with questions and answers in it. All marks are in order.
type Document struct {
	Lang, Text string
	Marks      []Mark
	Facts      []Told
}

// Share of the documents that are tales and lists; the rest are facts. Lists are more at the start of training.
const (
	taleShare = 0.12
	listShare = 0.12
)

// NewDocument writes document number i of a corpus, of about so many words, from 16 to 65,536. It never uses what is held
// back. Any other language than zh is English.
func NewDocument(corpus, i uint64, lang string, words int) Document {
	if lang != "zh" {
		lang = "en"
	}
	d := &draft{writer: newWriter(lang, rand.New(rand.NewPCG(corpus, i))), limit: min(max(words, 16), 1<<16)}
	switch x := d.r.Float64(); {
	case x < taleShare:
		d.tales()
	case x < taleShare+listShare:
		d.lists()
	default:
		d.facts()
	}
	return Document{Lang: lang, Text: d.b.String(), Marks: d.marks, Facts: d.all}
}

// draft is a document being written.
type draft struct {
	*writer
	b     strings.Builder
	words int
	limit int
	marks []Mark

	told  []*told
	byID  map[string]*told
	all   []Told
	named word // whom a pronoun would mean
	name  Span // and where that name stands
}

// told is a fact that stands in the document.
type told struct {
	fact
	source []Span
	prefix string // its sentence up to the value, when the keys stand there
	asked  bool
}

// put writes text and returns where it stands.
func (d *draft) put(s string) Span {
	from := d.b.Len()
	d.b.WriteString(s)
	d.words += CountWords(s)
	for _, x := range d.invented {
		d.words += strings.Count(s, x) * (len(d.p.space) + 1) // a word that does not exist has a token for each syllable or character
	}
	return Span{from, d.b.Len()}
}

// sentence writes a sentence with a space before it where one is due.
func (d *draft) sentence(s string) Span {
	text := d.b.String()
	if text != "" && !strings.HasSuffix(text, "\n") {
		d.put(d.p.space)
	}
	return d.put(s)
}

// facts writes rounds of facts among filler, each with questions after it.
func (d *draft) facts() {
	d.byID = map[string]*told{}
	dense := pick(d.r, []float64{1, 1, 1, 0.6, 0.3})
	asking := pick(d.r, []float64{0.35, 0.5, 0.6})
	rounds := 1 + d.r.IntN(2)
	if d.limit > 300 {
		dense, asking = pick(d.r, []float64{1, 1, 0.7, 0.4, 0.2, 0.1}), pick(d.r, []float64{0.15, 0.25, 0.4})
		rounds = pick(d.r, []int{1, 1, 2, 3, 5})
	}
	d.strange = pick(d.r, []float64{0, 0, 0.25, 0.5, 0.8})
	relation := d.relations()
	ends := make([]int, rounds) // anywhere, so that some questions come after a sentence or two
	for i := range ends {
		ends[i] = d.limit
		if i > 0 {
			ends[i] = d.r.IntN(d.limit)
		}
	}
	if d.limit > 100 && d.r.Float64() < 0.4 {
		ends = append(ends, 16+d.r.IntN(80))
	}
	slices.Sort(ends)
	for _, end := range ends {
		if d.words+8 > end {
			continue
		}
		story := end - int(asking*float64(end-d.words))
		if d.words > 0 {
			d.put("\n")
		}
		d.named = word{}
		first := true
		for d.words < story {
			if !first && d.r.Float64() < dense || len(d.told) == 0 && (d.words > story/2 || end < 100) || dense == 1 {
				d.tellOne(relation())
			} else {
				d.sentence(d.filler())
			}
			first = false
		}
		for d.words < end && d.ask() {
		}
	}
}

// relations returns a source of relations: few in one document, so that many of its facts are of one kind.
func (d *draft) relations() func() Relation {
	all := d.r.Perm(int(relations))
	n := pick(d.r, []int{1, 1, 2, 2, 3, 4})
	chosen := all[:n]
	if d.r.Float64() < 0.15 {
		chosen = []int{int(Owner)}
	}
	for _, r := range chosen {
		switch Relation(r) {
		case Owner: // an owner alone answers nothing
			chosen = append(append([]int(nil), chosen...), int(Code))
		case Code:
			if d.r.IntN(2) == 0 {
				chosen = append(append([]int(nil), chosen...), int(Owner))
			}
		}
	}
	return func() Relation { return Relation(pick(d.r, chosen)) }
}

// tellOne tells a fact of a relation, or filler when the relation has no more to tell.
func (d *draft) tellOne(rel Relation) {
	if old := d.known(rel); old != nil && len(d.p.facts[rel].update) > 0 && d.r.Float64() < 0.2 {
		f := old.fact
		for f.value == old.value {
			f.value = d.value(f, Known)
		}
		d.tellIn(f, d.p.facts[rel].update)
		return
	}
	if rel == Meal && d.r.Float64() < 0.4 && d.tellList() {
		return
	}
	for range 20 {
		f := d.fact(rel, Known)
		if rel == Meal && d.named.en != "" && d.r.Float64() < 0.5 { // stay with whom the story speaks of
			f.k1 = d.named
		}
		if rel == Owner && d.r.Float64() < 0.8 { // own a box whose code is told
			if c := d.known(Code); c != nil {
				f.owned = [2]word{c.k1, c.k2}
				f.value = d.value(f, Known)
			}
		}
		if o := d.codeless(); rel == Code && o != nil && d.r.Float64() < 0.6 { // the code of a box that somebody owns
			f.k1, f.k2 = o.owned[0], o.owned[1]
		}
		if d.byID[f.id()] != nil {
			continue
		}
		words := d.p.facts[rel]
		switch x := d.r.Float64(); {
		case x < 0.3 && len(words.back) > 0:
			d.tellIn(f, words.back)
		case x < 0.75 && rel == Meal && d.named == f.k1:
			d.tellIn(f, words.pronoun)
		default:
			d.tellIn(f, words.tell)
		}
		return
	}
	d.sentence(d.filler())
}

// known is a fact of a relation that the document has told, or nil.
func (d *draft) known(rel Relation) *told {
	var of []*told
	for _, t := range d.told {
		if t.rel == rel {
			of = append(of, t)
		}
	}
	if len(of) == 0 {
		return nil
	}
	return pick(d.r, of)
}

// codeless is an owner of a box whose code is not told, or nil.
func (d *draft) codeless() *told {
	for _, t := range d.told {
		if t.rel == Owner && d.byID[d.code(t).id()] == nil {
			return t
		}
	}
	return nil
}

func (d *draft) tellIn(f fact, templates []string) {
	s := d.tell(f, templates)
	if s.value.From == 0 && (d.b.Len() == 0 || strings.HasSuffix(d.b.String(), "\n")) { // answers begin with a space: so must their source
		d.sentence(d.filler())
	}
	at := d.sentence(s.text).From
	t := &told{fact: f, source: []Span{s.value.shift(at)}}
	d.note(s, at)
	if key := s.key(); key.From > s.value.To {
		t.source = append(t.source, key.shift(at))
	} else {
		t.prefix = strings.TrimSuffix(s.text[:s.value.From], " ")
	}
	switch f.rel {
	case Meal, Pet, Home, Owner:
		d.named = f.k1
		if s.pronoun.To == 0 {
			d.name = s.keys[0].shift(at)
		}
	case Place, Finder: // they may name somebody else
		d.named = word{}
	}
	d.remember(t)
}

// note adds a told fact to the document's list.
func (d *draft) note(s filled, at int) {
	keys := shifted(s.keys, at)
	if s.pronoun.To > 0 {
		keys = append([]Span{d.name}, keys...)
	}
	d.all = append(d.all, Told{s.value.shift(at), keys})
}

// shifted are the keys that there are.
func shifted(keys [2]Span, at int) []Span {
	var out []Span
	for _, k := range keys {
		if k.To > 0 {
			out = append(out, k.shift(at))
		}
	}
	return out
}

func (d *draft) remember(t *told) {
	if old := d.byID[t.id()]; old != nil {
		*old = *t
		return
	}
	d.byID[t.id()] = t
	d.told = append(d.told, t)
}

// tellList tells several meals of somebody who has eaten nothing yet.
func (d *draft) tellList() bool {
	f := d.fact(Meal, Known)
	for _, t := range times {
		g := f
		g.k2 = t
		if d.byID[g.id()] != nil {
			return false
		}
	}
	list := d.sameDay(f, 1+d.r.IntN(3))
	text, spans := d.meals(list)
	at := d.sentence(text).From
	for i, f := range list {
		t := &told{fact: f, source: []Span{spans[i].value.shift(at)}}
		if key := spans[i].key(); key.From > spans[i].value.From {
			t.source = append(t.source, key.shift(at))
		}
		d.note(spans[i], at)
		d.remember(t)
	}
	d.named, d.name = f.k1, spans[0].keys[0].shift(at)
	return true
}

// CountWords estimates the tokens of a text in the built-in model: one for each word, digit and mark, one for the space
// before a number, and 29 for 64 Chinese characters (measured on its tokenizer).
func CountWords(s string) int {
	n, han, inWord, last := 0, 0, false, rune(0)
	for _, r := range s {
		if last == ' ' && '0' <= r && r <= '9' {
			n++
		}
		last = r
		switch {
		case r < utf8.RuneSelf && unicode.IsLetter(r):
			if !inWord {
				n++
			}
			inWord = true
			continue
		case unicode.Is(unicode.Han, r):
			han++
		case !unicode.IsSpace(r) || r == '\n':
			n++
		}
		inWord = false
	}
	return n + (han*29+63)/64
}
