package state

import (
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"kvlens/cache/policy"
	"kvlens/wasm/proto"
)

// Policy is what the reader asks of the cache.
type Policy struct {
	Recipe policy.Recipe // knobs hold only what differs from the defaults
	Share  int           // percent of what the story takes in full; 100 is the default cap
	Bytes  uint64        // cap instead of a share; 0 is none
	Later  bool          // the story is compressed before the question is there
}

// Full is the name of the recipe that keeps everything.
const Full = "full"

// fullCache is the policy of a page that nobody has touched.
func fullCache() Policy { return Policy{Recipe: policy.Recipe{Method: Full}, Share: 100} }

// Shares are the steps of the cap control, in percent of what the full cache takes.
var Shares = []int{12, 25, 35, 50, 75, 100}

// Lowered reports whether the cap is not the default one.
func (p Policy) Lowered() bool { return p.Bytes != 0 || p.Share != 100 }

// memory is the policy as the engine takes it.
func (p Policy) memory() proto.Memory {
	m := proto.Memory{Cap: p.Bytes, Recipe: proto.Recipe{Method: setting(p.Recipe.Method, p.Recipe.Knobs)}}
	if p.Bytes == 0 && p.Share != 100 {
		m.Share = float32(p.Share) / 100
	}
	for _, w := range p.Recipe.Wraps {
		m.Recipe.Wraps = append(m.Recipe.Wraps, setting(w.Name, w.Knobs))
	}
	return m
}

func setting(name string, knobs map[string]float64) proto.Setting {
	s := proto.Setting{Name: name}
	for _, k := range slices.Sorted(maps.Keys(knobs)) {
		s.Knobs, s.At = append(s.Knobs, k), append(s.At, knobs[k])
	}
	return s
}

// Wrap finds a wrapper of the recipe.
func (p Policy) Wrap(name string) (policy.Wrap, bool) {
	for _, w := range p.Recipe.Wraps {
		if w.Name == name {
			return w, true
		}
	}
	return policy.Wrap{}, false
}

// Value is what a knob of the method or of a wrapper stands at.
func (p Policy) Value(of string, k *policy.Knob) float64 {
	knobs := p.Recipe.Knobs
	if of != p.Recipe.Method {
		w, _ := p.Wrap(of)
		knobs = w.Knobs
	}
	if v, ok := knobs[k.Name]; ok {
		return v
	}
	return k.Default
}

// Touched reports whether any knob differs from its default.
func (p Policy) Touched() bool {
	n := len(p.Recipe.Knobs)
	for _, w := range p.Recipe.Wraps {
		n += len(w.Knobs)
	}
	return n > 0
}

// Tables reports whether a recipe needs measured heads.
func Tables(r policy.Recipe) bool { return r.Needs() != policy.Needs{} }

// Fits reports whether a wrapper can go around the recipe as it is.
func (p Policy) Fits(wrapper string) bool {
	if _, on := p.Wrap(wrapper); on {
		return true
	}
	return p.withWrap(wrapper, true).Recipe.Check() == nil
}

// withMethod chooses another method, with its defaults. Wrappers stay where they fit.
func (p Policy) withMethod(name string) Policy {
	wraps := p.Recipe.Wraps
	p.Recipe = policy.Recipe{Method: name}
	for _, w := range wraps {
		with := p.Recipe
		with.Wraps = append(slices.Clone(with.Wraps), w)
		if with.Check() == nil {
			p.Recipe = with
		}
	}
	return p
}

func (p Policy) withWrap(name string, on bool) Policy {
	p.Recipe.Wraps = slices.Clone(p.Recipe.Wraps)
	p.Recipe.Wraps = slices.DeleteFunc(p.Recipe.Wraps, func(w policy.Wrap) bool { return w.Name == name })
	if on {
		p.Recipe.Wraps = append(p.Recipe.Wraps, policy.Wrap{Name: name})
	}
	return p
}

// withKnob sets a knob of the method or of a wrapper, brought into its range.
func (p Policy) withKnob(of, name string, v float64) Policy {
	m := policy.Find(of)
	if m == nil {
		return p
	}
	i := slices.IndexFunc(m.Knobs, func(k policy.Knob) bool { return k.Name == name })
	if i < 0 {
		return p
	}
	v = ClampKnob(&m.Knobs[i], v)
	set := func(knobs map[string]float64) map[string]float64 {
		knobs = maps.Clone(knobs)
		delete(knobs, name)
		if v == m.Knobs[i].Default && name != "window" { // a window that is asked for does not follow the cap
			return knobs
		}
		if knobs == nil {
			knobs = map[string]float64{}
		}
		knobs[name] = v
		return knobs
	}
	if of == p.Recipe.Method {
		p.Recipe.Knobs = set(p.Recipe.Knobs)
		return p
	}
	p.Recipe.Wraps = slices.Clone(p.Recipe.Wraps)
	for i := range p.Recipe.Wraps {
		if w := &p.Recipe.Wraps[i]; w.Name == of {
			w.Knobs = set(w.Knobs)
		}
	}
	return p
}

