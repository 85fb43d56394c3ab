package weights

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"
)

// FS is the place where a Store keeps files: folders of a few files each. The browser's is the origin private file
// system, or memory where that is missing.
type FS interface {
	// Open opens a file for reading and writing, and makes it and its folder where they are missing.
	Open(ctx context.Context, folder, name string) (Handle, error)
	// ReadFile reads a small file whole, even while it is open. A missing one is fs.ErrNotExist.
	ReadFile(ctx context.Context, folder, name string) ([]byte, error)
	// Remove deletes a folder. A missing one is no error.
	Remove(ctx context.Context, folder string) error
	// Space is what the origin uses and may use, in bytes; 0 is unknown.
	Space(ctx context.Context) (usage, quota int64)
	// Lock waits until nobody else holds the lock of this name, in any tab.
	Lock(ctx context.Context, name string) (unlock func(), err error)
	// Kept reports whether files outlive the visit.
	Kept() bool
}

// Handle is an open file. Reads past the end give io.EOF. A write that finds no room wraps ErrNoSpace.
type Handle interface {
	io.ReaderAt
	io.WriterAt
	Size() (int64, error)
	Truncate(size int64) error
	Flush() error
	Close() error
}

// ErrNoSpace is wrapped by the errors of an FS that is full.
var ErrNoSpace = errors.New("no space left for this site")

// Caching says what a Fetcher may take from an HTTP cache.
type Caching uint8

const (
	Revalidate Caching = iota // ask the server whether the cached answer still holds
	Bypass                    // neither read nor fill the cache: the Store keeps a copy of its own
	Reuse                     // whatever is cached
	Reload                    // fetch anew: what came before was wrong
)

// Fetcher gets addresses. An error is a matter of the network; statuses are answers.
type Fetcher interface {
	Get(ctx context.Context, url string, c Caching) (*Response, error)
}

// Response is the answer of a server. Body is decoded, if the server compressed it on the way.
type Response struct {
	Status int
	Type   string // media type
	Body   io.ReadCloser
}

// Store fetches models, verifies them and keeps them. A model is fetched by parts: what arrived before a failure or a
// cancellation is not fetched again.
type Store struct {
	fs    FS
	net   Fetcher
	sleep func(context.Context, time.Duration) error
	stall time.Duration // without a byte, until a connection counts as dead
}

