package proto

import (
	"context"
	"errors"
)

// ErrClosed is what Recv and Send report on a closed connection.
var ErrClosed = errors.New("proto: connection closed")

// Conn carries packets between the page and the engine, in order. In the browser it is a worker's port, in tests a Pipe.
type Conn interface {
	// Send hands over a packet; it never blocks, and the packet belongs to the connection afterwards.
	Send(packet []byte) error
	// Recv waits for the next packet. An error is final: the other side is gone.
	Recv(ctx context.Context) ([]byte, error)
	// Close ends the connection for both sides.
	Close()
}

// Pipe makes the two ends of a connection in memory.
func Pipe() (page, engine Conn) {
	a, b := NewQueue[[]byte](), NewQueue[[]byte]()
	return &pipe{in: a, out: b}, &pipe{in: b, out: a}
}

type pipe struct{ in, out *Queue[[]byte] }

func (p *pipe) Send(packet []byte) error                 { return p.out.Push(packet) }
func (p *pipe) Recv(ctx context.Context) ([]byte, error) { return p.in.Pop(ctx) }

func (p *pipe) Close() {
	p.in.Fail(ErrClosed)
	p.out.Fail(ErrClosed)
}
