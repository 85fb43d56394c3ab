package state

import (
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"kvlens/cache/policy"
	"kvlens/wasm/proto"
)

// memory is a method's settings with knobs given as name, value.
func memory(method string, knobs ...any) proto.Memory {
	s := proto.Setting{Name: method}
	for i := 0; i < len(knobs); i += 2 {
		s.Knobs, s.At = append(s.Knobs, knobs[i].(string)), append(s.At, float64(knobs[i+1].(int)))
	}
	return proto.Memory{Recipe: proto.Recipe{Method: s}, Explain: true} // as the built-in model has it
}

// remakes are the settings that effects ask the engine for.
func remakes(effects []Effect) (out []proto.Memory) {
	for _, e := range effects {
		if r, ok := e.(Remake); ok {
			out = append(out, r.Memory)
		}
	}
	return out
}

func TestTheCapKeepsTheConversation(t *testing.T) {
	m, effects := play(t, answered(t), SetCap{4096})
	want := memory(Full)
	want.Cap = 4096
	if m.Policy.Bytes != 4096 || len(m.Turns) != 1 || m.Phase != Changing || !reflect.DeepEqual(remakes(effects), []proto.Memory{want}) {
		t.Errorf("%+v, %+v", m.Policy, effects)
	}
	if long, effects := play(t, m, Tick{1}, Halt{}); !long.Work.Long || !reflect.DeepEqual(effects, []Effect{Cancel{}}) {
		t.Errorf("a long change can't be stopped: %v", effects)
	}
	if _, effects = play(t, m, Run{}); effects != nil {
		t.Errorf("a turn begins before the cap is settled: %v", effects)
	}
	m, _ = play(t, m, Ended{})
	// A cap at or above the default is the default; a share takes the place of bytes.
	if at, _ := play(t, m, SetCap{99 << 20}); at.Policy.Lowered() {
		t.Errorf("%+v", at.Policy)
	}
	if at, effects := play(t, m, SetShare{26}); at.Policy.Share != 25 || at.Policy.Bytes != 0 || remakes(effects)[0].Share != 0.25 {
		t.Errorf("%+v, %v", at.Policy, effects)
	}
	// An engine that was started again gets the reader's cap.
	m, _ = play(t, m, Failed{proto.Failure{Code: proto.CodeDead}})
	if m, effects = play(t, m, Opened{Opened: storyModel}); !reflect.DeepEqual(remakes(effects), []proto.Memory{want}) || m.Phase != Changing {
		t.Errorf("after a restart: %+v, phase %v", effects, m.Phase)
	}
	running, _ := play(t, ready(t), Run{})
	if m, effects = Reduce(running, SetCap{4096}); m.Policy.Lowered() || effects != nil {
		t.Error("the cap changed in the middle of a turn")
	}
}

// A change that fails or is stopped leaves the policy as it was, in the address too.
func TestAChangeThatFails(t *testing.T) {
	m, _ := play(t, answered(t), SetMethod{"snapkv"}, Ended{})
	for name, e := range map[string]Event{
		"failed":  Failed{proto.Failure{Code: proto.CodeSmall}},
		"stopped": Ended{proto.Done{Reason: proto.ReasonStopped}},
	} {
		got, effects := play(t, m, SetShare{12}, e)
		if got.Phase != Idle || !reflect.DeepEqual(got.Policy, m.Policy) || !reflect.DeepEqual(effects, []Effect{Address{"pol=snapkv"}}) {
			t.Errorf("%s: %+v, %v", name, got.Policy, effects)
		}
		if failed := name == "failed"; (got.Problem != nil) != failed {
			t.Errorf("%s: problem %+v", name, got.Problem)
		}
	}
}

// What drops nothing begins with room for everything.
func TestTheFullCacheHasRoom(t *testing.T) {
	m, effects := play(t, answered(t), SetMethod{"snapkv"}, Ended{}, SetShare{25}, Ended{}, SetMethod{Full})
	if m.Policy.Lowered() || !reflect.DeepEqual(remakes(effects), []proto.Memory{memory(Full)}) {
		t.Errorf("%+v, %v", m.Policy, effects)
	}
}

