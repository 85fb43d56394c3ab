// Command engine is the program of the Web Worker: it serves the page's requests over the worker's own port.
package main

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"syscall/js"

	"kvlens/wasm/engine/core"
	"kvlens/wasm/jsutil"
	"kvlens/wasm/proto"
	"kvlens/wasm/weights"
)

// build is set by the linker; the page's must be the same.
var build = "dev"

func main() {
	debug.SetGCPercent(20) // until the engine knows what is alive: memory once taken is never given back
	conn := &port{self: js.Global(), in: proto.NewQueue[[]byte]()}
	jsutil.Listen(conn.self, func(p []byte) { _ = conn.in.Push(p) }, func(string) {})
	ctx := context.Background()
	err := core.Serve(ctx, conn, core.Config{
		Build:    build,
		Store:    weights.Browser(ctx),
		Backend:  backends.Choose,
		Yield:    jsutil.Yield,
		Awake:    jsutil.Awake,
		Reserved: jsutil.MemoryBytes,
	})
	fmt.Fprintln(os.Stderr, "engine:", err)
	os.Exit(1)
}

// port is the worker's end of its connection to the page.
type port struct {
	self js.Value
	in   *proto.Queue[[]byte]
}

func (p *port) Send(packet []byte) error                 { return jsutil.Post(p.self, packet) }
func (p *port) Recv(ctx context.Context) ([]byte, error) { return p.in.Pop(ctx) }
func (p *port) Close()                                   { p.in.Fail(proto.ErrClosed) }
