package golden

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestClaims checks that every value of every file has exactly one claim, that every claim finds something, and that
// the tests which claims name exist.
func TestClaims(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(Dir(t), "*.json"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no vectors in %s: %v", Dir(t), err)
	}
	cases := make([]int, len(Claims))
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var v any
		if err := json.Unmarshal(raw, &v); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		file := filepath.Base(path)
		for _, problem := range cover(Claims, cases, file, v, []string{""}) {
			t.Errorf("%s: %s", file, problem)
		}
	}
	tested, untested := map[string]int{}, map[string]int{}
	for i, c := range Claims {
		switch {
		case cases[i] == 0 && os.Getenv("KVLENS_GOLDEN") == "": // another folder may lack a kind
			t.Errorf("%s %s: claims nothing", c.File, c.Path)
		case (c.Test == "") == (c.Why == ""):
			t.Errorf("%s %s: wants a test or a reason", c.File, c.Path)
		case c.Test != "":
			for _, test := range strings.Split(c.Test, "; ") {
				tested[test] += cases[i]
			}
		default:
			untested[c.Why] += cases[i]
		}
	}
	for _, m := range []map[string]int{tested, untested} {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			fmt.Printf("%5d cases: %s\n", m[k], k)
		}
	}
	testsExist(t, slices.Sorted(maps.Keys(tested)))
}

// cover walks v, which paths name, down to the values that claims name, and counts cases by claim. An element of a list
// has two names if it has a class, or else a name.
func cover(claims []Claim, cases []int, file string, v any, paths []string) (problems []string) {
	var found []int
	deeper := false
	for i, c := range claims {
		if c.File != file {
			continue
		}
		for _, p := range paths {
			if c.Path == p || c.Path == "*" {
				found = append(found, i)
			} else if rest, ok := strings.CutPrefix(c.Path, p); ok && (p == "" || strings.ContainsAny(rest[:1], ".[{")) {
				deeper = true
			}
		}
	}
	switch {
	case len(found) == 1 && !deeper:
		if list, ok := v.([]any); ok {
			cases[found[0]] += len(list)
		} else {
			cases[found[0]]++
		}
		return nil
	case len(found) > 0:
		return []string{fmt.Sprintf("%s: %d claims, or claims of parts beside one of the whole", paths[0], len(found))}
	case !deeper:
		return []string{paths[0] + ": no claim"}
	}
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			names := suffixed(paths, "[]")
			if m, ok := e.(map[string]any); ok {
				class, ok := m["class"].(string)
				if !ok {
					class, ok = m["name"].(string)
				}
				if ok {
					names = append(names, suffixed(paths, "["+class+"]")...)
				}
			}
			problems = append(problems, cover(claims, cases, file, e, names)...)
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			key := "." + k
			if paths[0] == "" {
				key = k
			}
			names := suffixed(paths, key)
			if paths[0] != "" {
				names = append(names, suffixed(paths, "{}")...)
			}
			problems = append(problems, cover(claims, cases, file, v[k], names)...)
		}
	default:
		problems = append(problems, fmt.Sprintf("%s: claimed as a list or an object, but is %T", paths[0], v))
	}
	return problems
}

func suffixed(paths []string, s string) []string {
	var out []string
	for _, p := range paths {
		out = append(out, p+s)
	}
	return out
}

// testsExist asks the go command which tests the named packages have. Each name is "package TestName".
func testsExist(t *testing.T, names []string) {
	if runtime.GOOS == "js" {
		return // no processes there
	}
	byPackage := map[string][]string{}
	for _, name := range names {
		pkg, test, _ := strings.Cut(name, " ")
		byPackage[pkg] = append(byPackage[pkg], test)
	}
	for pkg, want := range byPackage {
		cmd := exec.Command("go", "test", "-list", "^TestGolden", "./"+pkg)
		cmd.Dir = Root(t)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("go test -list %s: %v\n%s", pkg, err, out)
			continue
		}
		have := strings.Fields(string(out))
		for _, test := range want {
			if !slices.Contains(have, test) {
				t.Errorf("%s has no %s", pkg, test)
			}
		}
	}
}

// TestCover shows that a gap, an overlap and a new key are found.
func TestCover(t *testing.T) {
	var v any
	if err := json.Unmarshal([]byte(`{"source":"x","runs":[{"class":"A","kept":[1,2]},{"class":"B","kept":[3]}],"rows":{"0":[1],"7":[2]}}`), &v); err != nil {
		t.Fatal(err)
	}
	claims := func(paths ...string) (c []Claim) {
		for _, p := range paths {
			c = append(c, Claim{File: "f", Path: p})
		}
		return c
	}
	for _, tt := range []struct {
		name   string
		claims []Claim
		cases  []int
		bad    int
	}{
		{"whole", claims("source", "runs", "rows"), []int{1, 2, 1}, 0},
		{"elements", claims("source", "runs[]", "rows{}"), []int{1, 2, 2}, 0},
		{"by class", claims("source", "runs[A]", "runs[B]", "rows"), []int{1, 1, 1, 1}, 0},
		{"parts", claims("source", "runs[].class", "runs[].kept", "rows"), []int{1, 2, 3, 1}, 0},
		{"everything", claims("*"), []int{1}, 0},
		{"key without a claim", claims("runs", "rows"), []int{2, 1}, 1},
		{"class without a claim", claims("source", "runs[A]", "rows"), []int{1, 1, 1}, 1},
		{"two claims", claims("source", "source", "runs", "rows"), []int{0, 0, 2, 1}, 1},
		{"two claims by class", claims("source", "runs[]", "runs[B]", "rows"), []int{1, 1, 0, 1}, 1},
		{"whole and part", claims("source", "runs", "runs[].kept", "rows"), []int{1, 0, 0, 1}, 1},
		{"part without a claim", claims("source", "runs[].kept", "rows"), []int{1, 3, 1}, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cases := make([]int, len(tt.claims))
			problems := cover(tt.claims, cases, "f", v, []string{""})
			if len(problems) != tt.bad || !slices.Equal(cases, tt.cases) {
				t.Errorf("cases %v, want %v; problems %q, want %d", cases, tt.cases, problems, tt.bad)
			}
		})
	}
}
