package state

import (
	"strconv"

	"kvlens/wasm/proto"
)

// Action is the one thing that a problem offers to do.
type Action uint8

// The actions.
const (
	ActRestart Action = iota // a fresh engine with the same model
	ActReload                // the page again
	ActRetry                 // the same thing again
	ActBuiltIn               // the built-in model
	ActModels                // show the models, to free space
	ActAuto                  // whichever backend works
	ActWhole                 // the default memory cap
	ActEdit                  // back to the text
	ActStop                  // stop what runs
	ActReset                 // default settings
	ActAnew                  // an empty conversation
	ActFull                  // the full cache
)

var actionNames = [...]string{"restart", "reload", "retry", "builtin", "models", "auto", "whole", "edit", "stop", "reset", "anew", "full"}

// String is the action's part of its catalogue key.
func (a Action) String() string { return actionNames[a] }

// Actions is the number of actions.
const Actions = len(actionNames)

// Problem is an error with one thing to do about it.
type Problem struct {
	Code     proto.Code
	Args     []string
	Op, Msg  string // technical details
	Action   Action
	opening  bool   // it ended an opening, so that Retry opens again
	manifest string // of that opening
	field    string // control that has to be filled in
}

// stopped is our own code of an opening that the reader stopped.
const stopped proto.Code = 0

var codeNames = map[proto.Code]string{
	stopped: "stopped", proto.CodeInternal: "internal", proto.CodeVersion: "version", proto.CodeNetwork: "network", proto.CodeHash: "hash",
	proto.CodeManifest: "manifest", proto.CodeFormat: "format", proto.CodeTooLong: "toolong", proto.CodeMemory: "memory",
	proto.CodeQuota: "quota", proto.CodeBackend: "backend", proto.CodeNumbers: "numbers", proto.CodeBusy: "busy",
	proto.CodeBadRequest: "badrequest", proto.CodeEmpty: "empty", proto.CodeDead: "dead",
	proto.CodeLost: "lost", proto.CodeSmall: "small", proto.CodeTables: "tables", proto.CodeNoRecord: "norecord",
}

// Codes are all codes that have a sentence.
func Codes() []proto.Code {
	var out []proto.Code
	for c := range codeNames {
		out = append(out, c)
	}
	return out
}

// CodeName is the code's part of its catalogue key; unknown codes read as internal.
func CodeName(c proto.Code) string {
	if n, ok := codeNames[c]; ok {
		return n
	}
	return codeNames[proto.CodeInternal]
}

// actions maps each code to what helps most.
var actions = map[proto.Code]Action{
	proto.CodeInternal: ActRestart, proto.CodeVersion: ActReload, proto.CodeNetwork: ActRetry, proto.CodeHash: ActRetry,
	proto.CodeManifest: ActBuiltIn, proto.CodeFormat: ActBuiltIn, proto.CodeTooLong: ActEdit, proto.CodeMemory: ActBuiltIn,
	proto.CodeQuota: ActModels, proto.CodeBackend: ActAuto, proto.CodeNumbers: ActRestart, proto.CodeBusy: ActStop,
	proto.CodeBadRequest: ActReset, proto.CodeEmpty: ActEdit, proto.CodeDead: ActRestart,
	proto.CodeLost: ActRestart, proto.CodeSmall: ActWhole, proto.CodeTables: ActFull, proto.CodeNoRecord: ActAnew,
}

// problem words a failure for the page.
func (m Model) problem(f proto.Failure) *Problem {
	p := &Problem{Code: f.Code, Args: f.Args, Op: f.Op, Msg: f.Msg, Action: actions[f.Code]}
	if m.Phase == Opening || !m.HasOpened {
		p.opening, p.manifest = true, m.Current
	}
	o, _ := m.Offer(m.Current)
	switch {
	case f.Code == proto.CodeTooLong && m.Policy.Lowered():
		p.Action = ActWhole // the reader lowered the cap: raising it helps at once
	case f.Code == proto.CodeTooLong && m.Follows():
		p.Action = ActAnew // the conversation has filled the cache
	case p.Action == ActBuiltIn && o.BuiltIn:
		p.Action = ActReload // the built-in model is the problem: its file may be a stale copy
	}
	return p
}

// Arg reads one of the problem's numbers.
func (p Problem) Arg(i int) uint64 {
	if i >= len(p.Args) {
		return 0
	}
	n, _ := strconv.ParseUint(p.Args[i], 10, 64)
	return n
}