// withDefaults puts all knobs back.
func (p Policy) withDefaults() Policy {
	p.Recipe.Knobs = nil
	p.Recipe.Wraps = slices.Clone(p.Recipe.Wraps)
	for i := range p.Recipe.Wraps {
		p.Recipe.Wraps[i].Knobs = nil
	}
	return p
}

// ClampKnob brings a value into a knob's range and onto its steps; not-a-number becomes the default.
func ClampKnob(k *policy.Knob, v float64) float64 {
	if math.IsNaN(v) {
		return k.Default
	}
	v = min(max(v, k.Min), k.Max)
	step := k.Step
	if step == 0 && k.Kind != policy.KnobFloat {
		step = 1
	}
	if step > 0 {
		v = k.Min + math.Round((v-k.Min)/step)*step
		if v > k.Max {
			v -= step
		}
	}
	return v
}

// Keys of a policy in the page's address; a knob's is its method's name, a point and its own.
const (
	keyMethod = "pol"
	keyWraps  = "wrap"
	keyShare  = "cap"
	keyBytes  = "bytes"
	keyAsk    = "ask"
	askLater  = "later"
)

// fragment is what the address says of the page: its policy, and B of a comparison that is open.
func (m Model) fragment() string { return m.rivalFragment(m.Policy.Fragment()) }

// Fragment is the policy as part of an address; "" for the full cache.
func (p Policy) Fragment() string {
	q := url.Values{}
	knobs := func(of string, knobs map[string]float64) {
		for name, v := range knobs {
			q.Set(of+"."+name, strconv.FormatFloat(v, 'g', -1, 64))
		}
	}
	if p.Recipe.Method != Full {
		q.Set(keyMethod, p.Recipe.Method)
	}
	knobs(p.Recipe.Method, p.Recipe.Knobs)
	var wraps []string
	for _, w := range p.Recipe.Wraps {
		wraps = append(wraps, w.Name)
		knobs(w.Name, w.Knobs)
	}
	if len(wraps) > 0 {
		q.Set(keyWraps, strings.Join(wraps, " "))
	}
	switch {
	case p.Bytes != 0:
		q.Set(keyBytes, strconv.FormatUint(p.Bytes, 10))
	case p.Share != 100:
		q.Set(keyShare, strconv.Itoa(p.Share))
	}
	if p.Later {
		q.Set(keyAsk, askLater)
	}
	return q.Encode()
}

// policyOf reads a policy from an address. What is out of range is brought into it or left out, with a notice.
func policyOf(q url.Values) (p Policy, notices []Notice) {
	p = fullCache()
	odd := func(key, value, instead string) {
		notices = append(notices, Notice{Key: key, Args: []string{clip(value), instead}})
	}
	if v := q.Get(keyMethod); v != "" {
		if m := policy.Find(v); m != nil && !m.Wrapper {
			p.Recipe.Method = v
		} else {
			odd("notice.policy", v, "")
		}
	}
	for _, name := range strings.Fields(q.Get(keyWraps)) {
		if w := policy.Find(name); w != nil && w.Wrapper && p.Fits(name) {
			p = p.withWrap(name, true)
		} else {
			odd("notice.policy", name, "")
		}
	}
	used := []string{p.Recipe.Method}
	for _, w := range p.Recipe.Wraps {
		used = append(used, w.Name)
	}
	for _, of := range used {
		for _, k := range policy.Find(of).Knobs {
			text := q.Get(of + "." + k.Name)
			if text == "" {
				continue
			}
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				v = math.NaN()
			}
			p = p.withKnob(of, k.Name, v)
			if got := p.Value(of, &k); got != v {
				odd("notice.value", of+"."+k.Name+"="+text, strconv.FormatFloat(got, 'g', -1, 64))
			}
		}
	}
	p.Later = q.Get(keyAsk) == askLater
	if v := q.Get(keyShare); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil {
			n = 100
		}
		p.Share = nearest(n)
		if err != nil || p.Share != n {
			odd("notice.value", keyShare+"="+v, strconv.Itoa(p.Share))
		}
	}
	if v := q.Get(keyBytes); v != "" {
		n, err := strconv.ParseUint(v, 10, 30)
		if p.Bytes = n; err != nil {
			p.Bytes = 0
			odd("notice.value", keyBytes+"="+v, strconv.Itoa(p.Share)+" %")
		}
	}
	return p, notices
}

// nearest is the step of the cap control that is nearest to a share.
func nearest(percent int) int {
	best := Shares[len(Shares)-1]
	for _, s := range Shares {
		if distance(s, percent) < distance(best, percent) {
			best = s
		}
	}
	return best
}

func distance(a, b int) int { return max(a, b) - min(a, b) }