// NewStore makes a store over a file system and a network.
func NewStore(f FS, net Fetcher) *Store {
	return &Store{fs: f, net: net, sleep: sleep, stall: 30 * time.Second}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Kept reports whether models outlive the visit.
func (s *Store) Kept() bool { return s.fs.Kept() }

// Space is what the origin uses and may use, in bytes; 0 is unknown.
func (s *Store) Space(ctx context.Context) (usage, quota int64) { return s.fs.Space(ctx) }

// Model is a stored and verified model file. No other tab can open the same model until it is closed, so close it as
// soon as the weights are loaded. Without OPFS that also frees its memory.
type Model struct {
	Manifest *Manifest

	data  Handle
	close func() error
}

// ReadAt reads the model file, as io.ReaderAt says.
func (m *Model) ReadAt(p []byte, off int64) (int, error) { return m.data.ReadAt(p, off) }

// Close lets others open the model.
func (m *Model) Close() error { return m.close() }

// File reads the header of the model file. Closing the model makes it useless.
func (m *Model) File() (*File, error) { return Open(m, m.Manifest.Size) }

// Open makes sure that all parts of a manifest's model are stored and verified, and opens the model. Parts that are
// missing are fetched, with progress. When the manifest cannot be had, a complete stored model serves: the page works
// offline. Errors: ctx's, *FetchError, *HashError, *QuotaError, *ManifestError, or the file system's.
func (s *Store) Open(ctx context.Context, url string, progress func(Progress)) (*Model, error) {
	unlock, err := s.fs.Lock(ctx, "kvlens "+folderOf(url))
	if err != nil {
		return nil, fmt.Errorf("weights: lock %s: %w", url, err)
	}
	m, err := s.open(ctx, url, progress)
	if err != nil {
		unlock()
		return nil, err
	}
	m.close = func() error {
		err := m.data.Close()
		if !s.fs.Kept() {
			err = errors.Join(err, s.fs.Remove(context.Background(), folderOf(url)))
		}
		unlock()
		return err
	}
	return m, nil
}

func (s *Store) open(ctx context.Context, url string, progress func(Progress)) (*Model, error) {
	rec, err := s.record(ctx, url)
	if err != nil {
		return nil, err
	}
	raw, m, err := s.manifest(ctx, url)
	switch {
	case err != nil && (ctx.Err() != nil || !rec.complete()):
		return nil, err
	case err != nil:
		m = rec.manifest
	default:
		if rec, err = s.renew(ctx, url, rec, m, raw); err != nil {
			return nil, err
		}
	}
	data, err := s.fs.Open(ctx, folderOf(url), dataFile)
	if err != nil {
		return nil, fmt.Errorf("weights: open the stored model: %w", err)
	}
	d := &download{s: s, url: url, m: m, rec: rec, data: data, report: progress}
	if err := d.run(ctx); err != nil {
		return nil, errors.Join(err, data.Close())
	}
	return &Model{Manifest: m, data: data}, nil
}

// Status says what is stored of a model.
type Status struct {
	Manifest *Manifest
	Stored   int64 // bytes of verified parts
}

// Status fetches a manifest, or takes the stored one, and counts what is stored of the model. What another tab is just
// writing may count as nothing.
func (s *Store) Status(ctx context.Context, url string) (Status, error) {
	rec, _ := s.record(ctx, url)
	_, m, err := s.manifest(ctx, url)
	switch {
	case err != nil && rec == nil || ctx.Err() != nil:
		return Status{}, err
	case err != nil || rec != nil && rec.digest == digest(m):
		return Status{rec.manifest, rec.stored()}, nil
	}
	return Status{Manifest: m}, nil
}

// Delete frees what is stored of a model, once nobody has it open.
func (s *Store) Delete(ctx context.Context, url string) error {
	unlock, err := s.fs.Lock(ctx, "kvlens "+folderOf(url))
	if err != nil {
		return fmt.Errorf("weights: lock %s: %w", url, err)
	}
	defer unlock()
	if err := s.fs.Remove(ctx, folderOf(url)); err != nil {
		return fmt.Errorf("weights: delete %s: %w", url, err)
	}
	return nil
}

// manifest fetches and reads a manifest.
func (s *Store) manifest(ctx context.Context, url string) ([]byte, *Manifest, error) {
	var raw bytes.Buffer
	err := s.get(ctx, url, Revalidate, func(r io.Reader) error {
		_, err := io.Copy(&raw, io.LimitReader(r, maxManifest+1))
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	m, err := ReadManifest(raw.Bytes())
	return raw.Bytes(), m, err
}

// Files of a model's folder.
const (
	dataFile     = "data"          // the model file
	manifestFile = "manifest.json" // as fetched
	stateFile    = "state"         // digest of the parts in hex, newline, one byte per part: '1' for verified
)

// record is what a folder holds.
type record struct {
	manifest *Manifest
	raw      []byte
	digest   string
	done     []bool // [parts] verified
}

func (r *record) complete() bool { return r != nil && r.stored() == r.manifest.Size }

func (r *record) stored() (n int64) {
	for i, p := range r.manifest.Parts {
		if r.done[i] {
			n += p.Size
		}
	}
	return n
}

// record reads a folder; nil if it holds nothing that can be used.
func (s *Store) record(ctx context.Context, url string) (*record, error) {
	var raw, state []byte
	for name, to := range map[string]*[]byte{manifestFile: &raw, stateFile: &state} {
		data, err := s.fs.ReadFile(ctx, folderOf(url), name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("weights: read stored %s: %w", name, err)
		}
		*to = data
	}
	m, err := ReadManifest(raw)
	if err != nil {
		return nil, nil
	}
	head, done, _ := strings.Cut(string(state), "\n")
	if head != digest(m) || len(done) != len(m.Parts) {
		return nil, nil
	}
	rec := &record{manifest: m, raw: raw, digest: head, done: make([]bool, len(m.Parts))}
	for i := range rec.done {
		rec.done[i] = done[i] == '1'
	}
	return rec, nil
}

// renew brings a folder in line with a manifest. The parts stay if they are the same as before.
func (s *Store) renew(ctx context.Context, url string, rec *record, m *Manifest, raw []byte) (*record, error) {
	want := digest(m)
	if rec == nil || rec.digest != want {
		rec = &record{digest: want, done: make([]bool, len(m.Parts))}
		if err := s.fs.Remove(ctx, folderOf(url)); err != nil {
			return nil, fmt.Errorf("weights: delete the former model: %w", err)
		}
		state := want + "\n" + strings.Repeat("0", len(m.Parts))
		if err := s.writeFile(ctx, url, stateFile, []byte(state)); err != nil {
			return nil, err
		}
	}
	if !bytes.Equal(rec.raw, raw) {
		if err := s.writeFile(ctx, url, manifestFile, raw); err != nil {
			return nil, err
		}
	}
	rec.manifest, rec.raw = m, raw
	return rec, nil
}

// writeFile replaces a small file.
func (s *Store) writeFile(ctx context.Context, url, name string, data []byte) error {
	h, err := s.fs.Open(ctx, folderOf(url), name)
	if err != nil {
		return fmt.Errorf("weights: make stored %s: %w", name, err)
	}
	_, err = h.WriteAt(data, 0)
	err = errors.Join(err, h.Truncate(int64(len(data))), h.Flush(), h.Close())
	if err != nil {
		return s.storage(ctx, "write stored "+name, int64(len(data)), err)
	}
	return nil
}

// storage words an error of the file system.
func (s *Store) storage(ctx context.Context, what string, need int64, err error) error {
	if !errors.Is(err, ErrNoSpace) {
		return fmt.Errorf("weights: %s: %w", what, err)
	}
	usage, quota := s.fs.Space(ctx)
	return &QuotaError{Need: need, Free: max(0, quota-usage)}
}

// folderOf names a model's folder by its manifest's address.
func folderOf(url string) string {
	d := newDigester()
	d.Write([]byte(url))
	sum := d.sum()
	return "model-" + hex.EncodeToString(sum[:12])
}

// digest names the content of a model: two manifests of one digest have the same bytes.
func digest(m *Manifest) string {
	d := newDigester()
	for _, p := range m.Parts {
		fmt.Fprintln(d, p.Size, p.SHA256)
	}
	return d.hex()
}
