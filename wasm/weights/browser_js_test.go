package weights

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"runtime"
	"strings"
	"syscall/js"
	"testing"
	"time"
)

// These tests need a worker of a browser: node has no origin private file system.
func needBrowser(t *testing.T) {
	t.Helper()
	if js.Global().Get("WorkerGlobalScope").IsUndefined() {
		t.Skip("not in a worker of a browser")
	}
}

// network puts answers in the place of fetch: by path, as Response objects of the browser.
type network struct {
	answers map[string][]byte // by the last element of the path; nil is a lost connection
	gets    map[string]int
	modes   map[string]string // cache mode of the last request
}

func fakeNetwork(t *testing.T) *network {
	n := &network{answers: make(map[string][]byte), gets: make(map[string]int), modes: make(map[string]string)}
	real := js.Global().Get("fetch")
	fake := js.FuncOf(func(_ js.Value, args []js.Value) any {
		url := args[0].String()
		name := url[strings.LastIndexByte(url, '/')+1:]
		n.gets[name]++
		n.modes[name] = args[1].Get("cache").String()
		data, ok := n.answers[name]
		switch {
		case !ok:
			return promise.Call("resolve", js.Global().Get("Response").New("no", options("status", 404)))
		case data == nil:
			return promise.Call("reject", js.Global().Get("TypeError").New("Failed to fetch"))
		}
		a := uint8Array.New(len(data))
		js.CopyBytesToJS(a, data)
		head := options("content-type", "Application/Octet-Stream; x=y")
		return promise.Call("resolve", js.Global().Get("Response").New(a, options("headers", head)))
	})
	js.Global().Set("fetch", fake)
	t.Cleanup(func() {
		js.Global().Set("fetch", real)
		fake.Release()
	})
	return n
}

// serve answers for a model; its parts are larger than the pieces in which bytes move.
func (n *network) serve(data []byte, size int) *Manifest {
	m := manifest(data, size)
	n.answers["manifest.json"] = encode(m)
	for i, p := range m.Parts {
		n.answers[p.Name] = data[i*size:][:p.Size]
	}
	return m
}

func bigModel() []byte {
	data := allKinds()
	for i := range 2_000_000 {
		data = append(data, byte(i*i>>7))
	}
	return data
}

func openAndCompare(t *testing.T, s *Store, url string, want []byte, progress func(Progress)) {
	t.Helper()
	m, err := s.Open(t.Context(), url, progress)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}()
	got, err := io.ReadAll(io.NewSectionReader(m, 0, m.Manifest.Size))
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%d bytes, not the model: %v", len(got), err)
	}
	f, err := m.File()
	if err != nil || len(f.Tensors) != 3 {
		t.Fatalf("file: %v", err)
	}
	// The same bytes without Go's memory between, from the middle of a page or piece to the middle of another.
	var past []byte
	ok, err := f.Values(1000, f.Size-1001, func(array js.Value, from, size int64) error {
		p := make([]byte, size)
		js.CopyBytesToGo(p, array.Call("subarray", from, from+size))
		past = append(past, p...)
		return nil
	})
	if !ok || err != nil || !bytes.Equal(past, want[1000:len(want)-1]) {
		t.Errorf("values: %v, %d bytes, %v", ok, len(past), err)
	}
	if _, err := f.Values(f.Size-3, 4, nil); err == nil {
		t.Error("values past the end: no error")
	}
}

