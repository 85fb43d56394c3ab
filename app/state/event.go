package state

import "kvlens/wasm/proto"

// Event is something that happened: the reader did something, the engine said something, or time passed.
type Event interface{ event() }

// Events of the page itself.
type (
	// Start is the first event: what the address and the saved settings say, and which models there are.
	Start struct {
		Options
		Theme  string
		Offers []Offer
	}
	// Tick is a clock, in milliseconds; once a second while something is going on.
	Tick struct{ Now float64 }
	// LangReady says that the catalogue of a language has been fetched and the page can show it.
	LangReady struct{ Lang string }
	// LangMissed says that a catalogue could not be fetched.
	LangMissed struct{}
)

// Events of the reader.
type (
	// Choose opens a model.
	Choose struct{ Manifest string }
	// Forget deletes the stored copy of a model.
	Forget struct{ Manifest string }
	// Edit changes one field of the draft.
	Edit struct {
		Field Field
		Text  string
	}
	// Preset fills the draft; it ends the conversation so far.
	Preset struct{ Draft Draft }
	// SetMode chooses between story, chat and raw text.
	SetMode struct{ Mode proto.PromptMode }
	// Run asks. Question, if set, replaces the draft's.
	Run struct {
		Question string
		Once     bool // pause after one token
		Now      float64
	}
	// Halt stops the turn, or the opening of a model.
	Halt struct{}
	// StartOver empties the cache and the conversation and keeps the draft.
	StartOver struct{}
	// SetSampling changes one sampling setting; values out of range are clamped.
	SetSampling struct {
		Knob  Knob
		Value float64
	}
	// SetCap changes the memory cap, in bytes; 0 is the default.
	SetCap struct{ Bytes uint64 }
	// SetShare changes the memory cap, in percent of what the story takes in full.
	SetShare struct{ Percent int }
	// SetMethod chooses another method.
	SetMethod struct{ Name string }
	// SetWrap puts a wrapper around the method, or takes it away.
	SetWrap struct {
		Name string
		On   bool
	}
	// SetKnob sets a knob of the method or of a wrapper; values out of range are clamped.
	SetKnob struct {
		Of, Name string
		Value    float64
	}
	// ResetKnobs puts all knobs of the recipe back.
	ResetKnobs struct{}
	// SetLater has the story compressed before the question is there, or with it.
	SetLater struct{ Later bool }
	// Follow takes over the policy of an address, as when a link to this page is followed on it.
	Follow struct{ Fragment string }
	// SetScope chooses whose tokens the story shows.
	SetScope struct{ Scope }
	// SetLang asks for another language.
	SetLang struct{ Lang string }
	// SetTheme is "auto", "light" or "dark".
	SetTheme struct{ Theme string }
	// Act does the one thing that a problem offers.
	Act struct{ Now float64 }
	// Dismiss puts the problem or the notices away.
	Dismiss struct{}
)

// Events of the engine.
type (
	// Progressed carries a stage's progress.
	Progressed struct {
		proto.Progress
		Now float64
	}
	// Opened ends an opening.
	Opened struct {
		proto.Opened
		Now float64
	}
	// Prompted brings the prompt's pieces.
	Prompted struct {
		proto.Prompt
		Now float64
	}
	// Stepped brings the tokens since the last frame.
	Stepped struct {
		Steps []proto.Step
		Now   float64
	}
	// Measured brings the session's state.
	Measured struct{ proto.State }
	// Keeps brings what the cache holds.
	Keeps struct{ proto.Kept }
	// Moved says that the engine had to set its backend up anew.
	Moved struct {
		proto.Moved
		Now float64
	}
	// Listed brings what is stored.
	Listed struct{ proto.Models }
	// Ended ends a turn.
	Ended struct{ proto.Done }
	// Failed ends a turn or an opening, or reports a dead engine.
	Failed struct{ proto.Failure }
	// Gone says that the engine died and is not started again by itself.
	Gone struct{}
)

func (Start) event()       {}
func (Tick) event()        {}
func (LangReady) event()   {}
func (LangMissed) event()  {}
func (Choose) event()      {}
func (Forget) event()      {}
func (Edit) event()        {}
func (Preset) event()      {}
func (SetMode) event()     {}
func (Run) event()         {}
func (Halt) event()        {}
func (StartOver) event()   {}
func (SetSampling) event() {}
func (SetCap) event()      {}
func (SetShare) event()    {}
func (SetMethod) event()   {}
func (SetWrap) event()     {}
func (SetKnob) event()     {}
func (ResetKnobs) event()  {}
func (SetLater) event()    {}
func (Follow) event()      {}
func (SetScope) event()    {}
func (Keeps) event()       {}
func (SetLang) event()     {}
func (SetTheme) event()    {}
func (Act) event()         {}
func (Dismiss) event()     {}
func (Progressed) event()  {}
func (Opened) event()      {}
func (Prompted) event()    {}
func (Stepped) event()     {}
func (Measured) event()    {}
func (Moved) event()       {}
func (Listed) event()      {}
func (Ended) event()       {}
func (Failed) event()      {}
func (Gone) event()        {}

// Field names a field of the draft.
type Field uint8

// The fields of the draft.
const (
	Story Field = iota
	Question
	System
	Message
	RawText
)

// Effect is something to do outside. Effects are done in order.
type Effect interface{ effect() }

// The effects.
type (
	// OpenModel opens a model in a fresh engine.
	OpenModel struct{ proto.Open }
	// Generate runs a turn.
	Generate struct{ proto.Generate }
	// Cancel stops what runs.
	Cancel struct{}
	// Remake gives the cache other settings.
	Remake struct{ proto.Memory }
	// Address puts a policy into the page's address.
	Address struct{ Fragment string }
	// Empty empties the cache.
	Empty struct{}
	// List asks what is stored of the offers.
	List struct{ Manifests []string }
	// Delete frees a stored model.
	Delete struct{ Manifest string }
	// Save keeps a setting for the next visit.
	Save struct{ Key, Value string }
	// Fetch loads the catalogue of a language, then LangReady.
	Fetch struct{ Lang string }
	// Reload loads the page again.
	Reload struct{}
	// Focus moves the focus to a named control.
	Focus struct{ ID string }
)

func (OpenModel) effect() {}
func (Generate) effect()  {}
func (Cancel) effect()    {}
func (Remake) effect()    {}
func (Address) effect()   {}
func (Empty) effect()     {}
func (List) effect()      {}
func (Delete) effect()    {}
func (Save) effect()      {}
func (Fetch) effect()     {}
func (Reload) effect()    {}
func (Focus) effect()     {}
