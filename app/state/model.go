// Package state is the page without a page: one Model, the Events that change it and Reduce, which is pure. What has to
// happen outside (talk to the engine, save a setting, fetch a catalogue) comes back from Reduce as Effects. The package
// knows no DOM and holds no sentence: texts are keys of the catalogue with arguments.
package state

import "kvlens/wasm/proto"

// Phase says what the page is doing.
type Phase uint8

// The phases. Idle needs an opened model; Prefill, Answering and Stopping belong to one turn.
const (
	Starting  Phase = iota // nothing opened yet and nothing asked for
	Opening                // a model is being fetched and loaded
	Changing               // the cache is getting other settings
	Idle                   // ready for a turn
	Prefill                // the prompt is being read
	Answering              // tokens arrive
	Stopping               // Stop was pressed and not yet heard
	Broken                 // no engine or no model; Problem says why
	Comparing              // two settings of the cache run beside the full one
)

// Names of the phases for snapshots and test hooks.
var phaseNames = [...]string{"starting", "opening", "changing", "idle", "prefill", "answering", "stopping", "broken", "comparing"}

// String is the phase's name in snapshots.
func (p Phase) String() string { return phaseNames[p] }

// Model is everything the page shows.
type Model struct {
	Phase Phase

	Lang      string // language of the page
	Theme     string // "auto", "light", "dark"
	Backend   string // asked for: "", "cpu", "ref", "webgpu"
	Seed      uint32 // of the address bar; also Sampling.Seed at start
	Offers    []Offer
	Current   string // manifest of the model that is opened or being opened
	Storage   Storage
	Opened    proto.Opened
	HasOpened bool

	Work   Work
	Mode   proto.PromptMode
	Draft  Draft
	Turns  []Turn
	Memory Memory

	Policy Policy
	Kept   Kept
	Scope  Scope
	was    Policy // before the change that is going on
	Left   []Leaving

	Records    Records
	wasRecords Records
	chose      bool // the reader chose what is recorded, so a new model keeps it
	task       task // what the change that is going on is about
	back       int  // tokens that an Undo goes back to
	reread     bool // the change that is going on follows one that read the conversation again
	resumed    bool // the turn that is going on went on with an answer
	atTurn     Kept // when the last turn began

	Why       Why
	Explained []*Explained // by list, nil where nobody asked
	epoch     uint32       // counts changes of the cache
	known     uint32       // epoch of Explained
	asked     int          // list that the engine was asked about, −1 none

	Attention Attention
	Compare   Compare

	Sampling proto.Sampling
	Max      uint32 // answer limit, tokens
	Touched  bool   // the reader changed the sampling, so a new model keeps it

	Problem *Problem
	Notices []Notice // set-up remarks, such as a clamped value of the address

	serial uint32 // of the last turn
}

// Offer is one model the reader can choose.
type Offer struct {
	Manifest      string // URL as the engine takes it
	ID            string
	Name, Licence string
	Size, Stored  uint64 // bytes
	BuiltIn       bool   // part of the site: needs no download of its own
}

// Storage is what the browser says about space.
type Storage struct {
	OPFS         bool
	Known        bool
	Quota, Usage uint64 // bytes; 0 unknown
}

// Work is the progress of what is going on, so that nothing spins unnamed.
type Work struct {
	Stage                proto.Stage
	Done, Total, Resumed uint64
	Refetched            uint32
	Heard                bool    // the engine has said something about it
	News                 float64 // ms, when something was last heard, or when the clock first looked
	Long                 bool    // a change of the cache takes long enough for a way to stop it
	Quiet                float64 // ms without news, once that is long (see Watchdog); else 0
}

// Draft is what the reader has written for the next turn.
type Draft struct {
	Preset          string // id of the preset that filled it, "" once edited
	Story, Question string
	System, Message string
	Raw             string
	More            []string // questions about the story
	Answers         []string // to them, where they are known
}

// Turn is one question and its answer.
type Turn struct {
	Serial uint32 // counts the turns of this visit
	Asked  string // question or message as the reader wrote it
	First  uint32 // position of the prompt's first token
	Pieces []Piece
	Answer []Token
	Reason proto.Reason
	Ended  bool // Reason is known, or the turn failed
	Failed bool
	Lost   bool // the cache that held it is gone
	Undone bool // the reader went back to the middle of it
	Rates  Rates
}

// Piece is a stretch of prompt text that cannot be shown in smaller parts: one token, or several whose bytes make one
// character.
type Piece struct {
	Text string
	At   uint32   // position of its first token
	IDs  []uint32 // its tokens
}

// Token is one generated token.
type Token struct {
	Text     string // display text that became final with it; may be empty
	Position uint32
	ID       uint32
	Prob     float32
	Millis   float32
	Used     uint64 // bytes of the arena in pages after it; 0 where the step did not say
	Top      []Candidate
}

// Candidate is one of the five most probable tokens of a step.
type Candidate struct {
	ID   uint32
	Prob float32
	Text string
}

// Rates are tokens per second of one turn; 0 is unknown.
type Rates struct{ Prefill, Decode float32 }

// Notice is a remark that the reader can put away.
type Notice struct {
	Key  string // of the catalogue
	Args []string
}

// Busy reports whether a turn, an opening or a change of the cache is going on.
func (m Model) Busy() bool {
	return m.Phase == Opening || m.Occupied()
}

// Occupied reports whether the engine works on something that must not be changed meanwhile: a turn, a change of the cache
// or a comparison.
func (m Model) Occupied() bool {
	return m.Phase == Changing || m.Phase == Comparing || m.Running()
}

// Running reports whether a turn is going on.
func (m Model) Running() bool {
	return m.Phase == Prefill || m.Phase == Answering || m.Phase == Stopping
}

// Live is the turn that is going on or was last, and whether there is one.
func (m Model) Live() (Turn, bool) {
	if len(m.Turns) == 0 {
		return Turn{}, false
	}
	return m.Turns[len(m.Turns)-1], true
}

// Follows reports whether the next turn continues the cache that the turns before have filled.
func (m Model) Follows() bool {
	for _, t := range m.Turns {
		if t.Ended && !t.Failed && !t.Lost {
			return true
		}
	}
	return false
}

// Asked reports whether a question has been asked in this conversation.
func (m Model) Asked(question string) bool {
	for _, t := range m.Turns {
		if t.Asked == question {
			return true
		}
	}
	return false
}

// Offer finds an offer by its manifest.
func (m Model) Offer(manifest string) (Offer, bool) {
	for _, o := range m.Offers {
		if o.Manifest == manifest {
			return o, true
		}
	}
	return Offer{}, false
}

// Text is the answer so far.
func (t Turn) Text() string {
	n := 0
	for _, k := range t.Answer {
		n += len(k.Text)
	}
	b := make([]byte, 0, n)
	for _, k := range t.Answer {
		b = append(b, k.Text...)
	}
	return string(b)
}

// LangOf is the language of a text as far as its letters tell: "zh" with Chinese characters, else "en".
func LangOf(text string) string {
	for _, r := range text {
		if r >= 0x3400 && r <= 0x9fff {
			return "zh"
		}
	}
	return "en"
}