func TestBrowserStore(t *testing.T) {
	needBrowser(t)
	n, data := fakeNetwork(t), bigModel()
	m := n.serve(data, 900_000)
	const url = "https://models.example/test/manifest.json"
	s := Browser(t.Context())
	if !s.Kept() {
		t.Fatal("no origin private file system")
	}
	if err := s.Delete(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	part2 := n.answers["part-2.bin"]
	n.answers["part-2.bin"] = make([]byte, len(part2)) // corrupt
	var bad *HashError
	if _, err := s.Open(t.Context(), url, nil); !errors.As(err, &bad) || bad.Part != "part-2.bin" || bad.Storage {
		t.Fatalf("corrupt part: %v", err)
	}
	if n.modes["part-0.bin"] != "no-store" || n.modes["part-2.bin"] != "reload" || n.modes["manifest.json"] != "no-cache" {
		t.Errorf("cache modes %v", n.modes)
	}
	n.answers["part-2.bin"] = part2
	var first *Progress
	openAndCompare(t, s, url, data, func(p Progress) {
		if first == nil {
			first = &p
		}
	})
	if first.Resumed != 1_800_000 || n.gets["part-0.bin"] != 1 {
		t.Errorf("resumed at %+v", first)
	}
	for name := range n.answers {
		n.answers[name] = nil // offline
	}
	openAndCompare(t, Browser(t.Context()), url, data, nil)
	status, err := s.Status(t.Context(), url)
	if err != nil || status.Stored != m.Size {
		t.Errorf("status %+v, %v", status, err)
	}
	if usage, quota := s.Space(t.Context()); usage < m.Size || quota < usage {
		t.Errorf("usage %d of %d", usage, quota)
	}
	if err := s.Delete(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	var lost *FetchError
	s.sleep = func(context.Context, time.Duration) error { return nil }
	if _, err := s.Open(t.Context(), url, nil); !errors.As(err, &lost) || lost.Err == nil {
		t.Errorf("offline with nothing stored: %v", err)
	}
}

// Where the file system is missing or refused, the same works from memory outside Go, which is free again afterwards.
func TestBrowserWithoutOPFS(t *testing.T) {
	needBrowser(t)
	proto := js.Global().Get("FileSystemFileHandle").Get("prototype")
	method := proto.Get("createSyncAccessHandle")
	proto.Delete("createSyncAccessHandle")
	defer proto.Set("createSyncAccessHandle", method)
	n, data := fakeNetwork(t), bigModel()
	n.serve(data, 900_000)
	s := Browser(t.Context())
	if s.Kept() {
		t.Fatal("kept without a file system")
	}
	openAndCompare(t, s, "https://models.example/memory/manifest.json", data, nil)
	if n.modes["part-0.bin"] != "default" { // the browser's cache may spare the next visit a download
		t.Errorf("cache modes %v", n.modes)
	}
	if files := s.fs.(*tabFS).files; len(files) != 0 {
		t.Error("a closed model stays in memory")
	}
}

func TestOPFSFile(t *testing.T) {
	needBrowser(t)
	o, err := openOPFS(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if err := o.Remove(ctx, "test"); err != nil {
		t.Fatal(err)
	}
	if _, err := o.ReadFile(ctx, "test", "a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	h, err := o.Open(ctx, "test", "a")
	if err != nil {
		t.Fatal(err)
	}
	text := bytes.Repeat([]byte("0123456789abcde"), 60_000) // three pieces and some
	if n, err := h.WriteAt(text, 7); n != len(text) || err != nil {
		t.Fatalf("%d bytes written: %v", n, err)
	}
	got := make([]byte, len(text)+9)
	if n, err := h.ReadAt(got, 7); n != len(text) || err != io.EOF || !bytes.Equal(got[:n], text) {
		t.Errorf("%d bytes read: %v", n, err)
	}
	if n, err := h.ReadAt(got[:15], 7+15*59_999); n != 15 || err != nil || string(got[:15]) != "0123456789abcde" {
		t.Errorf("last bytes: %q, %v", got[:n], err)
	}
	if err := errors.Join(h.Truncate(9), h.Flush()); err != nil {
		t.Error(err)
	}
	if size, err := h.Size(); size != 9 || err != nil {
		t.Errorf("size %d: %v", size, err)
	}
	if data, err := o.ReadFile(ctx, "test", "a"); err != nil || string(data) != "\x00\x00\x00\x00\x00\x00\x0001" { // while it is open
		t.Errorf("%q, %v", data, err)
	}
	go func() {
		time.Sleep(150 * time.Millisecond)
		h.Close()
	}()
	again, err := o.Open(ctx, "test", "a") // waits until it is closed
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(again.Close(), o.Remove(ctx, "test")); err != nil {
		t.Error(err)
	}
	if _, err := again.Size(); err == nil {
		t.Error("a closed file has a size")
	}
}

func TestFetchStopsWhenToldTo(t *testing.T) {
	needBrowser(t)
	aborted := make(chan struct{})
	real := js.Global().Get("fetch")
	fake := js.FuncOf(func(_ js.Value, args []js.Value) any {
		heard := js.FuncOf(func(js.Value, []js.Value) any { close(aborted); return nil })
		args[1].Get("signal").Call("addEventListener", "abort", heard)
		endless := js.Global().Get("ReadableStream").New(options())
		return promise.Call("resolve", js.Global().Get("Response").New(endless))
	})
	defer fake.Release()
	js.Global().Set("fetch", fake)
	defer js.Global().Set("fetch", real)
	ctx, cancel := context.WithCancel(t.Context())
	resp, err := fetcher{}.Get(ctx, "/endless", Reuse)
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := resp.Body.Read(make([]byte, 10)); !errors.Is(err, context.Canceled) {
		t.Errorf("read: %v", err)
	}
	<-aborted // the browser is told to stop
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
}

func TestFetchForReal(t *testing.T) {
	needBrowser(t)
	resp, err := fetcher{}.Get(t.Context(), "/worker.js", Bypass)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if resp.Status != 200 || resp.Type != "text/javascript" || err != nil || !bytes.Contains(data, []byte("importScripts")) {
		t.Errorf("status %d, type %q, %d bytes, %v", resp.Status, resp.Type, len(data), err)
	}
	if missing, err := (fetcher{}).Get(t.Context(), "/nothing/here", Bypass); err != nil || missing.Status != 404 {
		t.Errorf("missing: %v", err)
	}
	if _, err := (fetcher{}).Get(t.Context(), "http://127.0.0.1:1/", Bypass); err == nil {
		t.Error("nobody listens, but somebody answered")
	}
}

func TestWebLock(t *testing.T) {
	needBrowser(t)
	unlock, err := webLock(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := webLock(ctx, "test"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("second lock: %v", err)
	}
	other, err := webLock(t.Context(), "test 2")
	if err != nil {
		t.Fatal(err)
	}
	other()
	unlock()
	again, err := webLock(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	again()
}

// Bytes go from the network to storage through one small buffer: Go's memory would keep every peak for good.
func TestBrowserStoreIsThrifty(t *testing.T) {
	needBrowser(t)
	n, data := fakeNetwork(t), make([]byte, 12<<20)
	n.serve(data, 4<<20)
	const url = "https://models.example/large/manifest.json"
	s := Browser(t.Context())
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	m, err := s.Open(t.Context(), url, nil)
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	if spent := after.TotalAlloc - before.TotalAlloc; spent > 2<<20 {
		t.Errorf("%d bytes allocated for a download of %d", spent, len(data))
	}
	if err := errors.Join(m.Close(), s.Delete(t.Context(), url)); err != nil {
		t.Error(err)
	}
}
