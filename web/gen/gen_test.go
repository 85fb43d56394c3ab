//go:build !js

package main

import (
	"image/color"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestResolver(t *testing.T) {
	for _, c := range []struct{ prefix, location, want string }{
		{"", "/", "/"},
		{"", "/web/app.wasm", "/web/app.wasm"},
		{"/kv", "/", "/kv/"},
		{"/kv", "/web/app.wasm", "/kv/web/app.wasm"},
		{"/kv", "#/lab", "#/lab"},
		{"/kv", "https://example.org/x", "https://example.org/x"},
	} {
		if got := resolver(c.prefix).Resolve(c.location); got != c.want {
			t.Errorf("%q under %q: got %q, want %q", c.location, c.prefix, got, c.want)
		}
	}
}

func TestBare(t *testing.T) {
	text := "// a kernel\n//!include lib/a.wgsl\n\nconst N: u32 = 8; // lanes\n  let x = a / b;   \n    // why\n}\r\n"
	if got, want := bare(text), "//!include lib/a.wgsl\nconst N: u32 = 8;\n  let x = a / b;\n}\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPrefix(t *testing.T) {
	for prefix, valid := range map[string]bool{
		"": true, "/kv": true, "/a/b-c_d.e": true,
		"kv": false, "/": false, "/a//b": false, `/a"b`: false, "/a b": false, "https://example.org": false,
	} {
		if got := validPrefix.MatchString(prefix); got != valid {
			t.Errorf("%q: valid %v, want %v", prefix, got, valid)
		}
	}
}

func TestSortAttributes(t *testing.T) {
	a := `<script src="/x.js" defer></script><p id="b" class="a > c">1 < 2</p><br>`
	b := `<script defer src="/x.js"></script><p class="a > c" id="b">1 < 2</p><br>`
	if got := string(sortAttributes([]byte(a))); got != b {
		t.Errorf("got %s, want %s", got, b)
	}
	if got := string(sortAttributes([]byte(b))); got != b {
		t.Errorf("sorting twice: got %s, want %s", got, b)
	}
}

func TestCheckFile(t *testing.T) {
	s := &site{dir: t.TempDir(), prefix: "/kv"}
	for _, name := range []string{"index.html", "web/shell.css"} {
		if err := s.write(name, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ name, body, fault string }{
		{"index.html", `<link href="/kv/web/shell.css"><a href="/kv/">home</a><a href="#/lab">lab</a>`, ""},
		{"index.html", `<script src="/kv/web/shell.css"></script>`, ""},
		{"index.html", `<link href="/kv/web/none.css">`, "leads nowhere"},
		{"index.html", `<link href="/web/shell.css">`, "is not on this site"},
		{"index.html", `<img src="https://example.org/a.png">`, "is not on this site"},
		{"index.html", `<img src="//example.org/a.png">`, "is not on this site"},
		{"index.html", `<script>run()</script>`, "blocked by the page's policy"},
		{"index.html", `<script type="module">run()</script>`, "blocked by the page's policy"},
		{"index.html", `<p style="color:red">`, "blocked by the page's policy"},
		{"index.html", `<p onclick="run()">`, "blocked by the page's policy"},
		{"web/a.css", `a { background: url(https://example.org/a.png) }`, "refers to"},
		{"web/a.css", `@import "//example.org/a.css";`, "refers to"},
		{"web/a.js", `fetch("https://example.org/")`, "refers to"},
		{"web/a.js", `// see https://example.org/`, ""},
		{"web/icon.svg", `<svg xmlns="http://www.w3.org/2000/svg"/>`, ""},
		{"app-worker.js", `const shell = ["/kv/","/kv/web/shell.css"]`, ""},
		{"app-worker.js", `const shell = ["/kv/web/none.css"]`, "leads nowhere"},
		{"web/text/en.json", "404 page not found\n", "missing page"},
	} {
		err := s.checkFile(c.name, []byte(c.body))
		switch {
		case c.fault == "" && err != nil:
			t.Errorf("%s %s: %v", c.name, c.body, err)
		case c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)):
			t.Errorf("%s %s: error %v, want one that says %q", c.name, c.body, err, c.fault)
		}
	}
}

// The mark's geometry: a ring of radius 7.2 around (10, 10) on a grid of 24, bars at x = 6, 9 and 12, a handle to (21, 21).
func TestDrawMark(t *testing.T) {
	img := drawMark(240, 1)
	for _, c := range []struct {
		x, y float64
		want color.NRGBA
	}{
		{1, 1, paper},
		{10, 2.8, ink},
		{17.2, 10, ink},
		{18, 18, ink},
		{7.1, 10, bars[0]},
		{10.1, 10, bars[1]},
		{13.1, 10, bars[2]},
		{8.65, 10, paper},
		{23, 10, paper},
	} {
		if got := img.NRGBAAt(int(c.x*10), int(c.y*10)); got != c.want {
			t.Errorf("at (%g, %g): %v, want %v", c.x, c.y, got, c.want)
		}
	}
}

// Every language says everything that the page may have to say without its program.
func TestShellTexts(t *testing.T) {
	var s site
	if err := s.readTexts("../static/shell.json"); err != nil {
		t.Fatal(err)
	}
	for _, lang := range []string{"en", "zh"} {
		text := s.text[lang]
		for _, word := range []string{text.Title, text.Description, text.NoScript, text.NotFound, text.Home, text.Dead, text.DeadHint, text.Reload} {
			if word == "" {
				t.Errorf("%s: a text is missing in %+v", lang, text)
			}
		}
	}
}

// The page's program has nothing of a server, and the engine logs nothing.
func TestLeanModules(t *testing.T) {
	t.Chdir("../..")
	dir := t.TempDir()
	modfile, replace, err := leanModules(dir)
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := writeOverlay(dir, replace)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []struct {
		pkg, holds string
		heavy      []string
	}{
		{"./app", goApp + "/pkg/app", []string{"net/http", "crypto/tls", "mime"}},
		{"./wasm/engine", webGPU + "/wgpu", []string{"log", "log/slog", "encoding/json", "crypto/sha256"}},
	} {
		cmd := exec.Command("go", "list", "-modfile", modfile, "-overlay", overlay, "-deps", p.pkg)
		cmd.Env = forBrowser()
		deps, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, deps)
		}
		list := strings.Fields(string(deps))
		if !slices.Contains(list, p.holds) {
			t.Fatalf("%s is not made with %s: %s", p.pkg, p.holds, deps)
		}
		for _, heavy := range p.heavy {
			if slices.Contains(list, heavy) {
				t.Errorf("%s holds %s", p.pkg, heavy)
			}
		}
	}
}

// In one line, the source says the same: the same tokens in the same order, each directive in a line of its own.
func TestFlat(t *testing.T) {
	const source = `//go:build js

// Package p has a comment.
package p

import "fmt"

//go:noinline
func f(x int) (y int) { // a comment
	if x > /* and
	another */ 0 {
		return
	}
	fmt.Println("//go:noinline", '\n', ` + "`raw\n\ttext`" + `,
		1+ +x)
	return x
}
`
	const want = "//go:build js\npackage p ; import \"fmt\" ; \n//go:noinline\nfunc f ( x int ) ( y int ) { if x > 0 { return ; } ; " +
		"fmt . Println ( \"//go:noinline\" , '\\n' , `raw\n\ttext` , 1 + + x ) ; return x ; } ; \n"
	if got := string(flat([]byte(source))); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
