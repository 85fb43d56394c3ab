package main

import (
	"encoding/json"
	"strings"
	"testing"

	"kvlens/app/stories"
)

func ask(t *testing.T, requests string) []string {
	t.Helper()
	var out strings.Builder
	if err := serve(strings.NewReader(requests), &out); err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
}

// A trainer that goes on at document 3 gets what it would have got without a stop, at the share of languages it asks for.
func TestDocumentsAreNumbered(t *testing.T) {
	all := ask(t, `{"seed":4,"start":0,"count":6,"words":100,"chinese":0.5}`)
	rest := ask(t, `{"seed":4,"start":3,"count":2,"words":100,"chinese":0.5}{"seed":4,"start":5,"count":1,"words":100,"chinese":0.5}`)
	if len(all) != 6 || strings.Join(all[3:], "\n") != strings.Join(rest, "\n") {
		t.Error("documents do not depend on their number alone")
	}
	chinese := 0
	for _, line := range ask(t, `{"seed":5,"count":400,"words":60,"chinese":0.25}`) {
		var d stories.Document
		if err := json.Unmarshal([]byte(line), &d); err != nil || d.Text == "" {
			t.Fatalf("%v in %s", err, line)
		}
		if d.Lang == "zh" {
			chinese++
		}
	}
	if chinese < 70 || chinese > 130 { // 100, within 3.5 standard deviations
		t.Errorf("%d of 400 documents are Chinese, want about 100", chinese)
	}
}

func TestNeedlesAndLexicon(t *testing.T) {
	lines := ask(t, `{"seed":2,"count":3,"words":200,"kind":"meal/back","lang":"zh","depth":0.5,"split":1}{"kind":"lexicon","count":1}`)
	var n stories.Needle
	if err := json.Unmarshal([]byte(lines[2]), &n); err != nil || n.Value.In(n.Text) != n.Answer || n.Lang != "zh" {
		t.Errorf("%v in %s", err, lines[2])
	}
	var words []string
	if err := json.Unmarshal([]byte(lines[3]), &words); err != nil || len(words) != len(stories.Lexicon("en"))+len(stories.Lexicon("zh")) {
		t.Errorf("%v in %s", err, lines[3])
	}
}

func TestWrongRequests(t *testing.T) {
	for _, r := range []string{"{", `{"count":1,"kind":"meal/none"}`, `{"count":1,"kind":"meal/plain","lang":"xx","words":99}`} {
		if err := serve(strings.NewReader(r), new(strings.Builder)); err == nil {
			t.Errorf("%s: no error", r)
		}
	}
}
