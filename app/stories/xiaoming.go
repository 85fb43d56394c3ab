package stories

import "math/rand/v2"

// XiaoMing is the sentence of the lessons in every form: five triples of foods in all orders, a question for each time of
// day. Of the 90 questions of a language a reader that looks at the words alone, not at the times, gets a third right.
func XiaoMing(lang string) []Needle {
	w := newWriter(lang, rand.New(rand.NewPCG(0, 0)))
	name := names[12]
	times := [3]word{times[0], times[1], times[3]} // morning, noon, evening
	triples := [5][3]word{
		{foods[0], foods[1], foods[2]}, // bread, noodles, a sandwich
		{foods[3], foods[9], foods[15]},
		{foods[4], foods[6], foods[12]},
		{foods[27], foods[5], foods[11]},
		{foods[13], foods[10], foods[20]},
	}
	var out []Needle
	for _, foods := range triples {
		for _, order := range [6][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
			meals := make([]fact, 3)
			for i, j := range order {
				meals[i] = fact{rel: Meal, k1: name, k2: times[i], value: foods[j].in(lang)}
			}
			text, spans := w.mealList(meals, lang == "zh")
			for i, f := range meals {
				out = append(out, Needle{
					Lang: lang, Kind: Kind{Meal, List}, Text: text, Question: w.fill(w.p.facts[Meal].ask[0], w.bind(f)).text, Answer: f.value,
					Value: spans[i].value, Sentence: Span{0, len(text)}, Key: spans[i].key(),
				})
			}
		}
	}
	return out
}
