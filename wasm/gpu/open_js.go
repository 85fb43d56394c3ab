package gpu

import (
	"context"
	"errors"
	"slices"
	"strings"
	"syscall/js"
	"time"

	"kvlens/wasm/jsutil"
)

// Open asks the browser for an adapter and a device, in a worker or on a page. The error is an *AbsentError, or ctx's.
func Open(ctx context.Context, o Options) (Device, error) {
	return open(ctx, field(js.Global().Get("navigator"), "gpu"), o)
}

// open is Open on a GPU object, which may be missing or anything else.
func open(ctx context.Context, gpu js.Value, o Options) (d Device, err error) {
	absent := &AbsentError{Reason: NoWebGPU}
	defer func() {
		if thrown := caught(recover()); thrown != nil {
			absent.Err = thrown
			d, err = nil, absent
		}
	}()
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second
	}
	if !gpu.Truthy() {
		return nil, absent
	}
	if js.Global().Get("attachGPU").Type() != js.TypeFunction {
		absent.Reason = NoBuild
		return nil, absent
	}
	absent.Reason = NoAdapter
	adapter, err := answer(ctx, o.Timeout, gpu.Call("requestAdapter", map[string]any{"powerPreference": "high-performance"}), absent)
	if err != nil {
		return nil, err
	}
	info := describe(adapter)
	absent.Adapter = info.Adapter
	if info.Fallback && !o.Fallback {
		absent.Reason = Software
		return nil, absent
	}
	absent.Reason = NoDevice
	promise := adapter.Call("requestDevice", wish(adapter, o.Minimal))
	dev, err := answer(ctx, o.Timeout, promise, absent)
	if err != nil {
		if absent.Reason == Silent || ctx.Err() != nil {
			promise.Call("then", dropLate, ignore)
		}
		return nil, err
	}
	info.Limits = limits(field(dev, "limits"))
	info.Features = append(members(field(dev, "features")), members(field(gpu, "wgslLanguageFeatures"))...)
	return newWeb(dev, info), nil
}

// Late devices are given back, and nothing is said of late refusals.
var (
	dropLate = js.FuncOf(func(_ js.Value, args []js.Value) any {
		args[0].Call("destroy")
		return nil
	})
	ignore = js.FuncOf(func(js.Value, []js.Value) any { return nil })
)

// answer waits for what a promise gives. absent is the error if it gives nothing.
func answer(ctx context.Context, timeout time.Duration, promise js.Value, absent *AbsentError) (js.Value, error) {
	limited, cancel := context.WithCancel(ctx) // a deadline would bring calendars and their formats into the engine
	defer cancel()
	defer time.AfterFunc(timeout, cancel).Stop()
	v, err := jsutil.Await(limited, promise)
	switch {
	case ctx.Err() != nil:
		return v, ctx.Err()
	case errors.Is(err, context.Canceled):
		absent.Reason = Silent
		return v, absent
	case err != nil || !v.Truthy():
		absent.Err = err
		return v, absent
	}
	return v, nil
}

// describe tells what is known of an adapter: nothing is certain to be.
func describe(adapter js.Value) Info {
	about := field(adapter, "info")
	var words []string
	for _, name := range []string{"vendor", "architecture", "device", "description"} {
		if s := field(about, name); s.Type() == js.TypeString && s.String() != "" {
			words = append(words, s.String())
		}
	}
	info := Info{
		Adapter:     strings.Join(words, " "),
		SubgroupMin: int(number(field(about, "subgroupMinSize"), 0)),
		SubgroupMax: int(number(field(about, "subgroupMaxSize"), 0)),
	}
	// The flag has moved from the adapter to its description; some software adapters only show by their name.
	info.Fallback = field(about, "isFallbackAdapter").Truthy() || field(adapter, "isFallbackAdapter").Truthy() ||
		slices.ContainsFunc(programs, func(name string) bool { return strings.Contains(strings.ToLower(info.Adapter), name) })
	return info
}

// programs are names of adapters that are programs.
var programs = []string{"swiftshader", "llvmpipe", "softpipe", "basic render"}

// The limits that this package knows, by the specification's names and with the values that every device has.
var wanted = []struct {
	name  string
	least int64
}{
	{"maxBufferSize", 256 << 20},
	{"maxStorageBufferBindingSize", 128 << 20},
	{"maxComputeWorkgroupStorageSize", 16 << 10},
	{"maxComputeInvocationsPerWorkgroup", 256},
	{"maxComputeWorkgroupSizeX", 256},
	{"maxComputeWorkgroupSizeY", 256},
	{"maxComputeWorkgroupSizeZ", 64},
	{"maxStorageBuffersPerShaderStage", 8},
	{"maxComputeWorkgroupsPerDimension", 65535},
	{"minStorageBufferOffsetAlignment", 256},
	{"minUniformBufferOffsetAlignment", 256},
}

// wish is the descriptor of the device: all that the adapter has, of what we can use.
func wish(adapter js.Value, minimal bool) js.Value {
	w := js.Global().Get("Object").New()
	if minimal {
		return w
	}
	most := js.Global().Get("Object").New()
	for _, l := range wanted {
		if v := field(field(adapter, "limits"), l.name); v.Type() == js.TypeNumber {
			most.Set(l.name, v)
		}
	}
	w.Set("requiredLimits", most)
	if slices.Contains(members(field(adapter, "features")), "subgroups") {
		w.Set("requiredFeatures", []any{"subgroups"})
	}
	return w
}

// limits reads a device's limits. One that the browser does not tell has the value that every device has.
func limits(v js.Value) Limits {
	l := map[string]int64{}
	for _, w := range wanted {
		l[w.name] = number(field(v, w.name), w.least)
	}
	return Limits{
		MaxBuffer: l["maxBufferSize"], MaxBinding: l["maxStorageBufferBindingSize"],
		WorkgroupMemory: int(l["maxComputeWorkgroupStorageSize"]), Invocations: int(l["maxComputeInvocationsPerWorkgroup"]),
		StorageBuffers: int(l["maxStorageBuffersPerShaderStage"]), Workgroups: int(l["maxComputeWorkgroupsPerDimension"]),
		OffsetAlign: int(max(l["minStorageBufferOffsetAlignment"], l["minUniformBufferOffsetAlignment"])),
	}
}

// field is v[name], or undefined where v has no fields.
func field(v js.Value, name string) js.Value {
	if t := v.Type(); t != js.TypeObject && t != js.TypeFunction {
		return js.Undefined()
	}
	return v.Get(name)
}

func number(v js.Value, otherwise int64) int64 {
	if v.Type() != js.TypeNumber {
		return otherwise
	}
	return int64(v.Float())
}

// members lists the strings of a JavaScript set.
func members(set js.Value) []string {
	if !set.Truthy() {
		return nil
	}
	a := js.Global().Get("Array").Call("from", set)
	list := make([]string, a.Length())
	for i := range list {
		list[i] = a.Index(i).String()
	}
	return list
}

// caught makes an error of what JavaScript threw, and lets every other panic go on.
func caught(r any) error {
	switch r := r.(type) {
	case nil:
		return nil
	case js.Error:
		return r
	case *js.ValueError:
		return r
	default:
		panic(r)
	}
}
