// Package text holds what the page says. A catalogue is one JSON file per language, key to message, fetched at run time
// and never compiled into the page's program; natively the files are read for prerendering (native.go).
//
// A message is plain text with arguments in braces: {name}; {n, number} groups the digits of a whole number; and
// {n, plural, one {# token} other {# tokens}} chooses by the language's plural rule, # being the number. Braces cannot
// be quoted: no message needs one.
package text

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Catalogue is the messages of one language. Safe for concurrent use; nil is an empty one.
type Catalogue struct {
	lang     string
	messages map[string][]part
}

// part is literal text, or an argument with its kind.
type part struct {
	text string // literal, or the argument's name
	kind kind
	one  []part // plural branches; # is an argument named "#"
	many []part
}

type kind uint8

const (
	literal kind = iota
	plain
	number
	plural
)

// Parse reads a catalogue; the error names the key of a message that cannot be read.
func Parse(lang string, data []byte) (*Catalogue, error) {
	var raw map[string]string
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, fmt.Errorf("text: %s: %w", lang, err)
	}
	c := &Catalogue{lang: lang, messages: make(map[string][]part, len(raw))}
	for key, m := range raw {
		parts, rest, err := parse(m, false)
		if err == nil && rest != "" {
			err = errors.New("a brace too many")
		}
		if err != nil {
			return nil, fmt.Errorf("text: %s: %s: %w", lang, key, err)
		}
		c.messages[key] = parts
	}
	return c, nil
}

// Lang is the catalogue's language.
func (c *Catalogue) Lang() string {
	if c == nil {
		return ""
	}
	return c.lang
}

// Has reports whether the catalogue knows a key.
func (c *Catalogue) Has(key string) bool {
	if c == nil {
		return false
	}
	_, ok := c.messages[key]
	return ok
}

// T is the message of a key, with arguments as name, value, name, value. A missing key shows itself in brackets.
func (c *Catalogue) T(key string, args ...any) string {
	if c == nil {
		return ""
	}
	parts, ok := c.messages[key]
	if !ok {
		return "⟦" + key + "⟧"
	}
	var b strings.Builder
	c.write(&b, parts, args, 0)
	return b.String()
}

func (c *Catalogue) write(b *strings.Builder, parts []part, args []any, n int64) {
	for _, p := range parts {
		switch p.kind {
		case literal:
			b.WriteString(p.text)
		case plural:
			v := whole(argument(args, p.text))
			branch := p.many
			if c.lang == "en" && v == 1 {
				branch = p.one
			}
			c.write(b, branch, args, v)
		case number:
			v := n
			if p.text != "#" {
				v = whole(argument(args, p.text))
			}
			b.WriteString(c.Int(v))
		default:
			switch v := argument(args, p.text).(type) {
			case string:
				b.WriteString(v)
			case nil:
				b.WriteString("{" + p.text + "}")
			default:
				b.WriteString(c.Int(whole(v)))
			}
		}
	}
}

func argument(args []any, name string) any {
	for i := 0; i+1 < len(args); i += 2 {
		if args[i] == name {
			return args[i+1]
		}
	}
	return nil
}

func whole(v any) int64 {
	switch v := v.(type) {
	case int:
		return int64(v)
	case int64:
		return v
	case uint64:
		return int64(v)
	case uint32:
		return int64(v)
	}
	return 0
}

// parse reads message text; inside a plural branch it ends at the closing brace and # is the number.
func parse(s string, branch bool) (parts []part, rest string, err error) {
	for s != "" {
		i := strings.IndexAny(s, "{}#")
		if i < 0 {
			parts = append(parts, part{text: s})
			return parts, "", open(branch)
		}
		if i > 0 {
			parts = append(parts, part{text: s[:i]})
		}
		c := s[i]
		s = s[i+1:]
		switch {
		case c == '#' && branch:
			parts = append(parts, part{text: "#", kind: number})
		case c == '#':
			parts = append(parts, part{text: "#"})
		case c == '}' && branch:
			return parts, s, nil
		case c == '}':
			return nil, "", errors.New("a closing brace too many")
		default:
			var p part
			if p, s, err = parseArgument(s); err != nil {
				return nil, "", err
			}
			parts = append(parts, p)
		}
	}
	return parts, "", open(branch)
}

func open(branch bool) error {
	if branch {
		return errors.New("a brace is not closed")
	}
	return nil
}

// parseArgument reads what follows an opening brace.
func parseArgument(s string) (p part, rest string, err error) {
	i := strings.IndexAny(s, ",}{")
	if i < 0 || s[i] == '{' {
		return p, "", errors.New("an argument is not closed")
	}
	p = part{text: strings.TrimSpace(s[:i]), kind: plain}
	if p.text == "" {
		return p, "", errors.New("an argument has no name")
	}
	if s[i] == '}' {
		return p, s[i+1:], nil
	}
	s = strings.TrimSpace(s[i+1:])
	switch {
	case strings.HasPrefix(s, "number}"):
		p.kind = number
		return p, s[len("number}"):], nil
	case strings.HasPrefix(s, "plural,"):
		p.kind = plural
		s = strings.TrimSpace(s[len("plural,"):])
	default:
		return p, "", fmt.Errorf("argument %s: want number or plural", p.text)
	}
	for !strings.HasPrefix(s, "}") {
		name, after, ok := strings.Cut(s, "{")
		if !ok {
			return p, "", fmt.Errorf("argument %s: a plural is not closed", p.text)
		}
		var body []part
		if body, s, err = parse(after, true); err != nil {
			return p, "", err
		}
		switch strings.TrimSpace(name) {
		case "one":
			p.one = body
		case "other":
			p.many = body
		default:
			return p, "", fmt.Errorf("argument %s: plural form %q", p.text, strings.TrimSpace(name))
		}
		s = strings.TrimSpace(s)
	}
	if p.many == nil {
		return p, "", fmt.Errorf("argument %s: a plural needs the form other", p.text)
	}
	if p.one == nil {
		p.one = p.many
	}
	return p, s[1:], nil
}
