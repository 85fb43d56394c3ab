package stories

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// Relation is what a fact is about. Its keys say which fact it is and its value is what a question asks for.
type Relation uint8

// The relations, with their keys and their value.
const (
	Meal   Relation = iota // name, time → food
	Code                   // colour, box → four digits
	Place                  // object → side and spot
	Pet                    // name → colour and animal
	Home                   // name → city
	Finder                 // toy → name
	Owner                  // name → colour and box: the first half of a two-step question
	relations
)

// Form is how the answer can be found.
type Form uint8

// The forms of questions.
const (
	Plain   Form = iota // the keys stand before the value
	Back                // the value stands before (some of) the keys: "ate noodles at noon"
	List                // several facts share one sentence
	Changed             // two sentences give a value and the later one holds
	Untold              // the story does not say
	TwoStep             // one fact gives the key of another
)

// Kind is a kind of question.
type Kind struct {
	Relation Relation
	Form     Form
}

var (
	relationNames = [...]string{"meal", "code", "place", "pet", "home", "finder", "owner"}
	formNames     = [...]string{"plain", "back", "list", "changed", "untold", "two-step"}
)

func (k Kind) String() string { return relationNames[k.Relation] + "/" + formNames[k.Form] }

// ParseKind is the inverse of String.
func ParseKind(s string) (Kind, error) {
	for _, k := range Kinds() {
		if k.String() == s {
			return k, nil
		}
	}
	return Kind{}, fmt.Errorf("stories: kind: there is no %q", s)
}

// Kinds lists all kinds of questions that a story can hold.
func Kinds() []Kind {
	var out []Kind
	for r := Meal; r < Owner; r++ {
		out = append(out, Kind{r, Plain}, Kind{r, Back})
		if r != Pet && r != Finder { // nobody swaps a pet, and what is found is found
			out = append(out, Kind{r, Changed})
		}
		out = append(out, Kind{r, Untold})
	}
	return append(out, Kind{Meal, List}, Kind{Code, TwoStep})
}

// Span is a range of bytes of a text.
type Span struct{ From, To int }

func (s Span) shift(n int) Span { return Span{s.From + n, s.To + n} }

// In is the text of the span.
func (s Span) In(text string) string { return text[s.From:s.To] }

// Split says which words and wordings a story may use.
type Split uint8

// The splits.
const (
	Known       Split = iota // what training uses
	NewWords                 // what is asked for is made of words that training never used in that role
	NewWordings              // what is asked for is told and asked in sentences that training never used
)

// wording is how a relation is told and asked.
type wording struct{ tell, pronoun, back, update, ask, held, heldAsk []string }

// phrases are the wordings of a language.
type phrases struct {
	space, stop, list, lastOfList, untold string
	he, she, his, her                     string
	ask, answer, recall                   string
	again                                 [2]string
	food, place, pet                      string
	facts                                 map[Relation]wording
	filler                                []string
}

func phrasesOf(lang string) *phrases {
	if lang == "zh" {
		return &chinesePhrases
	}
	return &englishPhrases
}

// fact is one thing that a story may tell.
type fact struct {
	rel    Relation
	k1, k2 word
	value  string
	owned  [2]word // of Owner: the keys of the code
}

// id names the question that the fact answers.
func (f fact) id() string { return fmt.Sprintf("%d %s %s", f.rel, f.k1.en, f.k2.en) }

// writer draws words and writes sentences in one language.
type writer struct {
	r        *rand.Rand
	lang     string
	p        *phrases
	strange  float64  // share of roles that strangers play, for training
	invented []string // words that do not exist and were used
}

func newWriter(lang string, r *rand.Rand) *writer {
	return &writer{r: r, lang: lang, p: phrasesOf(lang)}
}

