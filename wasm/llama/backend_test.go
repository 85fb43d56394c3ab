//go:build !js

package llama_test

import (
	"testing"

	"kvlens/cache"
	"kvlens/wasm/ref"
	"kvlens/wasm/step"
)

// newBackend is the reference path natively, and in a browser the CPU path with float activations: the same tests hold
// both to the oracle.
func newBackend(_ testing.TB, led *cache.Ledger) step.Backend { return ref.New(led) }

// longest is the number of tokens of the longest prompt that is tried.
const longest = 1 << 20
