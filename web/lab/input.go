package main

import (
	"bytes"
	"encoding"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// parse fills in, a pointer to a struct, from the command line: -json first, then flags, then FILE, which is the field
// named "file". Flags may come before and after FILE.
func parse(name string, in any, args []string, stdin io.Reader, stderr io.Writer) error {
	fs := flag.NewFlagSet("lab "+name, flag.ContinueOnError)
	fs.SetOutput(stderr)
	source := fs.String("json", "", `settings as a JSON object; "-" reads it from standard input`)
	fs.Usage = func() {
		fmt.Fprintf(stderr, "usage: lab %s FILE [settings]\n", name)
		fs.PrintDefaults()
	}
	file, needed := bind(fs, reflect.ValueOf(in).Elem())

	// The first pass finds -json, whose values flags override in the second.
	rest, err := parseAll(fs, args)
	if err != nil {
		return err
	}
	if *source != "" {
		if err := readJSON(*source, in, stdin); err != nil {
			return err
		}
		if rest, err = parseAll(fs, args); err != nil {
			return err
		}
	}
	switch {
	case len(rest) > 1:
		return fmt.Errorf("%w: more than one file: %s", errUsage, strings.Join(rest, " "))
	case len(rest) == 1:
		file.SetString(rest[0])
	case file.String() == "" && needed:
		return fmt.Errorf("%w: a model file is missing", errUsage)
	}
	return nil
}

// parseAll parses flags that stand anywhere and returns the other arguments.
func parseAll(fs *flag.FlagSet, args []string) (rest []string, err error) {
	for {
		if err := fs.Parse(args); err != nil {
			if err == flag.ErrHelp {
				return nil, err
			}
			return nil, fmt.Errorf("%w: %w", errUsage, err)
		}
		if fs.NArg() == 0 {
			return rest, nil
		}
		rest, args = append(rest, fs.Arg(0)), fs.Args()[1:]
	}
}

func readJSON(source string, in any, stdin io.Reader) error {
	r := io.Reader(strings.NewReader(source))
	if source == "-" {
		r = stdin
	}
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err := d.Decode(in); err != nil {
		return fmt.Errorf("%w: -json: %w", errUsage, err)
	}
	if d.More() {
		return fmt.Errorf("%w: -json: more than one object", errUsage)
	}
	return nil
}

// bind makes a flag of every field that has a json name and a help text, those of embedded structs too, and returns the
// field "file" and whether it must be set.
func bind(fs *flag.FlagSet, v reflect.Value) (file reflect.Value, needed bool) {
	for i := range v.NumField() {
		field, f := v.Type().Field(i), v.Field(i)
		name, help := field.Tag.Get("json"), field.Tag.Get("help")
		switch {
		case field.Anonymous:
			if inner, must := bind(fs, f); inner.IsValid() {
				file, needed = inner, must
			}
		case name == "file":
			file, needed = f, field.Tag.Get("optional") == ""
		default:
			bindField(fs, f, name, help)
		}
	}
	return file, needed
}

func bindField(fs *flag.FlagSet, f reflect.Value, name, help string) {
	switch p := f.Addr().Interface().(type) {
	case *string:
		fs.StringVar(p, name, *p, help)
	case *bool:
		fs.BoolVar(p, name, *p, help)
	case *int:
		fs.IntVar(p, name, *p, help)
	case *int64:
		fs.Int64Var(p, name, *p, help)
	case *uint64:
		fs.Uint64Var(p, name, *p, help)
	case encoding.TextUnmarshaler:
		fs.Func(name, help, func(s string) error { return p.UnmarshalText([]byte(s)) })
	case *float32:
		fs.Func(name, help, func(s string) error {
			x, err := strconv.ParseFloat(s, 32)
			*p = float32(x)
			return err
		})
	case *[]int32:
		fs.Func(name, help, func(s string) (err error) {
			*p, err = parseIDs(s)
			return err
		})
	default:
		panic("lab: no flag for the type of " + name)
	}
}

// capacity is the size of a cache: bytes, or a share of what the full one takes.
type capacity struct {
	bytes int64
	share float64
}

// UnmarshalText reads "100000" or "25%".
func (c *capacity) UnmarshalText(text []byte) (err error) {
	*c = capacity{}
	if part, ok := strings.CutSuffix(string(text), "%"); ok {
		c.share, err = strconv.ParseFloat(part, 64)
		if c.share /= 100; err != nil || !(c.share > 0 && c.share <= 1) {
			return fmt.Errorf("%q is no share of a cache", text)
		}
		return nil
	}
	if c.bytes, err = strconv.ParseInt(string(text), 10, 64); err != nil || c.bytes < 0 {
		return fmt.Errorf("%q is neither bytes nor a share", text)
	}
	return nil
}

// UnmarshalJSON reads a number of bytes or a text.
func (c *capacity) UnmarshalJSON(data []byte) error {
	return c.UnmarshalText(bytes.Trim(data, `"`))
}

// MarshalJSON writes what UnmarshalJSON reads.
func (c capacity) MarshalJSON() ([]byte, error) {
	if c.share > 0 {
		return fmt.Appendf(nil, `"%v%%"`, 100*c.share), nil
	}
	return strconv.AppendInt(nil, c.bytes, 10), nil
}

// parseIDs reads token ids, separated by commas or spaces.
func parseIDs(s string) ([]int32, error) {
	ids := []int32{}
	for _, word := range strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' }) {
		n, err := strconv.ParseInt(word, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("%q is no token id", word)
		}
		ids = append(ids, int32(n))
	}
	return ids, nil
}

func usageError(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errUsage, fmt.Sprintf(format, args...))
}

// number is x for JSON, which has no infinities and no NaN.
func number(x float64) any {
	if math.IsInf(x, 0) || math.IsNaN(x) {
		return fmt.Sprint(x)
	}
	return x
}
