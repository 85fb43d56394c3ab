package main

import (
	"context"

	"kvlens/cache"
	"kvlens/wasm/gpu"
	"kvlens/wasm/kernel"
	"kvlens/wasm/step"
)

// gpuBackend runs on a device of its own, software or not, and counts what it asks of it.
type gpuBackend struct {
	*kernel.Backend
	dev *countedDevice
}

func newGPU(led *cache.Ledger) (step.Backend, error) {
	dev, err := gpu.Open(context.Background(), gpu.Options{Fallback: true})
	if err != nil {
		return nil, err
	}
	counted := &countedDevice{Device: dev, recorded: map[gpu.Recording]int{}}
	return &gpuBackend{kernel.NewLibrary(counted).Backend(led), counted}, nil
}

// Close frees all memory, and the device.
func (b *gpuBackend) Close() error {
	err := b.Backend.Close()
	b.dev.Close()
	return err
}

// countedDevice counts dispatches.
type countedDevice struct {
	gpu.Device
	dispatches int
	recorded   map[gpu.Recording]int
}

func (c *countedDevice) Run(d []gpu.Dispatch) error {
	c.dispatches += len(d)
	return c.Device.Run(d)
}

func (c *countedDevice) Record(d []gpu.Dispatch, read gpu.Binding) (gpu.Recording, error) {
	r, err := c.Device.Record(d, read)
	c.recorded[r] = len(d)
	return r, err
}

func (c *countedDevice) Replay(r gpu.Recording) error {
	c.dispatches += c.recorded[r]
	return c.Device.Replay(r)
}