func pick[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

// draw picks a word that may play its role: one of training, or one held back where the split asks for it and the role has any.
// Strangers play any role but that of a time.
func (w *writer) draw(list []word, split Split) word {
	if w.strange > 0 && split == Known && &list[0] != &times[0] && w.r.Float64() < w.strange {
		return w.stranger(list)
	}
	for tries := 0; ; tries++ {
		x := pick(w.r, list)
		if x.held == (split == NewWords) || split == NewWords && tries > 200 && !x.held {
			return x
		}
	}
}

// fact draws a fact of a relation.
func (w *writer) fact(rel Relation, split Split) fact {
	f := fact{rel: rel}
	switch rel {
	case Meal:
		f.k1, f.k2 = w.draw(names, split), w.draw(times, split)
	case Code:
		f.k1, f.k2 = w.draw(colours, split), w.draw(boxes, split)
	case Place:
		f.k1 = w.draw(objects, split)
	case Pet, Home:
		f.k1 = w.draw(names, split)
	case Finder:
		f.k1 = w.draw(toys, split)
	case Owner:
		f.k1, f.owned = w.draw(names, split), [2]word{w.draw(colours, split), w.draw(boxes, split)}
	}
	f.value = w.value(f, split)
	return f
}

// value draws a value for a fact.
func (w *writer) value(f fact, split Split) string {
	one := func(slot string, list []word) map[string]string {
		return map[string]string{slot: w.draw(list, split).in(w.lang)}
	}
	switch f.rel {
	case Meal:
		return w.fill(w.p.food, one("food", foods)).text
	case Code:
		return fmt.Sprintf("%04d", w.r.IntN(10000))
	case Place:
		return w.fill(w.p.place, one("spot", spots)).text
	case Pet:
		return w.fill(w.p.pet, one("colour", colours)).text
	case Home:
		return w.draw(cities, split).in(w.lang)
	case Finder:
		return w.draw(names, split).in(w.lang)
	}
	return f.owned[0].in(w.lang) + w.p.space + f.owned[1].in(w.lang)
}

// filled is a sentence and where the value and the keys stand in it; a span is empty where the sentence has none.
type filled struct {
	text    string
	value   Span
	keys    [2]Span
	pronoun Span // stands for the first key
}

// key is the key that comes last.
func (f filled) key() Span {
	if f.keys[1].To > f.keys[0].To {
		return f.keys[1]
	}
	return f.keys[0]
}

// fill writes a template: its names are looked up in bind first and drawn from the lexicon otherwise.
func (w *writer) fill(template string, bind map[string]string) filled {
	var out filled
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(template, "{")
		b.WriteString(before)
		if !ok {
			out.text = b.String()
			return out
		}
		name, after, _ := strings.Cut(rest, "}")
		template = after
		name, capital := strings.CutSuffix(name, "^")
		text, bound := bind[name]
		if !bound {
			text = pick(w.r, slots[name]).in(w.lang)
		}
		if capital {
			text = strings.ToUpper(text[:1]) + text[1:]
		}
		span := Span{b.Len(), b.Len() + len(text)}
		switch name {
		case "v":
			out.value = span
		case "1":
			out.keys[0] = span
		case "2":
			out.keys[1] = span
		case "p":
			out.pronoun = span
		}
		b.WriteString(text)
	}
}

// bind gives a fact's words their names in templates.
func (w *writer) bind(f fact) map[string]string {
	return map[string]string{"1": f.k1.in(w.lang), "2": f.k2.in(w.lang), "v": f.value, "p": w.pronoun(f.k1), "name": w.draw(names, Known).in(w.lang)}
}

func (w *writer) pronoun(name word) string {
	if name.she {
		return w.p.she
	}
	return w.p.he
}

// tell writes a fact in one of the templates.
func (w *writer) tell(f fact, templates []string) filled {
	return w.fill(pick(w.r, templates), w.bind(f))
}

// question asks for a fact.
func (w *writer) question(f fact, split Split) filled {
	t := w.p.facts[f.rel].ask
	if split == NewWordings {
		t = w.p.facts[f.rel].heldAsk
	}
	return w.fill(pick(w.r, t), w.bind(f))
}

// filler is a sentence that tells nothing anyone asks for.
func (w *writer) filler() string { return w.fill(pick(w.r, w.p.filler), nil).text }

// meals writes several meals of one person in a sentence and gives the place of each value and of its time.
func (w *writer) meals(list []fact) (string, []filled) {
	return w.mealList(list, w.lang == "zh" || w.r.IntN(3) == 0)
}

// mealList is meals with the times before or behind the foods; Chinese has them before.
func (w *writer) mealList(list []fact, timesFirst bool) (string, []filled) {
	var b strings.Builder
	spans := make([]filled, len(list))
	var eater Span
	put := func(s string) Span { b.WriteString(s); return Span{b.Len() - len(s), b.Len()} }
	for i, f := range list {
		name, time := f.k1.in(w.lang), f.k2.in(w.lang)
		if i > 0 && i == len(list)-1 {
			put(w.p.lastOfList)
		} else if i > 0 {
			put(w.p.list)
		}
		switch {
		case w.lang == "zh":
			if i == 0 {
				eater = put(name)
			}
			spans[i].keys[1] = put(time)
			put("吃了")
			spans[i].value = put(f.value)
		case timesFirst:
			if i == 0 {
				spans[i].keys[1] = put(strings.ToUpper(time[:1]) + time[1:])
				put(", ")
				eater = put(name)
				put(" ate ")
			} else {
				spans[i].keys[1] = put(time)
				put(" ")
			}
			spans[i].value = put(f.value)
		default:
			if i == 0 {
				eater = put(name)
				put(" ate ")
			}
			spans[i].value = put(f.value)
			put(" ")
			spans[i].keys[1] = put(time)
		}
	}
	put(w.p.stop)
	for i := range spans {
		spans[i].text, spans[i].keys[0] = b.String(), eater
	}
	return b.String(), spans
}
