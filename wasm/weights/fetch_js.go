package weights

import (
	"context"
	"io"
	"strings"
	"syscall/js"
)

// fetcher is the browser's own fetch. Bytes stay in JavaScript until they are read.
type fetcher struct{}

var cacheModes = map[Caching]string{Revalidate: "no-cache", Bypass: "no-store", Reuse: "default", Reload: "reload"}

func (fetcher) Get(ctx context.Context, url string, c Caching) (*Response, error) {
	abort := aborter.New()
	stop := context.AfterFunc(ctx, func() { abort.Call("abort") })
	resp, err := await(ctx, js.Global(), "fetch", url, options("cache", cacheModes[c], "signal", abort.Get("signal"), "referrerPolicy", "no-referrer"))
	if err != nil {
		stop()
		return nil, err
	}
	r := &Response{Status: resp.Get("status").Int()}
	if v := resp.Get("headers").Call("get", "content-type"); v.Type() == js.TypeString {
		kind, _, _ := strings.Cut(v.String(), ";")
		r.Type = strings.ToLower(strings.TrimSpace(kind))
	}
	stream := &stream{ctx: ctx, stop: stop, abort: abort}
	if body := resp.Get("body"); !body.IsNull() {
		stream.reader = body.Call("getReader")
	}
	r.Body = stream
	return r, nil
}

// stream reads a response's body, chunk by chunk as the browser hands them out.
type stream struct {
	ctx    context.Context
	stop   func() bool
	abort  js.Value
	reader js.Value // undefined for an answer without a body
	chunk  js.Value // Uint8Array
	off    int      // of the first byte of chunk that was not read
	size   int      // of chunk
}

func (s *stream) Read(p []byte) (int, error) {
	if s.reader.IsUndefined() {
		return 0, io.EOF
	}
	for s.off == s.size {
		v, err := await(s.ctx, s.reader, "read")
		if err != nil {
			return 0, err
		}
		if v.Get("done").Bool() {
			return 0, io.EOF
		}
		s.chunk, s.off = v.Get("value"), 0
		s.size = s.chunk.Length()
	}
	view := s.chunk
	if s.off > 0 {
		view = view.Call("subarray", s.off)
	}
	n := js.CopyBytesToGo(p, view)
	s.off += n
	return n, nil
}

// Close ends the transfer, wherever it is.
func (s *stream) Close() error {
	s.stop()
	s.abort.Call("abort")
	return nil
}
