// Command lab runs models natively, without a browser: JSON or flags in, JSON out.
//
//	go run ./web/lab inspect FILE
//	go run ./web/lab tokenize FILE -text "Hello"
//	go run ./web/lab logits FILE -text "Hello" -top 5
//	go run ./web/lab generate FILE -chat "What is the capital of France?"
//	go run ./web/lab generate FILE -chat "…" -recipe "snapkv window=8 + adakv" -cap 25%
//	go run ./web/lab compare MODEL.json -story "…" -question "…" -a snapkv -b "h2o + adakv" -cap 25%
//	go run ./web/lab policy ARRAYS.json -recipe "h2o" -keep 0.25
//	go run ./web/lab calibrate FILE -checkpoint AT.json >wasm/heads/MODEL.json
//	go run ./web/lab needles FILE -checkpoint AT.json
//	go run ./web/lab bench FILE
//
// FILE is a .gguf file or the manifest.json of a model in parts. Every flag is also a field of the JSON object that -json
// takes, from the command line or, as "-", from standard input.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
)

// command is a subcommand: input returns its settings with their defaults, a pointer to a struct (see bind); run gives
// the result, which becomes JSON.
type command struct {
	name, does string
	input      func() any
	run        func(ctx context.Context, in any) (any, error)
}

// entry makes a command of a function with typed settings.
func entry[T any](name, does string, defaults T, run func(context.Context, *T) (any, error)) command {
	return command{
		name, does,
		func() any { in := defaults; return &in },
		func(ctx context.Context, in any) (any, error) { return run(ctx, in.(*T)) },
	}
}

var commands = []command{
	entry("inspect", "what a model file holds", inspectInput{}, inspect),
	entry("tokenize", "the tokens of a text or prompt", tokenizeInput{}, tokenize),
	entry("logits", "the logits after a prompt", logitsInput{Top: 10}, logits),
	entry("generate", "an answer to a prompt", generateInput{Max: 64}, generate),
	entry("compare", "two settings of the cache beside the full one, on one answer", compareInput{Max: 64}, compare),
	entry("exam", "answers to generated stories, right and wrong", examInput{Langs: "en,zh", Lengths: "256", Depths: "0,0.5,1", N: 24}, exam),
	entry("calibrate", "what the heads of a model do: the tables that some recipes need", calibrateInput{N: 16, Shrink: 8, Blocks: 2, Block: 128, Lengths: "200,320,450,700"}, calibrate),
	entry("needles", "needles found by recipe and budget", needlesInput{Keep: "50,25,12"}, needles),
	entry("policy", "what a recipe keeps of given queries, keys and values", policyInput{Reserve: 1}, runPolicy),
	entry("bench", "tokens per second of prefill and decode", benchInput{Prompt: 128, Decode: 32}, bench),
}

// errUsage marks errors after which the usage helps.
var errUsage = errors.New("usage")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := lab(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// lab runs one command line and returns the exit status: 0, 1 after an error, 2 after wrong usage.
func lab(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		usage(stderr)
		return 2
	}
	for _, c := range commands {
		if c.name != args[0] {
			continue
		}
		in := c.input()
		err := parse(c.name, in, args[1:], stdin, stderr)
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		var out any
		if err == nil {
			out, err = c.run(ctx, in)
		}
		if err == nil {
			e := json.NewEncoder(stdout)
			e.SetEscapeHTML(false)
			err = e.Encode(out)
		}
		switch {
		case errors.Is(err, errUsage):
			fmt.Fprintf(stderr, "lab %s: %v\nlab %s -help lists the settings.\n", c.name, err, c.name)
			return 2
		case err != nil:
			fmt.Fprintf(stderr, "lab %s: %v\n", c.name, err)
			return 1
		}
		return 0
	}
	if args[0] == "help" || args[0] == "-h" || args[0] == "-help" || args[0] == "--help" {
		usage(stdout)
		return 0
	}
	fmt.Fprintf(stderr, "lab: there is no command %q\n", args[0])
	usage(stderr)
	return 2
}

func usage(w io.Writer) {
	fmt.Fprint(w, "usage: lab COMMAND FILE [settings]\n\nFILE is a .gguf file or a manifest.json.\n\n")
	for _, c := range commands {
		fmt.Fprintf(w, "  %-10s %s\n", c.name, c.does)
	}
	fmt.Fprint(w, "\nlab COMMAND -help lists the settings of a command.\n")
}
