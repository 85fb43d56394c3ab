package state

import "kvlens/wasm/proto"

// Events of the reader who asks why, goes back, holds on, and compares.
type (
	// Resume goes on with the last answer.
	Resume struct {
		Once bool // by one token
		Now  float64
	}
	// GoBack undoes everything after the first tokens of the conversation.
	GoBack struct{ Tokens int }
	// SetPin holds on to N tokens from a position on, or lets go of them.
	SetPin struct {
		At, N int
		On    bool
		Again bool // and read the prompt again, with the pin; the answer after it is taken back
	}
	// CallBack brings a token back from the shadow.
	CallBack struct{ Position int }
	// SetRecord chooses what is recorded.
	SetRecord struct{ Records }
	// Select asks about a token of the texts. The same token again puts the question away, unless Stay.
	Select struct {
		Serial uint32
		Answer bool
		Index  int
		Stay   bool
	}
	// SelectList chooses the list that the answer is about.
	SelectList struct{ List int }
	// Deselect puts the question away.
	Deselect struct{}
	// OpenCompare shows the comparison, or puts it away.
	OpenCompare struct{ Open bool }
	// SetSide chooses what A (0) or B (1) is to be. Without values A follows the page's policy again.
	SetSide struct {
		Side   int
		Method string
		Share  int // percent; 0 leaves it
	}
	// Match sets both sides, to one of Matchups.
	Match struct{ Index int }
	// StartCompare runs the comparison.
	StartCompare struct{ Now float64 }
)

// What the engine says to that.
type (
	// Explains answers Explain, asked at an epoch of the cache.
	Explains struct {
		proto.Explained
		Epoch uint32
	}
	// Unexplained says that there is no answer.
	Unexplained struct {
		proto.Failure
		Epoch uint32
	}
	// Comparisons bring the forced tokens of a comparison since the last frame.
	Comparisons struct {
		Tokens []proto.Compared
		Now    float64
	}
	// Strays bring the free tokens of a comparison since the last frame.
	Strays struct {
		Tokens []proto.Strayed
		Now    float64
	}
	// Contrasted sums up a run of a comparison.
	Contrasted struct{ proto.Contrast }
)

func (Resume) event()       {}
func (GoBack) event()       {}
func (SetPin) event()       {}
func (CallBack) event()     {}
func (SetRecord) event()    {}
func (Select) event()       {}
func (SelectList) event()   {}
func (Deselect) event()     {}
func (OpenCompare) event()  {}
func (SetSide) event()      {}
func (Match) event()        {}
func (StartCompare) event() {}
func (Explains) event()     {}
func (Unexplained) event()  {}
func (Comparisons) event()  {}
func (Strays) event()       {}
func (Contrasted) event()   {}

// The effects.
type (
	// Undo goes back to the first tokens.
	Undo struct{ Tokens uint32 }
	// Pin names the tokens to hold on to.
	Pin struct{ proto.Pin }
	// Recall brings a token back from the shadow.
	Recall struct{ Position uint32 }
	// Explain asks about a list, at an epoch of the cache.
	Explain struct {
		proto.Explain
		Epoch uint32
	}
	// RunCompare runs a comparison.
	RunCompare struct{ proto.Compare }
)

func (Undo) effect()       {}
func (Pin) effect()        {}
func (Recall) effect()     {}
func (Explain) effect()    {}
func (RunCompare) effect() {}
