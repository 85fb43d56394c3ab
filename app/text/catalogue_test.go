//go:build !js

package text

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

var languages = []string{"en", "zh"}

func load(t *testing.T) map[string]*Catalogue {
	t.Helper()
	all := map[string]*Catalogue{}
	for _, lang := range languages {
		c, err := Load(lang)
		if err != nil {
			t.Fatal(err)
		}
		all[lang] = c
	}
	return all
}

func TestLanguagesHaveTheSameKeysAndArguments(t *testing.T) {
	all := load(t)
	for key, parts := range all["en"].messages {
		other, ok := all["zh"].messages[key]
		if !ok {
			t.Errorf("zh lacks %s", key)
			continue
		}
		if a, b := arguments(parts), arguments(other); !slices.Equal(a, b) {
			t.Errorf("%s: en takes %v, zh takes %v", key, a, b)
		}
	}
	for key := range all["zh"].messages {
		if !all["en"].Has(key) {
			t.Errorf("en lacks %s", key)
		}
	}
}

// arguments are the names and kinds of a message's arguments, sorted, each once.
func arguments(parts []part) []string {
	set := map[string]bool{}
	var walk func([]part)
	walk = func(parts []part) {
		for _, p := range parts {
			if p.kind != literal && p.text != "#" {
				set[p.text] = true
			}
			walk(p.one)
			walk(p.many)
		}
	}
	walk(parts)
	return slices.Sorted(maps.Keys(set))
}

// Every key in the program's source must be in the catalogue, and every key of the catalogue in the source: whole, or as
// a family whose prefix the source joins with a name.
func TestNoKeyIsMissingOrUnused(t *testing.T) {
	en := load(t)["en"]
	literals, asked := sources(t)
	for key, where := range asked {
		if !en.Has(key) && !isPrefix(en, key) {
			t.Errorf("%s: the catalogue lacks %s", where, key)
		}
	}
	for key := range en.messages {
		if !used(key, literals) {
			t.Errorf("nothing in the program uses %s", key)
		}
	}
}

func isPrefix(c *Catalogue, prefix string) bool {
	if !strings.HasSuffix(prefix, ".") {
		return false
	}
	for key := range c.messages {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}

func used(key string, literals map[string]bool) bool {
	for k := key; ; {
		if literals[k] {
			return true
		}
		i := strings.LastIndex(strings.TrimSuffix(k, "."), ".")
		if i < 0 {
			return false
		}
		k = k[:i+1] // the family's prefix, dot included
	}
}

// sources reads the string literals of the page's program, and which of them (or which prefixes) are asked for as keys:
// first arguments of t and T.
func sources(t *testing.T) (literals map[string]bool, asked map[string]string) {
	t.Helper()
	literals, asked = map[string]bool{}, map[string]string{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BasicLit:
				if s, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil {
					literals[s] = true
				}
			case *ast.CallExpr:
				sel, ok := n.Fun.(*ast.SelectorExpr)
				if !ok || len(n.Args) == 0 || sel.Sel.Name != "t" && sel.Sel.Name != "T" {
					break
				}
				arg := n.Args[0]
				for {
					b, ok := arg.(*ast.BinaryExpr)
					if !ok {
						break
					}
					arg = b.X
				}
				if lit, ok := arg.(*ast.BasicLit); ok {
					if s, err := strconv.Unquote(lit.Value); err == nil {
						asked[s] = files.Position(n.Pos()).String()
					}
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(asked) < 50 {
		t.Fatalf("only %d keys found in the source", len(asked))
	}
	return literals, asked
}

// latin are the Latin words that Chinese text may keep: names, units, and terms that the field does not translate.
var latin = regexp.MustCompile(`KV Lens|KV|KiB|MiB|GiB|GPU|CPU|WebGPU|Go|token|f16|f32|English|Shift|KL(\(full‖x\))?|\b(A|B|n|p)\b`)

func TestChineseIsChinese(t *testing.T) {
	zh := load(t)["zh"]
	halfWidth := regexp.MustCompile(`\p{Han}[,;:?!()]|[,;:?!()]\p{Han}`)
	for key, parts := range zh.messages {
		s := literalText(parts)
		if strings.HasPrefix(key, "example.chat.") { // questions to a model that knows English only
			continue
		}
		if strings.HasPrefix(key, "policy.") && strings.Count(key, ".") == 1 { // names of methods
			continue
		}
		for _, r := range latin.ReplaceAllString(s, "") {
			if unicode.Is(unicode.Latin, r) {
				t.Errorf("%s: Latin letters in %q", key, s)
				break
			}
		}
		if halfWidth.MatchString(s) {
			t.Errorf("%s: half-width punctuation in %q", key, s)
		}
	}
}

func literalText(parts []part) string {
	var b strings.Builder
	for _, p := range parts {
		if p.kind == literal {
			b.WriteString(p.text)
		} else {
			b.WriteString("0")
		}
		b.WriteString(literalText(p.many))
	}
	return b.String()
}

// The terms of the field are the same everywhere.
func TestChineseTerms(t *testing.T) {
	zh := load(t)["zh"]
	for _, wrong := range []string{"高速缓存", "令牌", "词元", "预填写", "注意头", "缓存器", "图层"} {
		for key, parts := range zh.messages {
			if s := literalText(parts); strings.Contains(s, wrong) {
				t.Errorf("%s: %q in %q", key, wrong, s)
			}
		}
	}
	for key, term := range map[string]string{"stage.prefill": "预填充", "phase.answering": "解码", "guide.notes": "KV 缓存", "chip.model": "注意力头"} {
		if s := literalText(zh.messages[key]); !strings.Contains(s, term) {
			t.Errorf("%s: no %q in %q", key, term, s)
		}
	}
}

func TestPseudo(t *testing.T) {
	en := load(t)["en"]
	p := en.Pseudo()
	if got := p.T("run"); got != "[Ŕúń··]" {
		t.Errorf("run: %q", got)
	}
	got := p.T("turn.read", "n", 2, "rate", "5")
	if !strings.Contains(got, "2") || !strings.Contains(got, "5") || strings.Contains(got, "token") {
		t.Errorf("arguments must stay and words must change: %q", got)
	}
	for key := range en.messages {
		a, b := len([]rune(en.T(key))), len([]rune(p.T(key)))
		if b < a+2 {
			t.Errorf("%s: %d characters became %d", key, a, b)
		}
	}
}
