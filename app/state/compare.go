package state

import (
	"math"
	"net/url"
	"strconv"
	"strings"

	"kvlens/cache/policy"
	"kvlens/wasm/proto"
)

// Compare is two settings of the cache beside the full one, on the story and question of the page.
type Compare struct {
	Open bool
	Own  bool      // A is chosen here, not the page's policy
	Side [2]Policy // what A and B are to be; A only where Own

	Ran      [2]Policy // of the last run, and what it was about
	Asked    string
	Gold     string // the right answer, where it is known
	Other    string
	Pieces   []Piece
	Tokens   []Compared
	Free     [2][]Token // the free answers
	Strays   [2]int     // index of the first token of a free answer that is another than the full cache's; −1: none so far
	Sums     [2]*Contrast
	Begun    bool
	Ended    bool
	Stopped  bool
	Failed   bool
	Position uint32 // of the first token of the answer
}

// Compared is one token of the full cache's answer, and what A and B would have said.
type Compared struct {
	Text   string
	Prob   [3]float64 // full, A, B
	KL     [2]float64 // nats
	Agree  [2]bool
	Top    [2]string
	Margin [3]float64 // of the right answer before the wrong one; NaN where it is not known
}

// Contrast sums up one run.
type Contrast struct {
	proto.Contrast
	Kept     Kept
	Retained [][]float64 // by layer and query head, shares of one; nil if unknown
}

// Mean is the mean of what a run retains of the full cache's attention, and of how many heads.
func (c *Contrast) Mean() (mean float64, n int) {
	for _, row := range c.Retained {
		for _, v := range row {
			mean += v
			n++
		}
	}
	return mean / max(1, float64(n)), n
}

// Matchups are the comparisons that the page offers: the methods of A and of B.
var Matchups = [][2]string{{"streamingllm", "h2o"}, {"snapkv", "compresskv"}, {Full, Full}}

// matchShare is the share under which methods meet when the page's cap is not lowered.
const matchShare = 25

// rival is the B of a page that nobody has touched.
func rival() Policy { return Policy{Recipe: policy.Recipe{Method: "streamingllm"}, Share: matchShare} }

// SideOf is what A or B is to be.
func (m Model) SideOf(side int) Policy {
	if side == 0 && !m.Compare.Own {
		return m.Policy
	}
	return m.Compare.Side[side]
}

// Able reports whether a method can run on the model that is opened.
func (m Model) Able(method string) bool {
	p := policy.Find(method)
	return p != nil && !p.Wrapper && (!m.HasOpened || m.Opened.Tables || !Tables(policy.Recipe{Method: method}))
}

// sided is the model with another A or B. What was measured stays: it says itself of what.
func sided(m Model, e SetSide) Model {
	if e.Side < 0 || e.Side > 1 || m.Occupied() {
		return m
	}
	if e.Side == 0 && e.Method == "" && e.Share == 0 { // A follows the page again
		m.Compare.Own = false
		return m
	}
	p := m.SideOf(e.Side)
	if e.Method != "" {
		if !m.Able(e.Method) {
			return m
		}
		if p = (Policy{Recipe: policy.Recipe{Method: e.Method}, Share: p.Share}); p.Share == 100 {
			p.Share = matchShare
		}
	}
	if e.Share != 0 {
		p.Share, p.Bytes = nearest(e.Share), 0
	}
	m.Compare.Side[e.Side] = p.uncapped()
	m.Compare.Own = m.Compare.Own || e.Side == 0
	return m
}

// uncapped is a policy whose cap would only end the answer, because its method drops nothing, without it.
func (p Policy) uncapped() Policy {
	if c := policy.Find(p.Recipe.Method); c != nil && c.Stops {
		p.Share, p.Bytes = 100, 0
	}
	return p
}

