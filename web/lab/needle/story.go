package needle

import (
	"fmt"

	"kvlens/app/stories"
	"kvlens/wasm/chat"
	"kvlens/wasm/tokenizer"
)

// NewStory writes the story of a spec as a prompt. What it does not tell is no needle.
func NewStory(t *tokenizer.Tokenizer, spec stories.Spec) (*Sample, error) {
	spec.Count = func(text string) int { return len(t.Encode(text)) }
	n, err := stories.NewNeedle(spec)
	if err != nil {
		return nil, err
	}
	s := &Sample{
		Name: fmt.Sprintf("%s %v at %.1f of %d", n.Lang, n.Kind, n.Depth, spec.Tokens),
		IDs:  chat.Raw(t, n.Prompt()), Answer: n.Answer, Exact: true,
	}
	return s, s.locate(t, n.Sentence.In(n.Text), n.Answer)
}

// Told are the kinds of questions whose answer the story tells.
func Told() []stories.Kind {
	var out []stories.Kind
	for _, k := range stories.Kinds() {
		if k.Form != stories.Untold {
			out = append(out, k)
		}
	}
	return out
}
