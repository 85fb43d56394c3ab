package stories

import "strings"

// tales is the form of little stories: a choice of wordings for each sentence (an empty one leaves it out) and questions.
type tales struct {
	lines [][]string
	asks  []taleAsk
}

type taleAsk struct{ question, answer string }

// tales writes stories with a hero until the document is full, most with questions.
func (d *draft) tales() {
	form := &englishTales
	if d.lang == "zh" {
		form = &chineseTales
	}
	for length := 0; d.b.Len() == 0 || d.words+length < d.limit; {
		begun := d.words
		if d.b.Len() > 0 {
			d.put("\n\n")
		}
		hero, friend := d.draw(names, Known), d.draw(names, Known)
		for friend == hero {
			friend = d.draw(names, Known)
		}
		bind := map[string]string{
			"hero": hero.in(d.lang), "friend": friend.in(d.lang), "he": d.pronoun(hero), "his": d.p.his,
			"found": pick(d.r, toys).in(d.lang), "hue": d.draw(colours, Known).in(d.lang), "meal": d.draw(foods, Known).in(d.lang),
		}
		if hero.she {
			bind["his"] = d.p.her
		}
		start := d.b.Len()
		for _, choices := range form.lines {
			if s := d.fill(pick(d.r, choices), bind).text; s != "" {
				d.sentence(s)
			}
		}
		for _, i := range d.r.Perm(len(form.asks))[:d.r.IntN(4)] {
			answer := d.fill(form.asks[i].answer, bind).text
			var source []Span
			if at := strings.Index(d.b.String()[start:], answer); at >= 0 {
				source = []Span{{start + at, start + at + len(answer)}}
			}
			d.exchange(d.fill(form.asks[i].question, bind), answer, Mark{Role: Answer, Source: source})
		}
		length = d.words - begun
	}
}

// echoShare is the share of lists that are said twice without a word about it.
const echoShare = 0.4

// echo writes words in any order, those that do not exist among them, and at once the same again. Of the second time only
// the first word cannot be known.
func (d *draft) echo() {
	spans := make([]Span, 5+d.r.IntN(max(1, min(36, (d.limit-d.words)*2/5-5))))
	for i := range spans {
		item := pick(d.r, pick(d.r, echoed)).in(d.lang)
		if d.r.IntN(4) == 0 {
			item = d.invent()
			d.invented = append(d.invented, item)
		}
		if i > 0 {
			item = d.p.space + item
		}
		spans[i] = d.put(item)
	}
	for i, s := range spans {
		if i == 0 {
			d.put(d.p.space + s.In(d.b.String()))
			continue
		}
		m := Mark{Role: Copied, Source: []Span{s}}
		m.Span = d.put(s.In(d.b.String()))
		d.marks = append(d.marks, m)
	}
	d.put(d.p.stop)
}

// echoed are the words of echoes: all that are one word.
var echoed = append([][]word{moods, folk, feelings}, roles...)

// lists writes lists of words or digits, each said again.
func (d *draft) lists() {
	var pool []word
	for _, list := range [][]word{foods, objects, colours, animals, cities, toys, spots, names} {
		pool = append(pool, list...)
	}
	for d.b.Len() == 0 || d.words+14 < d.limit {
		if d.b.Len() > 0 {
			d.put("\n")
		}
		if d.r.Float64() < echoShare {
			d.echo()
			continue
		}
		d.put(strings.TrimSuffix(d.p.again[0], " "))
		digits := d.r.IntN(10) < 3
		n := 3 + d.r.IntN(max(1, min(22, (d.limit-d.words)/4-4)))
		spans := make([]Span, n)
		for i := range spans {
			item := string(rune('0' + d.r.IntN(10)))
			if !digits {
				item = pick(d.r, pool).in(d.lang)
			}
			if i > 0 && d.lang == "zh" {
				d.put(d.p.list)
			}
			spans[i] = d.put(d.p.space + item)
		}
		d.put(d.p.stop)
		d.put(d.p.again[1])
		for i, s := range spans {
			if i > 0 && d.lang == "zh" {
				d.put(d.p.list)
			}
			m := Mark{Role: Copied, Source: []Span{s}}
			m.Span = d.put(s.In(d.b.String()))
			d.marks = append(d.marks, m)
		}
		d.put(d.p.stop)
	}
}