func TestKnobsAndWrappers(t *testing.T) {
	m, effects := play(t, ready(t), SetMethod{"snapkv"}, Ended{}, SetKnob{"snapkv", "kernel", 8}, Ended{}, SetKnob{"snapkv", "window", 32})
	// A kernel is odd; a window that was asked for is said even where it is the published one.
	if want := memory("snapkv", "kernel", 9, "window", 32); !reflect.DeepEqual(remakes(effects), []proto.Memory{want}) {
		t.Errorf("%+v, want %+v", remakes(effects), want)
	}
	m, _ = play(t, m, Ended{}, SetWrap{"adakv", true}, Ended{}, SetKnob{"adakv", "alpha", 0.5}, Ended{})
	if got := m.Policy.Fragment(); got != "adakv.alpha=0.5&pol=snapkv&snapkv.kernel=9&snapkv.window=32&wrap=adakv" {
		t.Errorf("address %q", got)
	}
	// A wrapper that the method can't have goes; one that fits stays, with its knobs.
	if to, _ := play(t, m, SetMethod{"pyramidkv"}); len(to.Policy.Recipe.Wraps) != 1 || to.Policy.Touched() != true {
		t.Errorf("under another method: %+v", to.Policy.Recipe)
	}
	if to, _ := play(t, m, SetMethod{"adapyramid"}); len(to.Policy.Recipe.Wraps) != 0 {
		t.Errorf("under a method with budgets of its own: %+v", to.Policy.Recipe)
	}
	if to, _ := play(t, m, ResetKnobs{}); to.Policy.Touched() || len(to.Policy.Recipe.Wraps) != 1 {
		t.Errorf("reset: %+v", to.Policy.Recipe)
	}
	for _, e := range []Event{SetMethod{"magic"}, SetMethod{"adakv"}, SetWrap{"snapkv", true}, SetMethod{"headkv"}} {
		if to, effects := Reduce(ready(t), e); !reflect.DeepEqual(to.Policy, fullCache()) || remakes(effects) != nil {
			t.Errorf("%+v: %+v", e, to.Policy) // the last one needs tables, which the model of this test lacks
		}
	}
}

// The defaults are left out of the address, so that a later default counts for old links; values out of range are said.
func TestPolicyInTheAddress(t *testing.T) {
	for fragment, want := range map[string]struct {
		again   string // how the policy is written
		notices string // their keys
	}{
		"": {},
		"pol=snapkv&cap=25&snapkv.window=8&ask=later": {again: "ask=later&cap=25&pol=snapkv&snapkv.window=8"},
		"pol=full&cap=100":                {},
		"pol=<script>":                    {notices: "notice.policy"},
		"pol=adakv":                       {notices: "notice.policy"},
		"pol=snapkv&wrap=adakv+snapkv":    {again: "pol=snapkv&wrap=adakv", notices: "notice.policy"},
		"pol=snapkv&snapkv.kernel=9999":   {again: "pol=snapkv&snapkv.kernel=31", notices: "notice.value"},
		"pol=snapkv&snapkv.kernel=NaN":    {again: "pol=snapkv", notices: "notice.value"},
		"pol=tova&snapkv.kernel=3":        {again: "pol=tova"},
		"cap=0":                           {again: "cap=12", notices: "notice.value"},
		"cap=many":                        {notices: "notice.value"},
		"bytes=16896":                     {again: "bytes=16896"},
		"bytes=99999999999":               {notices: "notice.value"},
		"pol=h2o&h2o.decay=0.99&cap=50&x": {again: "cap=50&h2o.decay=0.99&pol=h2o"},
	} {
		o := ParseAddress("", "#"+fragment)
		var keys []string
		for _, n := range o.Notices {
			keys = append(keys, n.Key)
		}
		if got := o.Policy.Fragment(); got != want.again || strings.Join(keys, " ") != want.notices {
			t.Errorf("%q: %q with %q, want %q with %q", fragment, got, keys, want.again, want.notices)
		}
	}
	// Every method and wrapper comes back from the address as it went.
	for _, x := range policy.Methods() {
		p := fullCache().withMethod(x.Name)
		if x.Wrapper {
			p = fullCache().withMethod("snapkv").withWrap(x.Name, true)
		}
		for _, k := range x.Knobs {
			p = p.withKnob(x.Name, k.Name, k.Max)
		}
		if got := ParseAddress("", p.Fragment()); !reflect.DeepEqual(got.Policy.memory(), p.memory()) || got.Notices != nil {
			t.Errorf("%s: %+v, %v", x.Name, got.Policy, got.Notices)
		}
	}
}

