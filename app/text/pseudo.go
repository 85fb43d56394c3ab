package text

import "strings"

// accents are letters that look like their originals and are none.
var accents = strings.NewReplacer(
	"a", "á", "c", "ç", "e", "é", "i", "í", "l", "ĺ", "n", "ń", "o", "ó", "r", "ŕ", "s", "ś", "t", "ť", "u", "ú", "y", "ý", "z", "ž",
	"A", "Á", "C", "Ç", "E", "É", "I", "Í", "L", "Ĺ", "N", "Ń", "O", "Ó", "R", "Ŕ", "S", "Ś", "T", "Ť", "U", "Ú", "Y", "Ý", "Z", "Ž",
)

// Pseudo is the catalogue in a language that nobody speaks: accented, in brackets and two fifths longer. What stays
// plain on a page in it does not come from the catalogue, and what is cut off would be cut off in a wordy language.
func (c *Catalogue) Pseudo() *Catalogue {
	p := &Catalogue{lang: c.lang, messages: make(map[string][]part, len(c.messages))}
	for key, parts := range c.messages {
		long := 0
		for _, x := range parts {
			long += len([]rune(x.text))
		}
		out := append([]part{{text: "["}}, pseudo(parts)...)
		p.messages[key] = append(out, part{text: strings.Repeat("·", (long*2+4)/5) + "]"})
	}
	return p
}

func pseudo(parts []part) []part {
	out := make([]part, len(parts))
	for i, x := range parts {
		if x.kind == literal {
			x.text = accents.Replace(x.text)
		}
		x.one, x.many = pseudo(x.one), pseudo(x.many)
		out[i] = x
	}
	return out
}