// matched sets both sides.
func matched(m Model, i int) Model {
	if i < 0 || i >= len(Matchups) || m.Occupied() || !m.Able(Matchups[i][0]) || !m.Able(Matchups[i][1]) {
		return m
	}
	share := m.Policy.Share
	if share == 100 {
		share = matchShare
	}
	for side, method := range Matchups[i] {
		m.Compare.Side[side] = Policy{Recipe: policy.Recipe{Method: method}, Share: share}.uncapped()
	}
	m.Compare.Own = true
	return m
}

// compare runs a comparison on what the page shows: the question that was asked last, or the one that is written.
func compare(m Model, now float64) (Model, []Effect) {
	if m.Phase != Idle {
		return m, nil
	}
	asked := strings.TrimSpace(m.Draft.Question)
	if t, ok := m.Live(); ok {
		asked = t.Asked
	}
	c := proto.Compare{Mode: m.Mode, Max: m.Max}
	switch m.Mode {
	case proto.Story:
		c.Text, c.Question, c.Later = strings.TrimSpace(m.Draft.Story), asked, m.Policy.Later
	case proto.Chat:
		if c.Text, c.System = asked, m.Draft.System; len(m.Turns) == 0 {
			c.Text = strings.TrimSpace(m.Draft.Message)
		}
		asked = c.Text
	default:
		c.Text, asked = m.Draft.Raw, strings.TrimSpace(m.Draft.Raw)
	}
	if asked == "" || c.Text == "" {
		m.Problem = m.problem(proto.Failure{Code: proto.CodeEmpty})
		m.Problem.field = EditorOf(m.Mode)
		return m, []Effect{Focus{m.Problem.field}}
	}
	c.Gold, c.Other = m.Draft.answers(asked)
	x := m.Compare
	x.Ran = [2]Policy{m.SideOf(0), m.SideOf(1)}
	c.A, c.B = x.Ran[0].memory(), x.Ran[1].memory()
	m.Compare = Compare{
		Open: true, Own: x.Own, Side: x.Side, Ran: x.Ran, Asked: asked, Gold: c.Gold, Other: c.Other, Begun: true, Strays: [2]int{-1, -1},
	}
	m.Problem, m.Notices = nil, nil
	m.Phase, m.Work = Comparing, Work{Stage: proto.StagePrefill, News: now}
	return m, []Effect{RunCompare{c}}
}

// answers are a question's right answer and a wrong one, where the story is one whose answers are known.
func (d Draft) answers(question string) (gold, other string) {
	for i, q := range d.More {
		if q == question && i < len(d.Answers) {
			gold = d.Answers[i]
		}
	}
	for _, a := range d.Answers {
		if gold != "" && a != gold {
			return gold, a
		}
	}
	return "", ""
}

// comparing takes over what comes while a comparison runs. Columns that do not fit are left out.
func comparing(m Model, e Event) Model {
	if m.Phase != Comparing {
		return m
	}
	c := &m.Compare
	switch e := e.(type) {
	case Prompted:
		c.Pieces, m.Work.News = pieces(e.Prompt), e.Now
	case Comparisons:
		c.Tokens = c.Tokens[:len(c.Tokens):len(c.Tokens)]
		for _, x := range e.Tokens {
			if int(x.Index) == len(c.Tokens) {
				c.Tokens = append(c.Tokens, comparedOf(x))
			}
		}
		m.Work.News = e.Now
	case Strays:
		for _, x := range e.Tokens {
			if x.Run > 1 || int(x.Index) != len(c.Free[x.Run]) {
				continue
			}
			if !x.Same && c.Strays[x.Run] < 0 {
				c.Strays[x.Run] = int(x.Index)
			}
			free := c.Free[x.Run]
			c.Free[x.Run] = append(free[:len(free):len(free)], Token{Text: x.Text, ID: x.Token})
		}
		m.Work.News = e.Now
	case Contrasted:
		if e.Run <= 1 {
			c.Sums[e.Run] = m.contrastOf(e.Contrast)
		}
	}
	return m
}

