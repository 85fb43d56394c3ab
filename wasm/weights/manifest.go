package weights

import (
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Limits of a manifest.
const (
	MaxPart     = 8 << 20 // bytes of one part
	maxManifest = 1 << 20 // bytes of the manifest itself
	maxParts    = 8192
	maxText     = 8 << 10 // bytes of one text field

	maxStops     = 32
	maxLanguages = 32
)

// Prompt modes of a manifest.
const (
	ModeChat  = "chat"  // the model's own chat template
	ModeStory = "story" // Prompt.Templates
)

// Manifest describes a model: the file's size and hash, the parts that it is fetched in, and what a GGUF file lacks.
type Manifest struct {
	Format  int    `json:"format"` // 1
	ID      string `json:"id"`
	Name    string `json:"name"`
	Licence string `json:"licence"`
	Source  string `json:"source"`
	Size    int64  `json:"size"`   // bytes of the whole file
	SHA256  string `json:"sha256"` // of the whole file, lower-case hex
	Parts   []Part `json:"parts"`  // in order; together they are the file
	Prompt  Prompt `json:"prompt"`
	// Stop holds texts that end an answer. What was generated after one is discarded.
	Stop []string `json:"stop"`
}

// Part is one piece of the file. Its address is Name, relative to the manifest's.
type Part struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Prompt says how text becomes a prompt.
type Prompt struct {
	Mode string `json:"mode"` // ModeChat or ModeStory
	// Templates of ModeStory by language, with {story} and {question} in them.
	Templates map[string]string `json:"templates,omitempty"`
}

// ManifestError says which field of a manifest is wrong.
type ManifestError struct{ Field, Msg string }

func (e *ManifestError) Error() string {
	return fmt.Sprintf("weights: manifest: %s: %s", e.Field, e.Msg)
}

// ReadManifest parses and checks a manifest. Its errors are *ManifestError. Unknown fields are ignored: a later format
// that an old reader must not read has another format number.
func ReadManifest(data []byte) (*Manifest, error) {
	if len(data) > maxManifest {
		return nil, &ManifestError{"file", fmt.Sprintf("%d bytes, at most %d are read", len(data), maxManifest)}
	}
	m := new(Manifest)
	if err := decode(data, m); err != nil {
		return nil, &ManifestError{"file", err.Error()}
	}
	if err := m.check(); err != nil {
		return nil, err
	}
	return m, nil
}

func (m *Manifest) check() error {
	if m.Format != 1 {
		return &ManifestError{"format", fmt.Sprintf("%d, only 1 is known", m.Format)}
	}
	if !fileName(m.ID) {
		return &ManifestError{"id", fmt.Sprintf("%.80q must be letters, digits, '-', '_' or '.'", m.ID)}
	}
	for _, f := range []struct{ field, text string }{{"name", m.Name}, {"licence", m.Licence}, {"source", m.Source}} {
		if f.text == "" || len(f.text) > maxText || !plain(f.text) {
			return &ManifestError{f.field, "must be a short text without control characters"}
		}
	}
	if !hexSum(m.SHA256) {
		return &ManifestError{"sha256", "must be 64 lower-case hex digits"}
	}
	if err := m.checkParts(); err != nil {
		return err
	}
	if err := m.Prompt.check(); err != nil {
		return err
	}
	if len(m.Stop) > maxStops {
		return &ManifestError{"stop", fmt.Sprintf("more than %d texts", maxStops)}
	}
	for i, s := range m.Stop {
		if s == "" || len(s) > 100 {
			return &ManifestError{fmt.Sprintf("stop[%d]", i), "must have 1 to 100 bytes"}
		}
	}
	return nil
}

func (m *Manifest) checkParts() error {
	if len(m.Parts) == 0 || len(m.Parts) > maxParts {
		return &ManifestError{"parts", fmt.Sprintf("%d parts, must be 1 to %d", len(m.Parts), maxParts)}
	}
	var sum int64
	seen := make(map[string]bool, len(m.Parts))
	for i, p := range m.Parts {
		field := func(name string) string { return fmt.Sprintf("parts[%d].%s", i, name) }
		if !fileName(p.Name) {
			return &ManifestError{field("name"), fmt.Sprintf("%.80q must be letters, digits, '-', '_' or '.'", p.Name)}
		}
		lower := strings.ToLower(p.Name) // some file systems ignore case
		if seen[lower] {
			return &ManifestError{field("name"), fmt.Sprintf("%q appears twice", p.Name)}
		}
		seen[lower] = true
		if p.Size < 1 || p.Size > MaxPart {
			return &ManifestError{field("size"), fmt.Sprintf("%d bytes, must be 1 to %d", p.Size, MaxPart)}
		}
		if !hexSum(p.SHA256) {
			return &ManifestError{field("sha256"), "must be 64 lower-case hex digits"}
		}
		sum += p.Size
	}
	if sum != m.Size {
		return &ManifestError{"size", fmt.Sprintf("%d bytes, but the parts have %d", m.Size, sum)}
	}
	if len(m.Parts) == 1 && m.Parts[0].SHA256 != m.SHA256 {
		return &ManifestError{"sha256", "differs from that of the only part"}
	}
	return nil
}

func (p *Prompt) check() error {
	switch p.Mode {
	case ModeChat:
	case ModeStory:
		if len(p.Templates) == 0 {
			return &ManifestError{"prompt.templates", "missing"}
		}
	default:
		return &ManifestError{"prompt.mode", fmt.Sprintf("%.80q is not %q or %q", p.Mode, ModeChat, ModeStory)}
	}
	if len(p.Templates) > maxLanguages {
		return &ManifestError{"prompt.templates", fmt.Sprintf("more than %d languages", maxLanguages)}
	}
	for lang, t := range p.Templates {
		if strings.Count(t, "{story}") != 1 || strings.Count(t, "{question}") != 1 || len(t) > maxText {
			return &ManifestError{
				fmt.Sprintf("prompt.templates[%.20q]", lang),
				"must be a short text with {story} and {question} once each",
			}
		}
	}
	return nil
}

// fileName reports whether s can name a file everywhere and leads out of no folder.
func fileName(s string) bool {
	if s == "" || len(s) > 100 || s[0] == '.' || s[len(s)-1] == '.' {
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool { return !fileRune(r) }) < 0
}

func fileRune(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_' || r == '.'
}

func plain(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7F }) < 0
}

func hexSum(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == 32 && strings.ToLower(s) == s
}
