// Package stories holds the short stories that the built-in model can read: a few facts of one kind among sentences that
// say nothing, in English and in Chinese, and the questions that they answer. The wordings are the ones the model was
// trained on; the stories themselves are new. The package is pure.
package stories

// Story is a text with questions about it.
type Story struct {
	ID   string // the same in all languages; the title is the catalogue's message "preset." + ID
	Lang string
	Text string
	Asks []Ask // the first is the one to start with
}

// Ask is a question and its answer, which stands in the text word for word.
type Ask struct{ Question, Answer string }

// All lists the stories of a language in the order in which the page offers them; the first is the one it starts with.
// A language without stories has none.
func All(lang string) []Story {
	switch lang {
	case "en":
		return english
	case "zh":
		return chinese
	}
	return nil
}

// Find is the story of an id.
func Find(lang, id string) (Story, bool) {
	for _, s := range All(lang) {
		if s.ID == id {
			return s, true
		}
	}
	return Story{}, false
}

// Questions are the story's questions in order.
func (s Story) Questions() []string {
	q := make([]string, len(s.Asks))
	for i, a := range s.Asks {
		q[i] = a.Question
	}
	return q
}
