package kernel_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"kvlens/cache"
	"kvlens/wasm/gpu"
	"kvlens/wasm/gpu/gputest"
	"kvlens/wasm/kernel"
	"kvlens/wasm/quant"
	"kvlens/wasm/ref"
)

var allLayouts = []quant.Layout{quant.LayoutF32, quant.LayoutF16, quant.Layout4, quant.Layout8}

func TestSelfTest(t *testing.T) {
	dev := gputest.Open(t)
	_, before := dev.Live()
	led := new(cache.Ledger)
	for _, plain := range []bool{true, false} {
		lib := newLibrary(dev)
		lib.Plain = plain
		if err := lib.SelfTest(context.Background(), ref.NewF64(led), allLayouts...); err != nil {
			t.Errorf("plain %v: %v", plain, err)
		}
	}
	if _, after := dev.Live(); after-before > gpu.StagingBytes || led.Total().Allocated != 0 {
		t.Errorf("%d bytes are left on the device, %d on the oracle", after-before, led.Total().Allocated)
	}
}

// spoiled is a device whose compiler misreads one operator of one kernel.
type spoiled struct {
	gpu.Device
	kernel, from, to string
}

func (d *spoiled) Pipelines(ctx context.Context, list []gpu.Shader, progress func(done, total int)) ([]gpu.Pipeline, error) {
	for i := range list {
		if name, _, _ := strings.Cut(list[i].Label, " "); name == d.kernel {
			list[i].Code = strings.Replace(list[i].Code, d.from, d.to, 1)
		}
	}
	return d.Device.Pipelines(ctx, list, progress)
}

// A kernel that computes something else is named.
func TestSelfTestFinds(t *testing.T) {
	dev := gputest.Open(t)
	for kernelName, change := range map[string][2]string{
		"gateup": {"silu(gate[t]) * sums[t]", "silu(gate[t]) + sums[t]"},
		"attend": {"sum += weight;", "sum -= weight;"},
		"weigh":  {"acc += weight", "acc -= weight"},
		"select": {"- 1u] = i;", "- 1u] = 0u;"},
		"keep":   {"if (rank < lists[at + HELD])", "if (rank >= lists[at + HELD])"},
		"evict":  {"rank == NONE", "rank != NONE"},
		"silu":   {"* raw[at + p.ffn]", "+ raw[at + p.ffn]"},
	} {
		lib := newLibrary(&spoiled{dev, kernelName, change[0], change[1]})
		err := lib.SelfTest(context.Background(), ref.NewF64(new(cache.Ledger)), quant.Layout8)
		var failure *kernel.SelfTestError
		if !errors.As(err, &failure) || !strings.Contains(failure.Kernel, kernelName) {
			t.Errorf("%s: %v", kernelName, err)
		}
	}
}