// Whatever the control says, the registry takes it.
func TestClampedKnobsAreValid(t *testing.T) {
	for _, x := range policy.Methods() {
		for _, k := range x.Knobs {
			for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), k.Min, k.Max, k.Default, (k.Min + k.Max) / 2, k.Min + 0.4, 7.7} {
				r := policy.Recipe{Method: x.Name, Knobs: map[string]float64{k.Name: ClampKnob(&k, v)}}
				if x.Wrapper {
					r = policy.Recipe{Method: "snapkv", Wraps: []policy.Wrap{{Name: x.Name, Knobs: r.Knobs}}}
				}
				if err := r.Check(); err != nil {
					t.Errorf("%v: %v", v, err)
				}
			}
		}
	}
}

// With the question later, every question begins from the story alone.
func TestTheQuestionLater(t *testing.T) {
	m, effects := play(t, answered(t), SetLater{true}, Run{Question: "What is here?"})
	g := effects[0].(Generate)
	if !g.Later || g.Continue || g.Text != "The cup is here." || g.Question != "What is here?" || len(m.Turns) != 1 {
		t.Errorf("%+v, %d turns", g, len(m.Turns))
	}
	if _, effects = play(t, m, SetMode{proto.Raw}); effects != nil {
		t.Errorf("%v", effects)
	}
}

// A recipe of the address that the model can't run gives way to the full cache.
func TestARecipeWithoutTables(t *testing.T) {
	m, _ := play(t, New(), Start{Options: ParseAddress("", "#pol=headkv&cap=50"), Offers: offers})
	with := storyModel
	with.Tables = true
	if got, effects := play(t, m, Opened{Opened: with}); got.Policy.Recipe.Method != "headkv" || len(remakes(effects)) != 1 || got.Notices != nil {
		t.Errorf("%+v, %v", got.Policy, effects)
	}
	got, effects := play(t, m, Opened{Opened: storyModel})
	if got.Policy.Recipe.Method != Full || got.Policy.Share != 50 || len(remakes(effects)) != 1 || got.Notices[0].Key != "notice.tables" {
		t.Errorf("%+v, %v, %v", got.Policy, effects, got.Notices)
	}
}

// A link that is followed on the open page brings its policy; a jump within the page does not.
func TestFollowingALink(t *testing.T) {
	m, effects := play(t, answered(t), Follow{"#pol=tova&cap=50&tova.x=1"})
	if m.Policy.Recipe.Method != "tova" || m.Policy.Share != 50 || len(remakes(effects)) != 1 || m.Phase != Changing {
		t.Errorf("%+v, %v", m.Policy, effects)
	}
	if busy, effects := Reduce(m, Follow{"#pol=window"}); !reflect.DeepEqual(busy, m) || !slices.Equal(effects, []Effect{Address{"cap=50&pol=tova"}}) {
		t.Errorf("while the cache changes: %+v, %v", busy.Policy, effects)
	}
	m, _ = play(t, m, Ended{})
	if again, effects := Reduce(m, Follow{"#main"}); !reflect.DeepEqual(again, m) || effects != nil {
		t.Errorf("%+v, %v", again.Policy, effects)
	}
	if m, _ = play(t, m, Follow{"#pol=magic&x="}); m.Policy.Recipe.Method != Full || len(m.Notices) != 1 {
		t.Errorf("%+v, %v", m.Policy, m.Notices)
	}
	if m, _ = play(t, m, Ended{}, Follow{"#pol=headkv"}); m.Policy.Recipe.Method != Full || m.Notices[0].Key != "notice.tables" {
		t.Errorf("%+v, %v", m.Policy, m.Notices)
	}
}

// kept is a report of two layers with two KV heads each after five tokens: list by list the positions that are there.
func kept(lists ...[]int) proto.Kept {
	k := proto.Kept{
		Tokens: 5, Layers: 2, KVHeads: 2, Budget: 3, Reserve: 1, Bits: make([]uint8, 4), Reasons: make([]uint8, 20), Caps: []uint32{3, 3, 3, 3}, Recipe: "snapkv",
	}
	for i, list := range lists {
		for _, p := range list {
			k.Bits[i] |= 1 << p
			k.Reasons[5*i+p] = uint8(proto.KeptScore)
		}
	}
	return k
}

