package proto

import "fmt"

// Kind is the first word of a packet. Numbers are never used again for something else.
type Kind uint32

// The kinds of packets: Hello, requests from 16 on, events from 64 on.
const (
	KindHello Kind = 1

	KindOpen        Kind = 16
	KindSetMemory   Kind = 17
	KindGenerate    Kind = 18
	KindStop        Kind = 19
	KindReset       Kind = 20
	KindGetState    Kind = 21
	KindPing        Kind = 22
	KindListModels  Kind = 23
	KindDeleteModel Kind = 24
	KindView        Kind = 25
	KindExplain     Kind = 26
	KindUndo        Kind = 27
	KindPin         Kind = 28
	KindRecall      Kind = 29
	KindCompare     Kind = 30

	KindProgress  Kind = 64
	KindOpened    Kind = 65
	KindPrompt    Kind = 66
	KindStep      Kind = 67
	KindState     Kind = 68
	KindModels    Kind = 69
	KindDone      Kind = 70
	KindFailure   Kind = 71
	KindMoved     Kind = 72
	KindMatrix    Kind = 73
	KindKept      Kind = 74
	KindExplained Kind = 75
	KindCompared  Kind = 76
	KindStrayed   Kind = 77
	KindContrast  Kind = 78
)

// Message is anything that travels in a packet. Messages are plain values, not pointers.
type Message interface{ Kind() Kind }

// Request is a message from the page to the engine.
type Request interface {
	Message
	request()
}

// Event is a message from the engine to the page.
type Event interface {
	Message
	event()
}

func (Hello) Kind() Kind       { return KindHello }
func (Open) Kind() Kind        { return KindOpen }
func (SetMemory) Kind() Kind   { return KindSetMemory }
func (Generate) Kind() Kind    { return KindGenerate }
func (Stop) Kind() Kind        { return KindStop }
func (Reset) Kind() Kind       { return KindReset }
func (GetState) Kind() Kind    { return KindGetState }
func (Ping) Kind() Kind        { return KindPing }
func (ListModels) Kind() Kind  { return KindListModels }
func (DeleteModel) Kind() Kind { return KindDeleteModel }
func (View) Kind() Kind        { return KindView }
func (Explain) Kind() Kind     { return KindExplain }
func (Undo) Kind() Kind        { return KindUndo }
func (Pin) Kind() Kind         { return KindPin }
func (Recall) Kind() Kind      { return KindRecall }
func (Compare) Kind() Kind     { return KindCompare }

func (Progress) Kind() Kind  { return KindProgress }
func (Opened) Kind() Kind    { return KindOpened }
func (Prompt) Kind() Kind    { return KindPrompt }
func (Step) Kind() Kind      { return KindStep }
func (State) Kind() Kind     { return KindState }
func (Models) Kind() Kind    { return KindModels }
func (Done) Kind() Kind      { return KindDone }
func (Failure) Kind() Kind   { return KindFailure }
func (Moved) Kind() Kind     { return KindMoved }
func (Matrix) Kind() Kind    { return KindMatrix }
func (Kept) Kind() Kind      { return KindKept }
func (Explained) Kind() Kind { return KindExplained }
func (Compared) Kind() Kind  { return KindCompared }
func (Strayed) Kind() Kind   { return KindStrayed }
func (Contrast) Kind() Kind  { return KindContrast }

func (Hello) request()       {}
func (Open) request()        {}
func (SetMemory) request()   {}
func (Generate) request()    {}
func (Stop) request()        {}
func (Reset) request()       {}
func (GetState) request()    {}
func (Ping) request()        {}
func (ListModels) request()  {}
func (DeleteModel) request() {}
func (View) request()        {}
func (Explain) request()     {}
func (Undo) request()        {}
func (Pin) request()         {}
func (Recall) request()      {}
func (Compare) request()     {}

func (Hello) event()     {}
func (Progress) event()  {}
func (Opened) event()    {}
func (Prompt) event()    {}
func (Step) event()      {}
func (State) event()     {}
func (Models) event()    {}
func (Done) event()      {}
func (Failure) event()   {}
func (Moved) event()     {}
func (Matrix) event()    {}
func (Kept) event()      {}
func (Explained) event() {}
func (Compared) event()  {}
func (Strayed) event()   {}
func (Contrast) event()  {}

// Error makes a Failure an error, so that it can travel through Go code as it is.
func (f Failure) Error() string { return fmt.Sprintf("%s: %s (code %d)", f.Op, f.Msg, f.Code) }

// codecs knows how to read and write the payload of each kind.
var codecs = map[Kind]codec{
	KindHello:       codecOf[Hello](),
	KindOpen:        codecOf[Open](),
	KindSetMemory:   codecOf[SetMemory](),
	KindGenerate:    codecOf[Generate](),
	KindStop:        codecOf[Stop](),
	KindReset:       codecOf[Reset](),
	KindGetState:    codecOf[GetState](),
	KindPing:        codecOf[Ping](),
	KindListModels:  codecOf[ListModels](),
	KindDeleteModel: codecOf[DeleteModel](),
	KindProgress:    codecOf[Progress](),
	KindOpened:      codecOf[Opened](),
	KindPrompt:      codecOf[Prompt](),
	KindStep:        codecOf[Step](),
	KindState:       codecOf[State](),
	KindModels:      codecOf[Models](),
	KindDone:        codecOf[Done](),
	KindFailure:     codecOf[Failure](),
	KindMoved:       codecOf[Moved](),
	KindView:        codecOf[View](),
	KindMatrix:      codecOf[Matrix](),
	KindKept:        codecOf[Kept](),
	KindExplain:     codecOf[Explain](),
	KindUndo:        codecOf[Undo](),
	KindPin:         codecOf[Pin](),
	KindRecall:      codecOf[Recall](),
	KindCompare:     codecOf[Compare](),
	KindExplained:   codecOf[Explained](),
	KindCompared:    codecOf[Compared](),
	KindStrayed:     codecOf[Strayed](),
	KindContrast:    codecOf[Contrast](),
}
