package state

import (
	"encoding/json"
	"math"

	"kvlens/wasm/proto"
)

// Snapshot is the model as JSON, for tests and for the curious: window.kvlens.state(). It only reads.
func Snapshot(m Model) []byte {
	type object = map[string]any
	turns := make([]object, len(m.Turns))
	for i, t := range m.Turns {
		turns[i] = object{
			"asked": t.Asked, "text": t.Text(), "pieces": len(t.Pieces), "tokens": len(t.Answer),
			"ended": t.Ended, "failed": t.Failed, "reason": ReasonName(t.Reason),
			"prefillRate": t.Rates.Prefill, "decodeRate": t.Rates.Decode,
		}
	}
	rows := make([]object, len(m.Memory.Rows))
	for i, r := range m.Memory.Rows {
		rows[i] = object{"kind": r.Kind.String(), "logical": r.Logical, "allocated": r.Allocated, "peak": r.Peak}
	}
	offers := make([]object, len(m.Offers))
	for i, o := range m.Offers {
		offers[i] = object{"manifest": o.Manifest, "id": o.ID, "name": o.Name, "size": o.Size, "stored": o.Stored, "builtIn": o.BuiltIn}
	}
	held := make([]int, m.Kept.Layers*m.Kept.Heads)
	for i := range held {
		held[i] = m.Kept.Held(i)
	}
	s := object{
		"phase": m.Phase.String(), "lang": m.Lang, "theme": m.Theme, "askedBackend": m.Backend,
		"backend": m.Opened.Backend, "backendWhy": m.Opened.BackendWhy,
		"model": m.Current, "name": m.Opened.Name, "opened": m.HasOpened, "mode": ModeName(m.Mode),
		"draft": object{"preset": m.Draft.Preset, "story": m.Draft.Story, "question": m.Draft.Question, "message": m.Draft.Message, "system": m.Draft.System},
		"turns": turns, "offers": offers,
		"memory": object{
			"rows": rows, "cap": m.Memory.Cap, "default": m.Memory.Default, "used": m.Memory.Used(),
			"reserved": m.Memory.Reserved, "stored": m.Memory.Stored, "position": m.Memory.Position, "room": m.Memory.Room, "context": m.Memory.Context,
		},
		"policy": object{
			"recipe": m.Policy.Recipe, "share": m.Policy.Share, "bytes": m.Policy.Bytes, "later": m.Policy.Later, "fragment": m.Policy.Fragment(),
		},
		"kept": object{
			"tokens": m.Kept.Tokens, "all": m.Kept.All, "recipe": m.Kept.Recipe, "layers": m.Kept.Layers, "heads": m.Kept.Heads, "held": held, "caps": m.Kept.Caps,
			"budget": m.Kept.Budget, "reserve": m.Kept.Reserve, "window": m.Kept.Window, "published": m.Kept.Published,
		},
		"attention": m.attentionSnapshot(),
		"scope":     object{"layer": m.Scope.Layer, "head": m.Scope.Head},
		"sampling":  m.Sampling, "max": m.Max,
		"work":    object{"stage": StageName(m.Work.Stage), "done": m.Work.Done, "total": m.Work.Total, "resumed": m.Work.Resumed, "refetched": m.Work.Refetched, "quiet": m.Work.Quiet},
		"notices": len(m.Notices), "problem": nil,
	}
	s["left"], s["pins"], s["records"], s["resumes"] = m.Left, m.Kept.Pins, m.Records, m.Resumes()
	s["why"] = whySnapshot(m)
	s["compare"] = compareSnapshot(m.Compare)
	if p := m.Problem; p != nil {
		s["problem"] = object{"code": CodeName(p.Code), "action": p.Action.String(), "op": p.Op, "msg": p.Msg, "args": p.Args}
	}
	b, err := json.Marshal(s)
	if err != nil { // a float that JSON cannot hold; nothing else can fail
		return []byte("null")
	}
	return b
}

// whySnapshot is the token that is asked about and what is known of it in the list that the page shows.
func whySnapshot(m Model) map[string]any {
	w := m.Why
	s := map[string]any{"on": w.On, "at": w.At, "answer": w.Answer, "failed": uint16(w.Failed)}
	if w.On && m.Kept.Layers > 0 {
		list := m.WhyList()
		v := m.Verdict(list, w.At)
		s["list"], s["known"], s["kept"], s["stage"], s["decided"] = list, v.Known, v.Kept, v.Stage, v.At
		s["rank"], s["of"], s["voters"] = v.Rank, v.Of, len(v.Voters)
	}
	return s
}

func compareSnapshot(c Compare) map[string]any {
	s := map[string]any{"open": c.Open, "begun": c.Begun, "ended": c.Ended, "stopped": c.Stopped, "failed": c.Failed, "tokens": len(c.Tokens), "strays": c.Strays}
	for i, name := range []string{"a", "b"} {
		agree, kl := c.Agreed(i)
		s[name] = map[string]any{"recipe": c.Ran[i].Recipe, "share": c.Ran[i].Share, "agree": agree, "kl": finite(kl), "free": Turn{Answer: c.Free[i]}.Text(), "sum": c.Sums[i] != nil}
	}
	return s
}

// finite is a number that JSON can hold.
func finite(v float64) any {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return v
}

var (
	stageNames  = [...]string{"store", "fetch", "verify", "load", "tokenizer", "selftest", "prefill", "restore"}
	reasonNames = [...]string{"none", "stop-id", "stop-text", "max", "stopped", "full"}
	modeNames   = [...]string{"raw", "story", "chat"}
)

// StageName is the stage's part of its catalogue key.
func StageName(s proto.Stage) string { return nameOf(stageNames[:], int(s)) }

// ReasonName is the reason's part of its catalogue key.
func ReasonName(r proto.Reason) string { return nameOf(reasonNames[:], int(r)) }

// ModeName is the mode's part of its catalogue key.
func ModeName(p proto.PromptMode) string { return nameOf(modeNames[:], int(p)) }

func nameOf(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return names[0]
}
