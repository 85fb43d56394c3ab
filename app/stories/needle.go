package stories

import (
	"errors"
	"math/rand/v2"
	"strings"
)

// Spec asks for a story with one needle: one fact that answers the story's question.
type Spec struct {
	Lang        string
	Kind        Kind
	Tokens      int     // length of the story, its question and the words around them, at most
	Depth       float64 // where the needle stands: 0 at the start of the story, 1 at its end
	Distractors int     // other facts, half of them of the needle's relation; 0 chooses by length, less than 0 means none
	Split       Split
	Seed        uint64
	Count       func(string) int // tokens of a piece of text; nil counts words
}

// Needle is a story with its question. The answer stands in the text once, at Value, unless the story does not tell it.
type Needle struct {
	Lang             string
	Kind             Kind
	Text             string
	Question, Answer string
	Value, Sentence  Span    // the answer and its sentence; both empty where the story does not tell
	Key              Span    // the last key of the answer
	Depth            float64 // where the sentence begins, as a share of what stands around it
}

// ErrSpec is returned for a story that cannot be written.
var ErrSpec = errors.New("stories: spec")

// NewNeedle writes the story of a spec. The same spec gives the same story everywhere.
func NewNeedle(s Spec) (Needle, error) {
	known := false
	for _, k := range Kinds() {
		known = known || k == s.Kind
	}
	if !known || s.Lang != "en" && s.Lang != "zh" || !(s.Depth >= 0 && s.Depth <= 1) || s.Tokens < 32 || s.Tokens > 1<<16 || s.Split > NewWordings {
		return Needle{}, ErrSpec
	}
	if s.Count == nil {
		s.Count = CountWords
	}
	w := newWriter(s.Lang, rand.New(rand.NewPCG(s.Seed, 0x6e6565646c65)))
	p := w.plan(s)
	room := s.Tokens - 2 - s.Count(w.p.ask+p.question+w.p.answer) - s.Count(p.main)
	others, length := w.surround(p, s, room)

	// The needle goes where the sentences before it add up to its depth.
	at, sum := 0, 0
	for ; at < len(others); at++ {
		l := s.Count(w.p.space + others[at])
		if float64(sum)+float64(l)/2 > s.Depth*float64(length) {
			break
		}
		sum += l
	}
	n := Needle{Lang: s.Lang, Kind: s.Kind, Question: p.question, Answer: p.answer}
	if length > 0 {
		n.Depth = float64(sum) / float64(length)
	}
	if p.before != "" && s.Kind.Form == Changed { // what was true before is told before
		others = insert(others, w.r.IntN(at+1), p.before)
		at++
	} else if p.before != "" {
		j := w.r.IntN(len(others) + 1)
		others = insert(others, j, p.before)
		if j <= at {
			at++
		}
	}
	if p.main == "" {
		n.Text = strings.Join(others, w.p.space)
		return n, nil
	}
	n.Text = strings.Join(insert(others, at, p.main), w.p.space)
	start := len(strings.Join(others[:at], w.p.space))
	if at > 0 {
		start += len(w.p.space)
	}
	n.Sentence, n.Value, n.Key = Span{start, start + len(p.main)}, p.value.shift(start), p.key.shift(start)
	return n, nil
}

func insert(list []string, at int, s string) []string {
	out := append([]string(nil), list[:at]...)
	return append(append(out, s), list[at:]...)
}

// plan is what a needle's story must tell, and what else in it would spoil the question.
type plan struct {
	question, answer string
	main             string // the needle's sentence
	value, key       Span
	before           string          // what the question also needs: an older value, or the key of the needle
	taken            map[string]bool // facts that nothing else may tell
}

func (w *writer) plan(s Spec) plan {
	f := w.fact(s.Kind.Relation, s.Split)
	words := w.p.facts[s.Kind.Relation]
	p := plan{question: w.question(f, s.Split).text, answer: f.value, taken: map[string]bool{f.id(): true}}
	templates := words.tell
	if s.Split == NewWordings {
		templates = words.held
	}
	switch s.Kind.Form {
	case Untold:
		p.answer = w.p.untold
		return p
	case Back:
		templates = words.back
	case Changed:
		templates = words.update
		old := f
		for old.value == f.value {
			old.value = w.value(f, s.Split)
		}
		p.before = w.tell(old, words.tell).text
	case TwoStep:
		owner := w.fact(Owner, s.Split)
		owner.owned = [2]word{f.k1, f.k2}
		owner.value = w.value(owner, s.Split)
		p.question = w.question(owner, s.Split).text
		p.before = w.tell(owner, w.p.facts[Owner].tell).text
		p.taken[owner.id()], p.taken[owner.value] = true, true
	case List:
		list := w.sameDay(f, 1+w.r.IntN(3))
		text, spans := w.meals(list)
		for i, o := range list {
			p.taken[o.id()] = true
			if o.k2 == f.k2 {
				p.main, p.value, p.key = text, spans[i].value, spans[i].key()
			}
		}
		return p
	}
	t := w.tell(f, templates)
	p.main, p.value, p.key = t.text, t.value, t.key()
	return p
}

// sameDay gives the eater of a meal other meals at other times, in any order.
func (w *writer) sameDay(f fact, others int) []fact {
	list := []fact{f}
	eaten := map[string]bool{f.value: true}
	for _, i := range w.r.Perm(len(times)) {
		if times[i] == f.k2 || len(list) > others {
			continue
		}
		o := f
		for o.k2 = times[i]; eaten[o.value]; {
			o.value = w.value(o, Known)
		}
		eaten[o.value] = true
		list = append(list, o)
	}
	w.r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// surround writes other facts and filler up to a length, in any order. None of it gives the answer.
func (w *writer) surround(p plan, s Spec, room int) (out []string, length int) {
	add := func(sentence string) bool {
		l := s.Count(w.p.space + sentence)
		if length+l > room {
			return false
		}
		out, length = append(out, sentence), length+l
		return true
	}
	if p.before != "" {
		room -= s.Count(w.p.space + p.before)
	}
	spoils := func(sentence string) bool { return s.Kind.Form != Untold && strings.Contains(sentence, p.answer) }
	distractors := s.Distractors
	if distractors == 0 {
		distractors = min(max(3, s.Tokens/64), 16)
	}
	for i, tries := 0, 0; i < distractors && tries < 20*distractors; tries++ {
		f := w.distractor(s, i)
		sentence := w.tell(f, w.p.facts[f.rel].tell).text
		if p.taken[f.id()] || f.rel == Owner && p.taken[f.value] || spoils(sentence) {
			continue
		}
		p.taken[f.id()] = true
		if !add(sentence) {
			break
		}
		i++
	}
	for tries := 0; tries < 3; {
		if sentence := w.filler(); !spoils(sentence) && !add(sentence) {
			tries++
		}
	}
	w.r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out, length
}

// distractor draws another fact: every second one of the needle's relation, and other owners among those of two steps.
func (w *writer) distractor(s Spec, i int) fact {
	rel := s.Kind.Relation
	if i%2 == 1 {
		rel = Relation(w.r.IntN(int(Owner)))
	}
	if s.Kind.Form == TwoStep && i%3 == 1 {
		rel = Owner
	}
	split := Known
	if s.Split == NewWords && w.r.IntN(2) == 0 {
		split = NewWords
	}
	return w.fact(rel, split)
}

// Prompt is the text that a model goes on from to answer the question, as the built-in model was trained.
func (n Needle) Prompt() string {
	p := phrasesOf(n.Lang)
	return n.Text + p.ask + n.Question + p.answer
}
