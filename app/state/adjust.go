package state

import (
	"reflect"
	"strings"

	"kvlens/cache/policy"
)

// adjust changes the policy. While something runs it stays as it is.
func adjust(m Model, e Event) (Model, []Effect) {
	if m.Occupied() {
		return m, nil
	}
	p := m.Policy
	switch e := e.(type) {
	case SetCap:
		if p.Bytes, p.Share = e.Bytes, 100; m.Memory.Default != 0 && e.Bytes >= m.Memory.Default {
			p.Bytes = 0
		}
	case SetShare:
		p.Bytes, p.Share = 0, nearest(e.Percent)
	case SetMethod:
		if c := policy.Find(e.Name); c == nil || c.Wrapper || m.HasOpened && !m.Opened.Tables && Tables(policy.Recipe{Method: e.Name}) {
			return m, nil
		}
		if p = p.withMethod(e.Name); policy.Find(e.Name).Stops { // what drops nothing needs room for all of it
			p.Share, p.Bytes = 100, 0
		}
	case SetWrap:
		if p = p.withWrap(e.Name, e.On); p.Recipe.Check() != nil {
			return m, nil
		}
	case SetKnob:
		p = p.withKnob(e.Of, e.Name, e.Value)
	case ResetKnobs:
		p = p.withDefaults()
	case SetLater:
		p.Later = e.Later
	}
	m, effects := m.remade(p)
	return m, append([]Effect{Address{m.fragment()}}, effects...)
}

// follow takes over the policy of an address. A fragment without values names a place on the page.
func follow(m Model, fragment string) (Model, []Effect) {
	switch {
	case !strings.Contains(fragment, "="):
		return m, nil
	case m.Occupied(): // the address goes back to what is
		return m, []Effect{Address{m.fragment()}}
	}
	o := ParseAddress("", fragment)
	m.Notices = o.Notices
	if o.Rival.Recipe.Method != "" {
		m.Compare.Open, m.Compare.Side[1] = true, o.Rival
	}
	return m.remade(m.able(o.Policy))
}

// able is a policy that the open model can follow: recipes that need measured heads give way to the full cache.
func (m *Model) able(p Policy) Policy {
	if !m.HasOpened || m.Opened.Tables || !Tables(p.Recipe) {
		return p
	}
	m.Notices = append(m.Notices[:len(m.Notices):len(m.Notices)], Notice{Key: "notice.tables"})
	return p.withMethod(Full)
}

// remade asks the engine for a policy, once there is one that is ready.
func (m Model) remade(p Policy) (Model, []Effect) {
	was := m.Policy
	m.Policy = p
	if m.Phase != Idle || reflect.DeepEqual(was.memory(), p.memory()) {
		return m, nil
	}
	m.Memory.PeakKV = 0
	m = m.change(taskSettings)
	m.was = was
	return m, []Effect{Remake{m.Records.within(p.memory())}}
}
