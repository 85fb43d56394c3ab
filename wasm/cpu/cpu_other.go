//go:build !js

package cpu

import (
	"kvlens/cache"
	"kvlens/wasm/step"
)

func newBackend(led *cache.Ledger, _ Options) step.Backend {
	return withoutSIMD(led, "not in a browser")
}
