// Command stories writes generated documents for a program that reads them through a pipe: for each request, a line of
// JSON on standard input, it answers with Count lines of JSON on standard output. Document i of a seed is always the same,
// so a trainer that stops can go on where it was.
//
//	{"seed":1,"start":0,"count":8,"words":128,"chinese":0.5}                                  documents for training
//	{"seed":2,"count":50,"words":512,"kind":"meal/back","lang":"zh","depth":0.5,"split":1}    stories with a needle
//	{"kind":"lexicon","count":1}                                                              all words
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"

	"kvlens/app/stories"
)

type request struct {
	Seed, Start  uint64
	Count, Words int
	Chinese      float64 // share of documents in Chinese

	Kind  string // asks for needles instead
	Lang  string
	Depth float64
	Split stories.Split
}

func main() {
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "stories:", err)
		os.Exit(1)
	}
}

func serve(in io.Reader, out io.Writer) error {
	requests, w := json.NewDecoder(in), bufio.NewWriter(out)
	lines := json.NewEncoder(w)
	lines.SetEscapeHTML(false)
	for {
		var r request
		if err := requests.Decode(&r); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("request: %w", err)
		}
		for i := r.Start; i < r.Start+uint64(max(r.Count, 0)); i++ {
			doc, err := r.document(i)
			if err != nil {
				return err
			}
			if err := lines.Encode(doc); err != nil {
				return err
			}
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
}

func (r request) document(i uint64) (any, error) {
	if r.Kind == "lexicon" {
		return append(stories.Lexicon("en"), stories.Lexicon("zh")...), nil
	}
	if r.Kind == "" {
		lang := "en"
		if rand.New(rand.NewPCG(r.Seed^0x6c616e67, i)).Float64() < r.Chinese {
			lang = "zh"
		}
		return stories.NewDocument(r.Seed, i, lang, r.Words), nil
	}
	k, err := stories.ParseKind(r.Kind)
	if err != nil {
		return nil, err
	}
	return stories.NewNeedle(stories.Spec{Lang: r.Lang, Kind: k, Tokens: r.Words, Depth: r.Depth, Split: r.Split, Seed: r.Seed<<32 + i})
}
