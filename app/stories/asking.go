package stories

// ask asks for something that was told and not yet asked, or now and then for something that was not told. It reports
// whether there was anything to ask.
func (d *draft) ask() bool {
	var open []*told
	for _, t := range d.told {
		if !t.asked && (t.rel != Owner || d.byID[d.code(t).id()] != nil) {
			open = append(open, t)
		}
	}
	if len(open) == 0 {
		return false
	}
	t := pick(d.r, open)
	if d.r.Float64() < 0.15 && d.askUntold(t.rel) {
		return true
	}
	t.asked = true
	switch {
	case t.rel == Owner:
		code := d.byID[d.code(t).id()]
		d.exchange(d.question(t.fact, Known), code.value, Mark{Role: Answer, Source: code.source, Via: t.source})
	case t.prefix != "" && d.r.Float64() < 0.25:
		d.put(d.p.recall + t.prefix)
		d.reply(t.value, Mark{Role: Copied, Source: t.source})
	default:
		d.exchange(d.question(t.fact, Known), t.value, Mark{Role: Answer, Source: t.source})
	}
	return true
}

// code is the fact that an owner's box has a code.
func (d *draft) code(owner *told) fact {
	return fact{rel: Code, k1: owner.owned[0], k2: owner.owned[1]}
}

// askUntold asks for a fact of the relation that was not told, if there is one: half the time about someone the story knows.
func (d *draft) askUntold(rel Relation) bool {
	for range 10 {
		f := d.fact(rel, Known)
		if t := d.known(rel); rel == Meal && d.r.IntN(2) == 0 {
			f.k1 = t.k1
		}
		told := d.byID[f.id()] != nil
		if rel == Owner && told {
			told = d.byID[d.code(d.byID[f.id()]).id()] != nil
		}
		if !told {
			d.exchange(d.question(f, Known), d.p.untold, Mark{Role: Answer})
			return true
		}
	}
	return false
}

func (d *draft) exchange(question filled, answer string, m Mark) {
	d.put(d.p.ask)
	m.Keys = shifted(question.keys, d.put(question.text).From)
	d.put(d.p.answer)
	d.reply(answer, m)
}

func (d *draft) reply(text string, m Mark) {
	m.Span = d.put(d.p.space + text)
	d.marks = append(d.marks, m)
	d.put(d.p.stop)
}