// What is kept after steps is what was kept and the tokens since, but for those that left.
func TestKeptIsFolded(t *testing.T) {
	m, _ := play(t, ready(t), Run{}, Keeps{kept([]int{0, 4}, []int{1, 4}, []int{2, 4}, []int{3, 4})})
	left := func(position uint32, layer, head, p uint32) proto.Step {
		s := step(position, 5, "x")
		s.Evictions = proto.Evictions{Layer: []uint32{layer}, Head: []uint32{head}, Position: []uint32{p}}
		return s
	}
	after, _ := play(t, m, Stepped{Steps: []proto.Step{step(5, 5, "a"), left(6, 1, 0, 2)}}, Stepped{Steps: []proto.Step{left(7, 0, 0, 5), left(8, 9, 0, 0), left(9, 0, 7, 0), left(10, 0, 0, 99)}})
	want := map[int][]int{0: {0, 4, 6, 7, 8, 9}, 1: {1, 4, 5, 6, 7, 8, 9}, 2: {4, 5, 6, 7, 8, 9}, 3: {3, 4, 5, 6, 7, 8, 9}}
	got := map[int][]int{}
	for list := range 4 {
		for p := range 12 {
			if after.Kept.Has(list, p) {
				got[list] = append(got[list], p)
			}
		}
		if after.Kept.Held(list) != len(want[list]) {
			t.Errorf("list %d holds %d", list, after.Kept.Held(list))
		}
	}
	if !maps.EqualFunc(got, want, slices.Equal) || after.Kept.Tokens != 10 {
		t.Errorf("kept %v of %d, want %v", got, after.Kept.Tokens, want)
	}
	if n := m.Kept.Held(2); n != 2 {
		t.Errorf("the model before the steps has %d in a list of 2", n)
	}
	// Many tokens later there are words for them.
	far, _ := play(t, m, Stepped{Steps: []proto.Step{step(300, 5, "x")}})
	if far.Kept.Held(0) != 2+295 || !far.Kept.Has(3, 299) || far.Kept.Has(3, 300) {
		t.Errorf("after 300 tokens a list holds %d", far.Kept.Held(0))
	}
	if again, _ := play(t, m, Keeps{kept()}); again.Kept.Held(0) != 0 {
		t.Error("a report does not replace what was added up")
	}
}

func TestFates(t *testing.T) {
	k := keptOf(kept([]int{0, 4}, []int{1, 4}, []int{2, 4}, []int{0, 3, 4}))
	type fate struct {
		held, of int
		why      proto.Keeps
	}
	for _, c := range []struct {
		scope Scope
		at, n int
		want  fate
	}{
		{Everywhere, 0, 1, fate{2, 4, proto.KeptScore}},
		{Everywhere, 4, 1, fate{4, 4, proto.KeptScore}},
		{Scope{0, -1}, 0, 2, fate{2, 4, proto.KeptScore}}, // two tokens in two lists
		{Scope{1, 1}, 1, 1, fate{0, 1, 0}},
		{Scope{1, 1}, 3, 1, fate{1, 1, proto.KeptScore}},
		{Everywhere, 5, 1, fate{}},                       // not stored yet
		{Scope{7, 0}, 4, 1, fate{4, 4, proto.KeptScore}}, // no such layer: everywhere
	} {
		held, of, why := k.Columns(c.scope).Fate(c.at, c.n)
		if got := (fate{held, of, why}); got != c.want {
			t.Errorf("%+v, %d tokens at %d: %+v, want %+v", c.scope, c.n, c.at, got, c.want)
		}
	}
	if held, of := k.Count(Scope{1, -1}); held != 5 || of != 10 {
		t.Errorf("layer 1 has %d of %d", held, of)
	}
	for scope, left := range map[Scope]bool{Everywhere: false, {0, 0}: true, {1, -1}: true} { // 1 and 3 are in one list each
		if whys, gone := k.Columns(scope).Whys(); !slices.Equal(whys, []proto.Keeps{proto.KeptScore}) || gone != left {
			t.Errorf("%+v: %v, %v", scope, whys, gone)
		}
	}
	if !k.Uneven() {
		t.Error("lists of two and of three tokens count as alike")
	}
	if even := keptOf(kept([]int{0, 4}, []int{1, 4}, []int{2, 4}, []int{3, 4})); even.Uneven() {
		t.Errorf("lists of two tokens do not: %+v", even.Caps)
	}
	odd := kept()
	odd.Bits = odd.Bits[:3]
	if k := keptOf(odd); !k.All || k.Held(0) != 5 {
		t.Errorf("of a report whose columns do not fit: %+v", k)
	}
}
