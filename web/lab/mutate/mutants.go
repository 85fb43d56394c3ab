package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// mutant is a file with one token changed.
type mutant struct {
	file     string
	at       int // byte of the token
	line     int
	from, to string
}

func (m *mutant) apply(text []byte) []byte {
	return []byte(string(text[:m.at]) + m.to + string(text[m.at+len(m.from):]))
}

// key names a mutant by what its line says, so that the list of equivalents survives other changes of the file.
func (m *mutant) key() string { return fmt.Sprintf("%s:%d %s → %s", m.file, m.line, m.from, m.to) }

// tokens are the tokens of WGSL that mutants change, longest first; numbers and names stand for themselves.
var tokens = regexp.MustCompile(`//[^\n]*|@\w+\([^)]*\)|var<[^>]*>|(?:array|vec\d|bitcast|atomic)<(?:[^<>]|<[^<>]*>)*>|->|` +
	`<<|>>|<=|>=|==|!=|&&|\|\||\+\+|--|\+=|-=|\*=|/=|\|=|[-+*/%<>&|^~]|\d+\.\d+(?:e-?\d+)?|0x[0-9a-f]+u?|\d+u?|\w+`)

// changes are the other operators that each is mistaken for.
var changes = map[string]string{
	"+": "-", "-": "+", "*": "+", "/": "*", "%": "/", "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==",
	"&&": "||", "||": "&&", "<<": ">>", ">>": "<<", "&": "|", "|": "&", "^": "|", "+=": "-=", "*=": "+=", "|=": "^=",
	"max": "min", "min": "max", "true": "false", "false": "true",
	// Names that stand for each other where there is nothing else to change.
	"sum": "squares", "x": "y", "scale": "code", "return": "return -",
}

// mutants lists all changes of a file.
func mutants(file, text string) []mutant {
	var out []mutant
	for _, at := range tokens.FindAllStringIndex(text, -1) {
		from := text[at[0]:at[1]]
		to, ok := changes[from]
		if from[0] >= '0' && from[0] <= '9' {
			to, ok = bump(from), true
		}
		if !ok || to == "" {
			continue
		}
		out = append(out, mutant{file, at[0], 1 + strings.Count(text[:at[0]], "\n"), from, to})
	}
	return out
}

// bump is a number and a bit.
func bump(n string) string {
	if strings.Contains(n, ".") {
		v, err := strconv.ParseFloat(n, 64)
		if err != nil {
			return ""
		}
		return strconv.FormatFloat(v*1.5+1, 'g', -1, 64)
	}
	digits := strings.TrimSuffix(n, "u")
	v, err := strconv.ParseUint(digits, 0, 32)
	if err != nil || v == 0xffffffff {
		return ""
	}
	return strconv.FormatUint(v+1, 10) + n[len(digits):]
}

// order spreads the choice over the file: the middle, then the quarters, and so on.
func order(all []mutant) []mutant {
	var out []mutant
	taken := make([]bool, len(all))
	for parts := 2; len(out) < len(all) && parts <= 4*len(all)+2; parts *= 2 {
		for i := 1; i < parts; i++ {
			if at := i * len(all) / parts; !taken[at] {
				taken[at] = true
				out = append(out, all[at])
			}
		}
	}
	for i, m := range all {
		if !taken[i] {
			out = append(out, m)
		}
	}
	return out
}

// equivalents are the mutants that compute the same, each with the reason.
var equivalents = map[string]string{
	"lib/half.wgsl:10 < → <=":                 "both formulas give 2^-14 for the smallest normal half",
	"lib/product_lanes.wgsl:24 < → <=":        "one lane more adds to a number that is not read again",
	"fold.wgsl:102 < → <=":                    "what is equal was found two lines above",
	"lib/whole_lanes.wgsl:11 - → +":           "the first lane's number is the only one that is written, and its own lane is a multiple of LANES",
	"output.wgsl:43 0u → 1u":                  "there is one input row, which input4 does not ask for",
	"compact.wgsl:46 < → <=":                  "no lane has a hole behind the first slot that goes",
	"compact.wgsl:54 < → <=":                  "one hole more than there are tokens to move is not read",
	"lib/begin_zero.wgsl:3 return → return -": "−0 adds up as 0 does",
	"byrank.wgsl:64 + → -":                    "LIVE is word 0",
	"lib/choose.wgsl:18 - → +":                "lanes have more each, and all candidates have a lane still",
	"lib/left_gone.wgsl:7 0.0 → 1":            "nobody asks for the value of what has the lowest logit",
	"lib/left_gone.wgsl:7 return → return -":  "nobody asks for the value of what has the lowest logit",
	"lib/worth_nothing.wgsl:3 0u → 1u":        "all are worth the same",
	"weigh.wgsl:44 > → >=":                    "e to the lowest logit is 0",
	"weigh.wgsl:54 < → <=":                    "no slot follows",
	"lib/lists.wgsl:17 12u → 13u":             "the host does not read the word, and its other use is over by then",
	"lib/radix.wgsl:14 > → >=":                "infinity, which WGSL does not promise to tell from other numbers",
}
