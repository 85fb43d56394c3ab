package main

import (
	"context"
	"math"
	"slices"
)

type logitsInput struct {
	modelInput
	promptInput
	Top int     `json:"top" help:"how many of the largest logits to list"`
	At  []int32 `json:"at" help:"token ids whose logits to list too"`
	All bool    `json:"all" help:"all logits, in the order of the vocabulary"`
}

type logitsOutput struct {
	IDs       []int32      `json:"ids"` // of the prompt
	Top       []tokenLogit `json:"top"`
	At        []tokenLogit `json:"at,omitempty"`
	Mean      float64      `json:"mean"`
	LogSumExp float64      `json:"logsumexp"`
	Logits    []float32    `json:"logits,omitempty"`
}

type tokenLogit struct {
	ID    int32   `json:"id"`
	Text  string  `json:"text"`
	Logit float32 `json:"logit"`
	Prob  float64 `json:"prob"`
}

func logits(ctx context.Context, in *logitsInput) (any, error) {
	s, err := openSource(in.File)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	ids, err := s.prompt(&in.promptInput)
	if err != nil {
		return nil, err
	}
	e, err := s.start(ctx, &in.modelInput, len(ids))
	if err != nil {
		return nil, err
	}
	defer e.close()
	if err := e.Prefill(ctx, ids, nil); err != nil {
		return nil, err
	}
	row := e.Logits()
	out := logitsOutput{IDs: ids}
	most := slices.Max(row)
	for _, x := range row {
		out.Mean += float64(x) / float64(len(row))
		out.LogSumExp += math.Exp(float64(x - most))
	}
	out.LogSumExp = float64(most) + math.Log(out.LogSumExp)
	entry := func(id int32) tokenLogit {
		return tokenLogit{id, s.text(id), row[id], math.Exp(float64(row[id]) - out.LogSumExp)}
	}
	for _, id := range largest(row, in.Top) {
		out.Top = append(out.Top, entry(id))
	}
	for _, id := range in.At {
		if id < 0 || int(id) >= len(row) {
			return nil, usageError("at: token %d is not in the vocabulary of %d", id, len(row))
		}
		out.At = append(out.At, entry(id))
	}
	if in.All {
		out.Logits = row
	}
	return out, nil
}

// largest are the ids of the n largest logits, in order; equal ones by id.
func largest(row []float32, n int) []int32 {
	ids := make([]int32, len(row))
	for i := range ids {
		ids[i] = int32(i)
	}
	slices.SortStableFunc(ids, func(a, b int32) int {
		switch {
		case row[a] > row[b]:
			return -1
		case row[a] < row[b]:
			return 1
		}
		return 0
	})
	return ids[:max(0, min(n, len(ids)))]
}
