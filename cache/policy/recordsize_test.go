package policy

import (
	"slices"
	"testing"
)

// TestRecordIsBounded: where there is no room for votes they go, and come back with a prompt that has; where there is none
// for decisions, the record ends. Without a record there is nothing, and a step allocates nothing for one.
func TestRecordIsBounded(t *testing.T) {
	s := Shape{2, 4, 2, 4}
	p := mustPlan(t, Recipe{Method: "observed"})
	y := newToy(t, p, s, Budget{Tokens: 10, Reserve: 1}, nil, 1)
	y.prompt(40)
	if y.run.RecordBytes() != 0 || y.run.Verdicts(0, 0) != nil {
		t.Errorf("%d bytes are recorded unasked", y.run.RecordBytes())
	}
	if voters, votes := recorded(y.run, 1<<20, 40); voters == nil || votes == nil || y.run.rec == nil {
		t.Fatal("no votes")
	}
	whole := y.run.RecordBytes()
	// 4 lists of 20 bytes and an eighth for tokens to come; 8 rows of 4 and 4 lists of 5.
	if want := int64(4*20*(40+5+8) + 40*(8*4+4*5)); whole != want {
		t.Errorf("%d bytes, want %d", whole, want)
	}
	if voters, _ := recorded(y.run, whole-1, 40); voters != nil || y.run.Verdicts(1, 1) == nil || y.run.RecordBytes() >= whole {
		t.Errorf("without room: voters %v, %d bytes", voters, y.run.RecordBytes())
	}
	if voters, _ := recorded(y.run, whole, 40); voters == nil {
		t.Error("no votes though there is room")
	}
	if recorded(y.run, 1000, 40); y.run.Verdicts(0, 0) != nil || y.run.RecordBytes() > 1000 {
		t.Errorf("%d bytes of decisions in 1,000", y.run.RecordBytes())
	}
	recorded(y.run, whole-1, 40)
	if y.run.rec.most++; prompted(y.run, 40) == nil {
		t.Error("no votes in the prompt after one that had no room for them")
	}
	if prompted(y.run, 10) != nil || y.run.RecordBytes() != 4*20*(40+5+8) {
		t.Errorf("a prompt of which all stays has votes, or %d bytes", y.run.RecordBytes())
	}
	y.run.Record(false)
	if y.run.RecordBytes() != 0 || y.run.Verdicts(0, 0) != nil {
		t.Error("a record that ended is still there")
	}
	worth, pos, leave := make([]float32, 11), all(11), []int32{3}
	in := &StepInput{Pos: [][]int32{pos, pos}}
	step := func() {
		y.run.arrive(0, in)
		y.run.lose(0, 0, pos, leave, worth, 10, DecidedRule)
	}
	step()
	if n := testing.AllocsPerRun(100, step); n != 0 {
		t.Errorf("%v allocations a step", n)
	}
}

// recorded is a prompt of so many tokens with a record of so many bytes at most: the votes of the first list.
func recorded(r *Run, most int64, tokens int) ([]int, []uint8) {
	r.Record(true)
	r.rec.most = most
	voters := prompted(r, tokens)
	_, votes := r.Votes(0, 0, tokens)
	return voters, votes
}

// prompted is a first prompt of so many tokens: who votes in the first list.
func prompted(r *Run, tokens int) []int {
	for l := range r.held {
		clear(r.held[l])
	}
	r.Prompt(tokens)
	row := make([]float32, tokens)
	for i := range row {
		row[i] = float32(i * 7 % 11)
	}
	c := Candidates{Pos: all(tokens)}
	for l := range r.shape.Layers {
		if _, err := r.Layer(l, &Input{Candidates: []Candidates{c, c}, Columns: [][]float32{row, row, row, row}}, GoLoops); err != nil {
			panic(err)
		}
	}
	voters, _ := r.Votes(0, 0, tokens)
	return voters
}

// TestRecordsPart: what happens to a copy of a run is not in the record of the other.
func TestRecordsPart(t *testing.T) {
	s := Shape{2, 4, 2, 4}
	y := newToy(t, mustPlan(t, Recipe{Method: "h2o"}), s, Budget{Tokens: 10, Reserve: 1}, nil, 1)
	y.run.Record(true)
	y.prompt(30)
	before := slices.Clone(y.run.Verdicts(0, 0))
	other := y.run
	y.run = y.run.Clone()
	for range 5 {
		y.step()
	}
	if !slices.EqualFunc(other.Verdicts(0, 0), before, sameVerdict) {
		t.Error("a copy changes the record")
	}
	if len(y.run.Verdicts(0, 0)) != 35 {
		t.Errorf("%d tokens in the copy's record", len(y.run.Verdicts(0, 0)))
	}
	y.run.Recalled(0, 1, 4)
	if v := y.run.Verdicts(0, 1)[4]; !sameVerdict(v, Unscored(DecidedRecall, 35)) {
		t.Errorf("recalled: %+v", v)
	}
}
