//go:build !js && !cgo

package gpu

import "context"

// Open fails: without cgo there is no WebGPU outside the browser.
func Open(context.Context, Options) (Device, error) { return nil, &AbsentError{Reason: NoBuild} }
