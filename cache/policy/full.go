package policy

// full keeps everything: what all others are compared with.
var full = Method{
	Name: "full", Title: "Full cache",
	Rule:  "Keeps every token; at the cap the answer ends.",
	Looks: "nothing", When: "never", Granularity: "none",
	Stops: true,
	plan:  func(Knobs) Plan { return Plan{} },
}
