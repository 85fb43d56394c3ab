package policy

// Recipe is a method with its knobs, as the page and the address bar carry it.
type Recipe struct {
	Method string             `json:"method"`          // a registered name
	Knobs  map[string]float64 `json:"knobs,omitempty"` // by name; what is missing has its default
	Wraps  []Wrap             `json:"wraps,omitempty"` // applied in order
}

// Wrap is a wrapper with its knobs: adaptive head budgets, chunks, …
type Wrap struct {
	Name  string             `json:"name"`
	Knobs map[string]float64 `json:"knobs,omitempty"`
}

// Knob is one number of a method.
type Knob struct {
	Name              string
	Kind              KnobKind
	Min, Max, Default float64
	Step              float64  // values are Min and whole steps above it; 0 is any number, or any integer
	Choices           []string // KnobChoice: the value is an index
	Help              string   // one sentence
}

// KnobKind is what a knob's numbers are.
type KnobKind uint8

// The kinds of knobs.
const (
	KnobInt KnobKind = iota
	KnobFloat
	KnobBool // 0 or 1
	KnobChoice
)

// Method is a registered policy: its schema, and how its knobs become a plan.
type Method struct {
	Name, Title string
	Rule        string // one sentence: what it keeps
	Paper       string // arXiv number or venue
	Looks       string // what it looks at
	When        string // when it acts, as published; methods that act once have our rule for a full list on top, DecodeCap
	Granularity string // what stays or leaves together, with default knobs and no wrapper
	Lossy       bool   // a query may not see every token
	Question    bool   // a question in the window helps it
	Needs       Needs
	Stops       bool // it can't evict: at the cap it stops with a sentence
	Wrapper     bool // changes another method's plan
	Knobs       []Knob

	plan func(k Knobs) Plan         // of a method
	wrap func(p Plan, k Knobs) Plan // of a wrapper
}

// Knobs are checked numbers by name.
type Knobs map[string]float64

// Needs says what head tables a plan uses.
type Needs struct{ Semantic, Retrieval, Induction, Errors bool }
