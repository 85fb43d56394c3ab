package gpu

import "fmt"

// Reasons of an AbsentError.
const (
	NoBuild   = "no-build"   // this build has no WebGPU: no cgo, or the worker's script did not load gpu.js
	NoWebGPU  = "no-webgpu"  // the browser has no WebGPU
	NoAdapter = "no-adapter" // it has, but no graphics adapter behind it
	Software  = "software"   // the adapter is a program, and Options.Fallback was not set
	Silent    = "silent"     // the browser did not answer within Options.Timeout
	NoDevice  = "no-device"  // there is an adapter, but it gave no device
)

// AbsentError says why there is no device.
type AbsentError struct {
	Reason  string
	Adapter string // what is known of the adapter, if there was one
	Err     error  // the platform's own words, or nil
}

func (e *AbsentError) Error() string {
	s := "gpu: open: " + e.Reason
	if e.Adapter != "" {
		s += " (" + e.Adapter + ")"
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap gives the platform's error.
func (e *AbsentError) Unwrap() error { return e.Err }

// LimitError is a request beyond a limit of the device: more memory, bindings or workgroups than it ever gives.
type LimitError struct {
	Op, Label  string
	Limit      string // the specification's name of the limit
	Want, Have int64
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("gpu: %s: %s: %d is more than %s, %d", e.Op, e.Label, e.Want, e.Limit, e.Have)
}

// ShaderError is a shader that does not compile. Line and Column count from 1; 0 where the platform does not say.
type ShaderError struct {
	Label        string
	Line, Column int
	Msg          string
}

func (e *ShaderError) Error() string {
	return fmt.Sprintf("gpu: shader: %s:%d:%d: %s", e.Label, e.Line, e.Column, e.Msg)
}

// MemoryError is an allocation that the device refused although its limits allow it. Nothing stays allocated.
type MemoryError struct {
	Label string
	Size  int64 // bytes
	Msg   string
}

func (e *MemoryError) Error() string {
	return fmt.Sprintf("gpu: memory: %s: no %d bytes: %s", e.Label, e.Size, e.Msg)
}

// LostError says that the device is gone, with everything that it held.
type LostError struct {
	Op     string
	Reason string
}

func (e *LostError) Error() string { return "gpu: " + e.Op + ": device lost: " + e.Reason }

// UseError is a defect of ours: a call that WebGPU refuses.
type UseError struct {
	Op, Msg string
}

func (e *UseError) Error() string { return "gpu: " + e.Op + ": " + e.Msg }

// Code is the name under which the page words an error of this package, or "" for other errors.
func Code(err error) string {
	switch e := err.(type) {
	case *AbsentError:
		return e.Reason
	case *LimitError:
		return "gpu-limit"
	case *ShaderError:
		return "gpu-shader"
	case *MemoryError:
		return "gpu-memory"
	case *LostError:
		return "gpu-lost"
	case *UseError:
		return "gpu-use"
	}
	return ""
}
