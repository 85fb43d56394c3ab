//go:build !js

package core

import (
	"slices"
	"testing"

	"kvlens/wasm/proto"
	"kvlens/web/lab/golden"
)

// TestSmolLM2Chat: chat turns reach the model as the tokens of the reference's template, the first as well as those that
// go on from an answer.
func TestSmolLM2Chat(t *testing.T) {
	manifest := golden.SmolLM2(t)
	p := newPage(t, hooks{})
	p.ask(proto.Open{Manifest: manifest, Backend: "ref"}).ok()
	say := func(text, system string, on bool, answer []uint32) *outcome {
		t.Helper()
		return p.ask(proto.Generate{
			Mode: proto.Chat, Text: text, System: system, Continue: on, Forced: answer, Max: uint32(max(1, len(answer))),
		}).ok()
	}
	first, later := 0, 0
	for _, c := range golden.Chat(t) {
		if !c.AddGeneration {
			continue
		}
		var ids []uint32
		for _, id := range c.Ordinary() {
			ids = append(ids, uint32(id))
		}
		system, turns := "", c.Messages
		if turns[0].Role == "system" {
			system, turns = turns[0].Content, turns[1:]
		}
		switch {
		case len(turns) == 1 && turns[0].Role == "user" && turns[0].Content != "" && (system != "" || len(c.Messages) == 1):
			first++
			if o := say(turns[0].Content, system, false, nil); !slices.Equal(o.prompt.IDs, ids) {
				t.Errorf("%q: the prompt is %d, want %d", c.Messages, o.prompt.IDs, ids)
			}
		case len(turns) == 3 && turns[1].Role == "assistant":
			later++
			read := say(turns[0].Content, system, false, nil).prompt.IDs
			if !slices.Equal(read, ids[:min(len(read), len(ids))]) {
				t.Fatalf("%q: the first prompt is %d, want the start of %d", c.Messages, read, ids)
			}
			// The model is made to say what it says in the conversation, up to the end of its turn, <|im_end|>.
			ids = ids[len(read):]
			end := slices.Index(ids, 2) + 1
			o := say(turns[0].Content, system, false, ids[:end])
			if o.done.Reason != proto.ReasonStopID || !slices.Equal(o.tokens(), ids[:end]) {
				t.Errorf("%q: the answer is %d, %+v, want %d", c.Messages, o.tokens(), o.done, ids[:end])
			}
			if o := say(turns[2].Content, "", true, nil); !slices.Equal(o.prompt.IDs, ids[end:]) {
				t.Errorf("%q: the later prompt is %d, want %d", c.Messages, o.prompt.IDs, ids[end:])
			}
		}
	}
	if first < 4 || later < 2 {
		t.Errorf("%d first and %d later turns were compared", first, later)
	}
}
