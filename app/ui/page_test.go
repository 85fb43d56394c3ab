//go:build !js

package ui

import (
	"html"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/maxence-charriere/go-app/v10/pkg/app"

	"kvlens/app/engineclient"
	"kvlens/app/state"
	"kvlens/app/stories"
	"kvlens/app/text"
	"kvlens/cache/policy"
	"kvlens/wasm/proto"
)

func words(t *testing.T, lang string) *text.Catalogue {
	t.Helper()
	c, err := text.Load(lang)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Names that join a prefix to a key must all have their message.
func TestEveryFamilyIsWhole(t *testing.T) {
	c := words(t, "en")
	need := func(key string) {
		if !c.Has(key) {
			t.Errorf("the catalogue lacks %s", key)
		}
	}
	for _, code := range state.Codes() {
		need("problem." + state.CodeName(code))
		need("problem." + state.CodeName(code) + ".hint")
	}
	for i := range state.Actions {
		need("act." + state.Action(i).String())
	}
	for s := proto.StageStore; s <= proto.StageRestore; s++ {
		need("stage." + state.StageName(s))
	}
	for _, s := range []proto.Stage{proto.StageFetch, proto.StageVerify, proto.StageLoad} {
		need("stage." + state.StageName(s) + ".of")
	}
	for p := state.Starting; p <= state.Comparing; p++ {
		need("phase." + p.String())
	}
	for r := proto.ReasonNone; r <= proto.ReasonFull; r++ {
		need("end." + state.ReasonName(r))
	}
	for k := state.Weights; k < state.Kinds; k++ {
		need("kind." + k.String())
	}
	for m := proto.Raw; m <= proto.Chat; m++ {
		need("mode." + state.ModeName(m))
	}
	for _, id := range []string{"question", "another", "message", "raw"} {
		need("label." + id)
	}
	for _, k := range knobs {
		need("knob." + k.name)
		need("knob." + k.name + ".hint")
	}
	for _, b := range append([]string{"other"}, state.Backends...) {
		need("backend." + b)
		need("why.backend." + b)
	}
	for _, w := range proto.Whys {
		need("why." + w)
	}
	for d, name := range decisions {
		need("verdict.kept." + name)
		if proto.Decision(d) >= proto.DecidedScore {
			need("verdict.left." + name)
		}
		if proto.Decision(d) == proto.DecidedRule {
			need("verdict.kept." + name + ".reading")
			need("verdict.left." + name + ".reading")
		}
	}
	for _, b := range both {
		need("compare.kept." + b.key)
	}
	for _, s := range stories.All("en") {
		need("preset." + s.ID)
	}
	for _, n := range []string{"auto", "light", "dark"} {
		need("theme." + n)
	}
}

// pages are the page's states worth looking at.
func pages(c *text.Catalogue) map[string]*Home {
	offers := []state.Offer{{Manifest: "a.json", ID: "a", BuiltIn: true, Size: 1 << 20, Licence: "MIT"}, {Manifest: "b/m.json", ID: "b", Name: "B", Size: 1 << 20, Stored: 1 << 10, Licence: "MIT"}}
	opened := proto.Opened{
		Layers: 4, Heads: 6, KVHeads: 2, HeadDim: 32, TokenBytes: 1024, Backend: "cpu", BackendWhy: proto.WhyNoWebGPU, BackendDetail: "x",
		Modes: []uint8{uint8(proto.Story), uint8(proto.Chat), uint8(proto.Raw)},
		State: proto.State{Cap: 1 << 20, Room: 5, Reserved: 1 << 20, Ledger: []proto.LedgerRow{{Kind: 0, Logical: 5, Allocated: 1 << 20, Peak: 1 << 20}, {Kind: 2, Logical: 1, Allocated: 9000, Peak: 9000}}},
	}
	step := proto.Step{Position: 2, Rows: make([]uint8, 4*6*2), RowTokens: 2, Text: "§", Token: 3, Prob: 0.5, Millis: 1, TopIDs: []uint32{3, 4}, TopProbs: []float32{0.5, 0.1}, TopTexts: []string{"§", "¶"}}
	contrast := proto.Contrast{Recipe: "snapkv", Tokens: 1, Full: 9000, Cap: 5000, Peak: 6000, Rate: 5, Retained: make([]float32, 24), Kept: proto.Kept{
		Tokens: 1, Layers: 1, KVHeads: 2, Budget: 1, Bits: []uint8{1, 0}, Reasons: []uint8{1, 0},
	}}
	other := contrast
	other.Run = 1
	script := []struct {
		name  string
		event state.Event
	}{
		{"prerendered", state.Dismiss{}},
		{"opening", state.Start{Options: state.Options{Notices: []state.Notice{{Key: "notice.lang", Args: []string{"§"}}}}, Offers: offers}},
		{"fetching", state.Progressed{Progress: proto.Progress{Stage: proto.StageFetch, Done: 5, Total: 10, Resumed: 1, Refetched: 2}, Now: 1}},
		{"quiet", state.Tick{Now: 60_000}},
		{"chat", state.Opened{Opened: opened}},
		{"raw", state.SetMode{Mode: proto.Raw}},
		{"story", state.SetMode{Mode: proto.Story}},
		{"listed", state.Listed{Models: proto.Models{Quota: 9, Usage: 1, OPFS: true}}},
		{"reading", state.Run{Question: "§", Now: 1}},
		{"answering", state.Stepped{Steps: []proto.Step{step}, Now: 2}},
		{"picked", state.PickHead{Head: state.Head{Layer: 1, Head: 4}}},
		{"measured", state.Measured{State: proto.State{Cap: 1 << 20, Stored: 9, Position: 9, Context: 5, PrefillRate: 5, DecodeRate: 6}}},
		{"kept", state.Keeps{Kept: proto.Kept{
			Tokens: 1, Layers: 1, KVHeads: 2, Budget: 1, Reserve: 1, Window: 1, Published: 8, Bits: []uint8{1, 0}, Reasons: []uint8{1, 0}, Caps: []uint32{1, 2}, Recipe: "snapkv",
		}}},
		{"ended", state.Ended{Done: proto.Done{Reason: proto.ReasonMax}}},
		{"asked", state.Select{Serial: 1, Answer: true}},
		{"explained", state.Explains{Explained: proto.Explained{
			KVHead: 1, Tokens: 1, Kept: []uint8{0}, Stage: []uint8{uint8(proto.DecidedScore)}, At: []uint32{1}, Rank: []uint32{1},
			Score: []float32{1e-5}, Threshold: []float32{0.5}, Voters: []uint32{3}, Votes: []uint8{1},
		}}},
		{"compare", state.OpenCompare{Open: true}},
		{"comparing", state.StartCompare{Now: 3}},
		{"comparing prompt", state.Prompted{Prompt: proto.Prompt{IDs: []uint32{7}, PieceEnd: []uint32{1}, Text: []string{"§"}}}},
		{"compared", state.Comparisons{Tokens: []proto.Compared{{
			Text: "§", Prob: []float32{0.5, 0.5, 0.1}, KL: []float32{0, 0.5}, Agree: []uint8{1, 0}, TopTexts: []string{"§", "¶"}, Margin: []float32{1, 1, -1},
		}}}},
		{"strayed", state.Strays{Tokens: []proto.Strayed{{Run: 0, Text: "§", Same: true}, {Run: 1, Text: "¶"}}}},
		{"contrast", state.Contrasted{Contrast: contrast}},
		{"contrasts", state.Contrasted{Contrast: other}},
		{"compared all", state.Ended{}},
		{"stepped", state.Resume{Once: true, Now: 4}},
		{"stepped on", state.Ended{Done: proto.Done{Reason: proto.ReasonMax}}},
		{"back", state.GoBack{Tokens: 0}},
		{"undone", state.Ended{}},
		{"policy", state.SetMethod{Name: "snapkv"}},
		{"changed", state.Ended{}},
		{"wrapped", state.SetWrap{Name: "adakv", On: true}},
		{"rewrapped", state.Ended{}},
		{"broken", state.Failed{Failure: proto.Failure{Code: proto.CodeTooLong, Args: []string{"1", "2", "3"}, Op: "§", Msg: "§"}}},
	}
	out := map[string]*Home{}
	var epoch uint32
	ctl := newController(c, noHost{})
	for _, s := range script {
		_, effects := state.Reduce(ctl.model, s.event)
		for _, e := range effects {
			if x, ok := e.(state.Explain); ok {
				epoch = x.Epoch
			}
		}
		if x, ok := s.event.(state.Explains); ok {
			x.Epoch = epoch
			s.event = x
		}
		ctl.reduce(s.event)
		copied := *ctl
		out[s.name] = &Home{c: &copied}
	}
	return out
}

// What a page shows comes from the catalogue: in a language of brackets everything is in brackets, but for the stories,
// names, numbers and signs.
func TestEveryWordComesFromTheCatalogue(t *testing.T) {
	tags := regexp.MustCompile(`<[^>]*>`)
	labels := regexp.MustCompile(` (?:aria-label|aria-valuetext|title|placeholder)="([^"]*)"`)
	letters := regexp.MustCompile(`\pL{2,}`)
	for name, home := range pages(words(t, "en").Pseudo()) {
		page := app.HTMLString(home)
		own := map[string]bool{html.EscapeString(home.c.model.Draft.Story): true, "B": true, "a": true, "x": true, "§": true, "§\n§": true}
		for _, s := range stories.All("en") {
			for _, q := range s.Questions() {
				own[html.EscapeString(q)] = true
			}
		}
		for _, m := range policy.Methods() {
			own[m.Paper] = true
		}
		var texts []string
		for _, s := range strings.Split(tags.ReplaceAllString(page, "\x00"), "\x00") {
			texts = append(texts, strings.TrimSpace(s))
		}
		for _, m := range labels.FindAllStringSubmatch(page, -1) {
			texts = append(texts, m[1])
		}
		for _, s := range texts {
			if letters.MatchString(s) && !strings.Contains(s, "[") && !own[s] {
				t.Errorf("%s: %q does not come from the catalogue", name, s)
			}
		}
	}
}

// The page's policy forbids styles in the markup; go-app writes quotes in attributes wrongly; and a missing message
// shows itself in double brackets.
func TestMarkup(t *testing.T) {
	for _, lang := range state.Languages {
		for name, home := range pages(words(t, lang)) {
			page := app.HTMLString(home)
			for _, bad := range []string{" style=", `\"`, "⟦", "{n", "=\"false\"", "http://", "https://"} {
				for _, line := range strings.Split(page, "\n") {
					if strings.Contains(line, bad) && !strings.Contains(line, "aria-pressed=\"false\"") && !strings.Contains(line, "aria-selected=\"false\"") && !strings.Contains(line, "spellcheck=\"false\"") && !strings.Contains(line, "aria-expanded=\"false\"") {
						t.Errorf("%s, %s: %q in %s", lang, name, bad, strings.TrimSpace(line))
					}
				}
			}
			if strings.Count(page, "<h1") != 1 || strings.Count(page, "<main") != 1 {
				t.Errorf("%s, %s: want one heading and one main part", lang, name)
			}
			ids := map[string]bool{}
			for _, m := range regexp.MustCompile(` id="([^"]*)"`).FindAllStringSubmatch(page, -1) {
				if ids[m[1]] {
					t.Errorf("%s, %s: two elements have the id %s", lang, name, m[1])
				}
				ids[m[1]] = true
			}
			for _, m := range regexp.MustCompile(` (?:for|popovertarget|aria-describedby)="([^"]*)"`).FindAllStringSubmatch(page, -1) {
				if !ids[m[1]] {
					t.Errorf("%s, %s: nothing has the id %s", lang, name, m[1])
				}
			}
		}
	}
}

// Before its program runs the page can be read: the story, what this is, and nothing that pretends to work.
func TestPrerendered(t *testing.T) {
	page := app.HTMLString(NewHome(words(t, "en")))
	s := stories.All("en")[0]
	for _, want := range []string{">" + s.Text + "</textarea>", s.Asks[0].Question, "A model reads once and keeps notes"} {
		if !strings.Contains(page, html.EscapeString(want)) && !strings.Contains(page, want) {
			t.Errorf("no %q", want)
		}
	}
	if !regexp.MustCompile(`<button[^>]*id="run"[^>]*disabled|<button[^>]*disabled[^>]*id="run"`).MatchString(page) {
		t.Error("Run can be pressed before anything can run")
	}
	if err := Routes(); err != nil {
		t.Error(err)
	}
}

// The classes of the components and of the style sheet are the same.
func TestStyleSheetKnowsTheDrawings(t *testing.T) {
	css, err := os.ReadFile("../../web/static/app.css")
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, home := range pages(words(t, "en")) {
		for _, m := range regexp.MustCompile(`class="([^"]*)"`).FindAllStringSubmatch(app.HTMLString(home), -1) {
			for _, c := range strings.Fields(m[1]) {
				used[c] = true
			}
		}
	}
	for c := range used {
		if (strings.HasPrefix(c, "f-") || strings.HasPrefix(c, "b-")) && !strings.Contains(string(css), "."+c+" {") {
			t.Errorf("the style sheet has no .%s", c)
		}
	}
}

func TestInboxGathersAFrame(t *testing.T) {
	flushed := make(chan bool, 9)
	b := newInbox(func() { flushed <- true })
	b.event(1, proto.Progress{Stage: proto.StageFetch, Done: 1})
	b.event(1, proto.Progress{Stage: proto.StageFetch, Done: 2})
	b.event(1, proto.Progress{Stage: proto.StageVerify})
	b.event(2, proto.Step{Token: 1})
	b.event(2, proto.Step{Token: 2})
	b.event(3, proto.Step{Token: 3})
	b.state(engineclient.Dead)
	<-flushed
	got := b.take()
	if len(got) != 5 {
		t.Fatalf("%d messages: %+v", len(got), got)
	}
	if p := got[0].event.(proto.Progress); p.Done != 2 {
		t.Errorf("of two reports on one stage the older was kept: %+v", p)
	}
	if s := got[2].event.(steps); len(s) != 2 || s[0].Token != 1 || s[1].Token != 2 {
		t.Errorf("steps of one turn: %+v", s)
	}
	if s := got[3].event.(steps); len(s) != 1 || got[3].id != 3 || got[4].state != engineclient.Dead || got[4].event != nil {
		t.Errorf("the rest: %+v", got[3:])
	}
	if len(flushed) != 0 || b.take() != nil {
		t.Error("the inbox was not empty")
	}
}

func TestTimeline(t *testing.T) {
	turn := state.Turn{Pieces: []state.Piece{{IDs: []uint32{1, 2}}}, Answer: []state.Token{{Used: 50}, {Used: 100}}}
	prompt, answer := timeline(turn)
	if strings.Count(prompt, "M") != 1 || strings.Count(answer, "M") != 2 || !strings.Contains(answer, "v-40.0") || !strings.Contains(answer, "v-21.0") {
		t.Errorf("%s\n%s", prompt, answer)
	}
	long := state.Turn{Answer: make([]state.Token, 1001)}
	for i := range long.Answer {
		long.Answer[i].Used = uint64(i + 1)
	}
	if _, answer := timeline(long); strings.Count(answer, "M") != 201 || !strings.HasSuffix(answer, "v40.0z") { // five tokens to a bar, the last bar is the last token's
		t.Errorf("%d bars, the last %q", strings.Count(answer, "M"), answer[strings.LastIndex(answer, "M"):])
	}
	if p, a := timeline(state.Turn{}); p != "M0 0" || a != "M0 0" {
		t.Errorf("of nothing: %q, %q", p, a)
	}
}

func TestSquares(t *testing.T) {
	if got := squares(23, 25); got != "M276 0h10v10h-10zM0 12h10v10h-10z" {
		t.Errorf("%q", got)
	}
	if got := squares(5, 5); got != "M0 0" {
		t.Errorf("%q", got)
	}
}

func TestCapSteps(t *testing.T) {
	for i, percent := range state.Shares {
		if got := capStep(state.Policy{Share: percent}); got != i {
			t.Errorf("%d %% is step %d, want %d", percent, got, i)
		}
	}
	if got := capStep(state.Policy{Share: 100, Bytes: 4096}); got != len(state.Shares)-1 {
		t.Errorf("a cap in bytes is step %d", got)
	}
}

func TestVisible(t *testing.T) {
	for s, want := range map[string]string{"": "∅", " a": "␣a", "\n": "↵", "小": "小"} {
		if got := visible(s); got != want {
			t.Errorf("%q: %q", s, got)
		}
	}
}

// A change of language translates the story as long as it is as it came; what the reader wrote stays.
func TestTheStoryIsTranslatedUntilTheReaderWrites(t *testing.T) {
	for name, c := range map[string]struct {
		edit state.Event
		want bool
	}{
		"as it came": {state.Edit{Field: state.Message, Text: "m"}, true},
		"question":   {state.Edit{Field: state.Question, Text: "Why?"}, false},
		"story":      {state.Edit{Field: state.Story, Text: "Mine."}, false},
		"asked":      {state.Run{Now: 1}, false},
	} {
		ctl := newController(words(t, "en"), noHost{})
		ctl.reduce(state.Start{Offers: []state.Offer{{Manifest: "a.json", BuiltIn: true}}})
		ctl.reduce(state.Opened{Opened: proto.Opened{Modes: []uint8{uint8(proto.Story)}}})
		ctl.reduce(c.edit)
		if s, ok := ctl.translated("en", "zh"); ok != c.want || ok && s.ID != ctl.model.Draft.Preset {
			t.Errorf("%s: translated %v, story %q", name, ok, s.ID)
		}
	}
}
