package ui

import (
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

type rgb [3]float64 // linear light, 0 to 1

func hexColour(t *testing.T, s string) rgb {
	t.Helper()
	v, err := strconv.ParseUint(strings.TrimPrefix(s, "#"), 16, 32)
	if err != nil || len(s) != 7 {
		t.Fatalf("colour %q", s)
	}
	var c rgb
	for i := range c {
		x := float64(v>>(16-8*i)&255) / 255
		if x <= 0.04045 {
			c[i] = x / 12.92
		} else {
			c[i] = math.Pow((x+0.055)/1.055, 2.4)
		}
	}
	return c
}

// themes reads the colour tokens of the style sheet. The dark ones stand there twice: for the system's setting and for
// the reader's.
func themes(t *testing.T) (light, dark map[string]string) {
	t.Helper()
	data, err := os.ReadFile("../../web/static/app.css")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile(`(?s)(:root[^{]*)\{(.*?)\}`).FindAllStringSubmatch(string(data), -1)
	token := regexp.MustCompile(`--([a-z0-9-]+): (#[0-9a-f]{6});`)
	read := func(body string) map[string]string {
		m := map[string]string{}
		for _, x := range token.FindAllStringSubmatch(body, -1) {
			m[x[1]] = x[2]
		}
		return m
	}
	var system map[string]string
	for _, b := range blocks {
		switch strings.TrimSpace(b[1]) {
		case ":root":
			if light == nil {
				light = read(b[2])
			}
		case `:root:not([data-theme="light"])`:
			system = read(b[2])
		case `:root[data-theme="dark"]`:
			dark = read(b[2])
		}
	}
	if len(light) < 15 || len(dark) != len(light) || len(system) != len(dark) {
		t.Fatalf("%d light, %d and %d dark colours", len(light), len(dark), len(system))
	}
	for name, v := range dark {
		if system[name] != v {
			t.Errorf("--%s is %s for dark systems and %s for readers who chose dark", name, system[name], v)
		}
	}
	return light, dark
}

// contrast is that of WCAG 2.
func contrast(a, b rgb) float64 {
	lum := func(c rgb) float64 { return 0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2] }
	x, y := lum(a), lum(b)
	if x < y {
		x, y = y, x
	}
	return (x + 0.05) / (y + 0.05)
}

func TestContrast(t *testing.T) {
	light, dark := themes(t)
	for name, theme := range map[string]map[string]string{"light": light, "dark": dark} {
		check := func(least float64, front string, backs ...string) {
			for _, back := range backs {
				if got := contrast(hexColour(t, theme[front]), hexColour(t, theme[back])); got < least {
					t.Errorf("%s: --%s on --%s has contrast %.2f, want %.1f", name, front, back, got, least)
				}
			}
		}
		const text, graphics = 4.5, 3
		check(text, "ink", "paper", "card", "warn-bg", "bad-bg", "rule")
		check(text, "ink2", "paper", "card", "bad-bg")
		check(text, "accent", "paper", "card", "warn-bg")
		check(text, "accent-ink", "accent")
		check(text, "halt-ink", "halt")
		check(text, "halt", "paper", "card")
		check(text, "ok", "paper", "card")
		check(graphics, "accent", "rule")
		for _, c := range states {
			check(graphics, c, "paper", "card")
		}
		check(graphics, "edge", "paper", "card")
	}
}

// states are the colours that say why a token is there.
var states = []string{"sink", "recent", "score", "srh", "quant", "drop"}

// Machado, Oliveira and Fernandes 2009, severity 1, in linear light.
var vision = map[string][9]float64{
	"normal":       {1, 0, 0, 0, 1, 0, 0, 0, 1},
	"protanopia":   {0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998},
	"deuteranopia": {0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.011820, 0.042940, 0.968881},
	"tritanopia":   {1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.303900},
}

func seen(c rgb, m [9]float64) rgb {
	var out rgb
	for i := range out {
		out[i] = min(1, max(0, m[3*i]*c[0]+m[3*i+1]*c[1]+m[3*i+2]*c[2]))
	}
	return out
}

// oklab is Ottosson's space, times 100.
func oklab(c rgb) [3]float64 {
	l := math.Cbrt(0.4122214708*c[0] + 0.5363325363*c[1] + 0.0514459929*c[2])
	m := math.Cbrt(0.2119034982*c[0] + 0.6806995451*c[1] + 0.1073969566*c[2])
	s := math.Cbrt(0.0883024619*c[0] + 0.2817188376*c[1] + 0.6299787005*c[2])
	return [3]float64{
		100 * (0.2104542553*l + 0.7936177850*m - 0.0040720468*s),
		100 * (1.9779984951*l - 2.4285922050*m + 0.4505937099*s),
		100 * (0.0259040371*l + 0.7827717662*m - 0.8086757660*s),
	}
}

// Readers with any of four kinds of vision can tell the six states apart.
func TestStatesAreTellable(t *testing.T) {
	light, dark := themes(t)
	for name, theme := range map[string]map[string]string{"light": light, "dark": dark} {
		for kind, m := range vision {
			for i, a := range states {
				for _, b := range states[i+1:] {
					x, y := oklab(seen(hexColour(t, theme[a]), m)), oklab(seen(hexColour(t, theme[b]), m))
					d := math.Sqrt((x[0]-y[0])*(x[0]-y[0]) + (x[1]-y[1])*(x[1]-y[1]) + (x[2]-y[2])*(x[2]-y[2]))
					if d < 14 {
						t.Errorf("%s, %s: --%s and --%s are %.1f apart, want 14", name, kind, a, b, d)
					}
				}
			}
		}
	}
}
