package main

import (
	"context"
	"fmt"
)

type tokenizeInput struct {
	File string `json:"file"`
	promptInput
}

type tokenizeOutput struct {
	IDs    []int32 `json:"ids"`
	Pieces []piece `json:"pieces"`
	Text   string  `json:"text"` // what the ids decode to
}

// piece is a display piece: one token, or several that share a character.
type piece struct {
	Text   string `json:"text"`
	Tokens int    `json:"tokens"`
}

func tokenize(_ context.Context, in *tokenizeInput) (any, error) {
	s, err := openSource(in.File)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if s.tokErr != nil {
		return nil, s.tokErr
	}
	ids, err := s.prompt(&in.promptInput)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		if id < 0 || int(id) >= s.tok.Vocab() {
			return nil, fmt.Errorf("token %d is not in the vocabulary of %d", id, s.tok.Vocab())
		}
	}
	out := tokenizeOutput{IDs: ids, Text: s.tok.Decode(ids)}
	ends, texts := s.tok.Pieces(ids)
	last := 0
	for i, text := range texts {
		out.Pieces = append(out.Pieces, piece{text, int(ends[i]) - last})
		last = int(ends[i])
	}
	return out, nil
}
