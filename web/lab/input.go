package main

import (
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
	file := bind(fs, reflect.ValueOf(in).Elem())

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
	case file.String() == "":
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
// field "file".
func bind(fs *flag.FlagSet, v reflect.Value) (file reflect.Value) {
	for i := range v.NumField() {
		field, f := v.Type().Field(i), v.Field(i)
		name, help := field.Tag.Get("json"), field.Tag.Get("help")
		switch {
		case field.Anonymous:
			if inner := bind(fs, f); inner.IsValid() {
				file = inner
			}
		case name == "file":
			file = f
		default:
			bindField(fs, f, name, help)
		}
	}
	return file
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
