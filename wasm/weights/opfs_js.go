package weights

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall/js"
	"time"

	"kvlens/wasm/jsutil"
)

// opfs is the origin private file system, seen from a worker.
type opfs struct {
	storage js.Value // navigator.storage
	root    js.Value // a folder of our own
}

const opfsFolder = "kvlens"

// openOPFS looks whether there is one that works: some browsers have it and refuse it, for example in private windows.
func openOPFS(ctx context.Context) (*opfs, error) {
	storage := js.Global().Get("navigator").Get("storage")
	handle := js.Global().Get("FileSystemFileHandle")
	if storage.IsUndefined() || handle.IsUndefined() || storage.Get("getDirectory").IsUndefined() ||
		handle.Get("prototype").Get("createSyncAccessHandle").IsUndefined() {
		return nil, errors.New("weights: no origin private file system")
	}
	top, err := await(ctx, storage, "getDirectory")
	if err != nil {
		return nil, fmt.Errorf("weights: origin private file system: %w", err)
	}
	root, err := await(ctx, top, "getDirectoryHandle", opfsFolder, options("create", true))
	if err != nil {
		return nil, fmt.Errorf("weights: origin private file system: %w", err)
	}
	return &opfs{storage, root}, nil
}

func (o *opfs) Kept() bool { return true }

func (o *opfs) Lock(ctx context.Context, name string) (func(), error) { return webLock(ctx, name) }

func (o *opfs) Space(ctx context.Context) (usage, quota int64) {
	e, err := await(ctx, o.storage, "estimate")
	if err != nil {
		return 0, 0
	}
	number := func(name string) int64 {
		if v := e.Get(name); v.Type() == js.TypeNumber {
			return int64(v.Float())
		}
		return 0
	}
	return number("usage"), number("quota")
}

func (o *opfs) Remove(ctx context.Context, folder string) error {
	_, err := await(ctx, o.root, "removeEntry", folder, options("recursive", true))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (o *opfs) ReadFile(ctx context.Context, folder, name string) ([]byte, error) {
	dir, err := await(ctx, o.root, "getDirectoryHandle", folder)
	if err != nil {
		return nil, err
	}
	entry, err := await(ctx, dir, "getFileHandle", name)
	if err != nil {
		return nil, err
	}
	file, err := await(ctx, entry, "getFile")
	if err != nil {
		return nil, err
	}
	if n := file.Get("size").Int(); n > maxManifest {
		return nil, fmt.Errorf("%s/%s has %d bytes", folder, name, n)
	}
	buf, err := await(ctx, file, "arrayBuffer")
	if err != nil {
		return nil, err
	}
	a := uint8Array.New(buf)
	data := make([]byte, a.Length())
	js.CopyBytesToGo(data, a)
	return data, nil
}

func (o *opfs) Open(ctx context.Context, folder, name string) (Handle, error) {
	dir, err := await(ctx, o.root, "getDirectoryHandle", folder, options("create", true))
	if err != nil {
		return nil, err
	}
	entry, err := await(ctx, dir, "getFileHandle", name, options("create", true))
	if err != nil {
		return nil, err
	}
	// A worker that was ended holds its files for a moment longer.
	for wait := 50 * time.Millisecond; ; wait *= 2 {
		h, err := await(context.WithoutCancel(ctx), entry, "createSyncAccessHandle") // a handle nobody waits for stays open
		var thrown js.Error
		switch {
		case err == nil:
			return &opfsFile{h: h, buf: uint8Array.New(pieceSize), at: options("at", 0)}, nil
		case wait > 2*time.Second || !errors.As(err, &thrown) || jsutil.Name(thrown) != "NoModificationAllowedError":
			return nil, err
		}
		if err := sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// opfsFile moves bytes through one small buffer of JavaScript, used again for every piece.
type opfsFile struct {
	h   js.Value // FileSystemSyncAccessHandle
	buf js.Value // Uint8Array of pieceSize
	at  js.Value // {at: offset}
}

func (f *opfsFile) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fs.ErrInvalid
	}
	done := 0
	for done < len(p) {
		want := min(len(p)-done, pieceSize)
		n, err := f.move("read", want, off+int64(done))
		if err != nil {
			return done, err
		}
		if n > 0 {
			js.CopyBytesToGo(p[done:done+n], f.buf)
			done += n
		}
		if n < want {
			return done, io.EOF
		}
	}
	return done, nil
}

func (f *opfsFile) WriteAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fs.ErrInvalid
	}
	done := 0
	for done < len(p) {
		piece := p[done:min(len(p), done+pieceSize)]
		js.CopyBytesToJS(f.buf, piece)
		n, err := f.move("write", len(piece), off+int64(done))
		done += n
		if err == nil && n < len(piece) {
			err = fmt.Errorf("%d of %d bytes written: %w", n, len(piece), ErrNoSpace)
		}
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// move reads or writes n bytes between the buffer and the file.
func (f *opfsFile) move(method string, n int, off int64) (int, error) {
	f.at.Set("at", off)
	view := f.buf
	if n < pieceSize {
		view = f.buf.Call("subarray", 0, n)
	}
	v, err := call(f.h, method, view, f.at)
	if err != nil {
		return 0, err
	}
	return v.Int(), nil
}

func (f *opfsFile) Size() (int64, error) {
	v, err := call(f.h, "getSize")
	if err != nil {
		return 0, err
	}
	return int64(v.Float()), nil
}

func (f *opfsFile) Truncate(size int64) error {
	_, err := call(f.h, "truncate", size)
	return err
}

func (f *opfsFile) Flush() error {
	_, err := call(f.h, "flush")
	return err
}

func (f *opfsFile) Close() error {
	_, err := call(f.h, "close")
	return err
}
