package weights

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func sum(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

// manifest describes data in parts of the given size.
func manifest(data []byte, size int) *Manifest {
	m := &Manifest{
		Format: 1, ID: "test-model", Name: "Test", Licence: "MIT", Source: "made here",
		Size: int64(len(data)), SHA256: sum(data), Prompt: Prompt{Mode: ModeChat}, Stop: []string{"\n"},
	}
	for i := 0; i < len(data); i += size {
		part := data[i:min(len(data), i+size)]
		m.Parts = append(m.Parts, Part{fmt.Sprintf("part-%d.bin", len(m.Parts)), int64(len(part)), sum(part)})
	}
	return m
}

func encode(m *Manifest) []byte {
	b, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return b
}

func TestReadManifestRefuses(t *testing.T) {
	data := make([]byte, 250)
	part := func(m *Manifest, name string) { m.Parts[1].Name = name }
	for _, c := range []struct {
		field string
		spoil func(m *Manifest)
	}{
		{"format", func(m *Manifest) { m.Format = 2 }},
		{"id", func(m *Manifest) { m.ID = "../x" }},
		{"id", func(m *Manifest) { m.ID = "" }},
		{"name", func(m *Manifest) { m.Name = "" }},
		{"name", func(m *Manifest) { m.Name = "a\x1b[31m" }},
		{"licence", func(m *Manifest) { m.Licence = strings.Repeat("x", 10_000) }},
		{"source", func(m *Manifest) { m.Source = "" }},
		{"sha256", func(m *Manifest) { m.SHA256 = m.SHA256[2:] }},
		{"sha256", func(m *Manifest) { m.SHA256 = strings.Repeat("AB", 32) }},
		{"sha256", func(m *Manifest) { *m = *manifest(data, 250); m.Parts[0].SHA256 = strings.Repeat("ab", 32) }},
		{"size", func(m *Manifest) { m.Size++ }},
		{"size", func(m *Manifest) { m.Size = -250 }},
		{"parts", func(m *Manifest) { m.Parts = nil }},
		{"parts", func(m *Manifest) { m.Parts = make([]Part, 8193) }},
		{"parts[1].name", func(m *Manifest) { part(m, "../part") }},
		{"parts[1].name", func(m *Manifest) { part(m, "a/b") }},
		{"parts[1].name", func(m *Manifest) { part(m, `a\b`) }},
		{"parts[1].name", func(m *Manifest) { part(m, "..") }},
		{"parts[1].name", func(m *Manifest) { part(m, "") }},
		{"parts[1].name", func(m *Manifest) { part(m, "https:") }},
		{"parts[1].name", func(m *Manifest) { part(m, "a?b") }},
		{"parts[1].name", func(m *Manifest) { part(m, "a%2fb") }},
		{"parts[1].name", func(m *Manifest) { part(m, "ä") }},
		{"parts[1].name", func(m *Manifest) { part(m, strings.Repeat("x", 101)) }},
		{"parts[1].name", func(m *Manifest) { part(m, "PART-0.bin") }},
		{"parts[1].size", func(m *Manifest) { m.Parts[1].Size = 0 }},
		{"parts[1].size", func(m *Manifest) { m.Parts[1].Size = MaxPart + 1 }},
		{"parts[1].size", func(m *Manifest) { m.Parts[0].Size += 50; m.Parts[1].Size = -100 }},
		{"parts[1].sha256", func(m *Manifest) { m.Parts[1].SHA256 = strings.Repeat("xy", 32) }},
		{"prompt.mode", func(m *Manifest) { m.Prompt.Mode = "" }},
		{"prompt.templates", func(m *Manifest) { m.Prompt.Mode = ModeStory }},
		{`prompt.templates["en"]`, func(m *Manifest) { m.Prompt.Templates = map[string]string{"en": "{story}"} }},
		{"stop", func(m *Manifest) { m.Stop = make([]string, 33) }},
		{"stop[1]", func(m *Manifest) { m.Stop = []string{"a", ""} }},
	} {
		m := manifest(data, 100)
		c.spoil(m)
		_, err := ReadManifest(encode(m))
		var bad *ManifestError
		if !errors.As(err, &bad) || bad.Field != c.field {
			t.Errorf("%s: %v", c.field, err)
		}
	}
	for name, text := range map[string]string{
		"nothing": "", "a page": "<!doctype html>", "a list": "[]", "cut": string(encode(manifest(data, 100))[:80]),
		"number as text": `{"format":"1"}`, "huge number": `{"format":1,"size":1e99}`, "too long": strings.Repeat(" ", 1<<20+1),
	} {
		var bad *ManifestError
		if _, err := ReadManifest([]byte(text)); !errors.As(err, &bad) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ReadManifest(encode(manifest(data, 100))); err != nil {
		t.Error(err)
	}
}

func FuzzReadManifest(f *testing.F) {
	f.Add(encode(manifest(make([]byte, 250), 100)))
	f.Add([]byte(`{"format":1,"parts":[{"size":9e15},{"size":9e15}],"prompt":{"templates":{"":""}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ReadManifest(data)
		if err != nil {
			var bad *ManifestError
			if !errors.As(err, &bad) || bad.Field == "" {
				t.Fatalf("%v is no manifest error", err)
			}
			return
		}
		var sum int64
		for _, p := range m.Parts {
			if p.Size < 1 || p.Size > MaxPart || strings.ContainsAny(p.Name, "/\\:?#%") || strings.HasPrefix(p.Name, ".") {
				t.Fatalf("part %+v", p)
			}
			sum += p.Size
		}
		if sum != m.Size || len(m.SHA256) != 64 {
			t.Fatalf("size %d of %d", m.Size, sum)
		}
	})
}