func comparedOf(x proto.Compared) Compared {
	out := Compared{Text: x.Text}
	nan := math.NaN()
	out.Prob, out.KL, out.Margin = [3]float64{nan, nan, nan}, [2]float64{nan, nan}, [3]float64{nan, nan, nan}
	for i := range out.Prob {
		if len(x.Prob) == 3 {
			out.Prob[i] = float64(x.Prob[i])
		}
		if len(x.Margin) == 3 {
			out.Margin[i] = float64(x.Margin[i])
		}
	}
	for i := range out.KL {
		if len(x.KL) == 2 {
			out.KL[i] = float64(x.KL[i])
		}
		if len(x.Agree) == 2 {
			out.Agree[i] = x.Agree[i] == 1
		}
		if len(x.TopTexts) == 2 {
			out.Top[i] = x.TopTexts[i]
		}
	}
	return out
}

func (m Model) contrastOf(e proto.Contrast) *Contrast {
	c := &Contrast{Contrast: e, Kept: keptOf(e.Kept)}
	heads := int(m.Opened.Heads)
	if heads == 0 || len(e.Retained) != heads*int(m.Opened.Layers) {
		return c
	}
	for i, v := range e.Retained {
		if i%heads == 0 {
			c.Retained = append(c.Retained, nil)
		}
		row := &c.Retained[len(c.Retained)-1]
		*row = append(*row, float64(v))
	}
	return c
}

// compared ends a comparison.
func (m Model) compared(stopped, failed bool) Model {
	m.Phase, m.Work = Idle, Work{}
	m.Compare.Ended, m.Compare.Stopped, m.Compare.Failed = true, stopped, failed
	return m
}

// Agreed is of how many forced tokens a run's most probable token is the full cache's, and the mean of KL(full‖run) so far.
func (c Compare) Agreed(run int) (agree int, kl float64) {
	for _, t := range c.Tokens {
		if t.Agree[run] {
			agree++
		}
		kl += t.KL[run]
	}
	return agree, kl / max(1, float64(len(c.Tokens)))
}

// Both is what two runs keep of some tokens: whether each has them in at least half of the places of a scope.
func (c Compare) Both(s Scope, at, n int) (kept [2]bool, ok bool) {
	for i, x := range c.Sums {
		if x == nil || x.Kept.Layers == 0 {
			return kept, false
		}
		first, last := x.Kept.lists(s)
		held, of := 0, 0
		for list := first; list < last; list++ {
			for p := at; p < at+n; p++ {
				if of++; x.Kept.Has(list, p) {
					held++
				}
			}
		}
		kept[i] = of > 0 && 2*held >= of
	}
	return kept, true
}

// Keys of B in the page's address.
const (
	keyRival      = "b"
	keyRivalShare = "bcap"
)

// rivalFragment adds B to an address where the comparison is open.
func (m Model) rivalFragment(fragment string) string {
	if !m.Compare.Open {
		return fragment
	}
	q := url.Values{keyRival: {m.Compare.Side[1].Recipe.Method}}
	if s := m.Compare.Side[1].Share; s != 100 {
		q.Set(keyRivalShare, strconv.Itoa(s))
	}
	if fragment != "" {
		fragment += "&"
	}
	return fragment + q.Encode()
}

// rivalOf reads B from an address; one without a method is none.
func rivalOf(q url.Values) (p Policy, notices []Notice) {
	name := q.Get(keyRival)
	if name == "" {
		return p, nil
	}
	if m := policy.Find(name); m == nil || m.Wrapper {
		return p, []Notice{{Key: "notice.policy", Args: []string{clip(name), ""}}}
	}
	p = Policy{Recipe: policy.Recipe{Method: name}, Share: 100}
	if v := q.Get(keyRivalShare); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil {
			n = 100
		}
		if p.Share = nearest(n); err != nil || p.Share != n {
			notices = []Notice{{Key: "notice.value", Args: []string{clip(keyRivalShare + "=" + v), strconv.Itoa(p.Share)}}}
		}
	}
	return p.uncapped(), notices
}
