package weights

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Progress of Store.Open, in bytes.
type Progress struct {
	Done, Total int64
	Resumed     int64 // of Done, what was stored before
	Refetched   int   // parts that arrived broken and were fetched again
}

// FetchError says that an address could not be fetched. Opening again goes on where this stopped.
type FetchError struct {
	URL    string
	Status int    // the server's answer, 0 if there was none
	Msg    string // what is wrong with the answer
	Err    error  // the network's error, or nil
}

func (e *FetchError) Error() string {
	s := "weights: fetch " + e.URL
	if e.Status != 0 {
		s += fmt.Sprintf(": status %d", e.Status)
	}
	if e.Msg != "" {
		s += ": " + e.Msg
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *FetchError) Unwrap() error { return e.Err }

// passing reports whether trying again soon may help.
func (e *FetchError) passing() bool {
	return e.Err != nil || e.Status >= 500 || e.Status == 408 || e.Status == 429
}

// HashError says that a part was not what the manifest says, twice.
type HashError struct {
	Part, Want, Got string // name and SHA-256
	// Storage is true when the part arrived whole, but reading it back from storage gave something else.
	Storage bool
}

func (e *HashError) Error() string {
	where := "arrived"
	if e.Storage {
		where = "was stored"
	}
	return fmt.Sprintf("weights: part %s %s with sha256 %s, the manifest says %s", e.Part, where, e.Got, e.Want)
}

// QuotaError says that the browser does not give enough storage.
type QuotaError struct{ Need, Free int64 } // bytes

func (e *QuotaError) Error() string {
	return fmt.Sprintf("weights: %d bytes to store, %d free: %v", e.Need, e.Free, ErrNoSpace)
}

func (e *QuotaError) Unwrap() error { return ErrNoSpace }

const (
	maxTries  = 4       // of a part, while the network fails
	pieceSize = 1 << 18 // bytes that are in memory at a time
)

// download fills a model's data file.
type download struct {
	s      *Store
	url    string // of the manifest
	m      *Manifest
	rec    *record
	data   Handle
	report func(Progress)

	state     Handle
	verified  int64 // bytes
	resumed   int64
	refetched int
	buf       []byte
}

func (d *download) run(ctx context.Context) error {
	if err := d.trim(); err != nil {
		return err
	}
	d.verified = d.rec.stored()
	d.resumed = d.verified
	d.progress(0)
	need := d.m.Size - d.verified
	if need == 0 {
		return nil
	}
	if usage, quota := d.s.fs.Space(ctx); quota > 0 && need > quota-usage {
		return &QuotaError{Need: need, Free: max(0, quota-usage)}
	}
	state, err := d.s.fs.Open(ctx, folderOf(d.url), stateFile)
	if err != nil {
		return fmt.Errorf("weights: open the download's state: %w", err)
	}
	d.state, d.buf = state, make([]byte, pieceSize)
	var off int64
	for i, p := range d.m.Parts {
		if !d.rec.done[i] {
			if err := d.part(ctx, i, off); err != nil {
				return errors.Join(err, state.Close())
			}
		}
		off += p.Size
	}
	return state.Close()
}

// trim forgets parts that the data file is too short for.
func (d *download) trim() error {
	size, err := d.data.Size()
	if err != nil {
		return fmt.Errorf("weights: size of the stored model: %w", err)
	}
	var end int64
	for i, p := range d.m.Parts {
		end += p.Size
		d.rec.done[i] = d.rec.done[i] && end <= size
	}
	return nil
}

// part fetches one part, through failures that may pass, and marks it.
func (d *download) part(ctx context.Context, i int, off int64) error {
	how := Reuse
	if d.s.fs.Kept() {
		how = Bypass
	}
	for tries := 1; ; tries++ {
		err := d.try(ctx, i, off, how)
		var bad *HashError
		var lost *FetchError
		switch {
		case err == nil:
			return d.mark(ctx, i)
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &bad) && how != Reload:
			how, tries = Reload, 0
			d.refetched++
		case errors.As(err, &lost) && lost.passing() && tries < maxTries:
			if err := d.s.sleep(ctx, time.Second<<tries/4); err != nil {
				return err
			}
		default:
			return err
		}
		d.progress(0)
	}
}

// try fetches a part, stores it and verifies what was stored.
func (d *download) try(ctx context.Context, i int, off int64, how Caching) error {
	p := d.m.Parts[i]
	var arrived *digester
	if how == Reload { // the first time was wrong: find out whether the network or the storage is to blame
		arrived = newDigester()
	}
	err := d.s.get(ctx, sibling(d.url, p.Name), how, func(r io.Reader) error {
		return d.store(ctx, r, p, off, arrived)
	})
	if err != nil {
		return err
	}
	if err := d.data.Flush(); err != nil {
		return d.s.storage(ctx, "store "+p.Name, p.Size, err)
	}
	got, err := d.sum(p.Size, off)
	if err != nil || got == p.SHA256 {
		return err
	}
	bad := &HashError{Part: p.Name, Want: p.SHA256, Got: got}
	bad.Storage = arrived != nil && arrived.hex() == p.SHA256
	return bad
}

// store copies exactly a part's bytes from r to the data file.
func (d *download) store(ctx context.Context, r io.Reader, p Part, off int64, arrived *digester) error {
	var done int64
	for {
		n, err := r.Read(d.buf)
		if int64(n) > p.Size-done {
			return &HashError{Part: p.Name, Want: p.SHA256, Got: fmt.Sprintf("more than %d bytes", p.Size)}
		}
		if n > 0 {
			if _, err := d.data.WriteAt(d.buf[:n], off+done); err != nil {
				return d.s.storage(ctx, "store "+p.Name, p.Size, err)
			}
			if arrived != nil {
				arrived.Write(d.buf[:n])
			}
			done += int64(n)
			d.progress(done)
		}
		switch {
		case err == io.EOF && done < p.Size:
			return fmt.Errorf("ends after %d of %d bytes: %w", done, p.Size, io.ErrUnexpectedEOF)
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

// sum is the SHA-256 of a part as it is stored.
func (d *download) sum(size, off int64) (string, error) {
	h := newDigester()
	if _, err := io.CopyBuffer(struct{ io.Writer }{h}, io.NewSectionReader(d.data, off, size), d.buf); err != nil {
		return "", fmt.Errorf("weights: read back what was stored: %w", err)
	}
	return h.hex(), nil
}

func (d *download) mark(ctx context.Context, i int) error {
	_, err := d.state.WriteAt([]byte{'1'}, int64(len(d.rec.digest)+1+i))
	if err = errors.Join(err, d.state.Flush()); err != nil {
		return d.s.storage(ctx, "mark a part as stored", 1, err)
	}
	d.rec.done[i] = true
	d.verified += d.m.Parts[i].Size
	d.progress(0)
	return nil
}

// progress reports, with the bytes of a part that is not verified yet.
func (d *download) progress(part int64) {
	if d.report != nil {
		d.report(Progress{Done: d.verified + part, Total: d.m.Size, Resumed: d.resumed, Refetched: d.refetched})
	}
}

// get fetches an address and hands a good answer's body to read. Trouble with the network is a *FetchError; a
// connection that is silent for too long is cut.
func (s *Store) get(ctx context.Context, url string, how Caching, read func(io.Reader) error) error {
	inner, cut := context.WithCancel(ctx)
	defer cut()
	stall := time.AfterFunc(s.stall, cut)
	defer stall.Stop()
	fail := func(err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case inner.Err() != nil:
			err = fmt.Errorf("nothing came for %v", s.stall)
		}
		return &FetchError{URL: url, Err: err}
	}
	resp, err := s.net.Get(inner, url, how)
	if err != nil {
		return fail(err)
	}
	defer resp.Body.Close()
	switch {
	case resp.Status != 200:
		return &FetchError{URL: url, Status: resp.Status}
	case strings.HasPrefix(resp.Type, "text/html"):
		return &FetchError{URL: url, Msg: "the server answered with a page instead of the file"}
	}
	body := &body{r: resp.Body, alive: func() { stall.Reset(s.stall) }}
	err = read(body)
	if body.err != nil && body.err != io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
		return fail(err)
	}
	return err
}

// body remembers the network's error, to tell it from others, and tells that bytes come.
type body struct {
	r     io.Reader
	alive func()
	err   error
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	b.alive()
	b.err = err
	return n, err
}

// sibling is the address of a file beside a manifest.
func sibling(url, name string) string {
	url, _, _ = strings.Cut(url, "#")
	url, _, _ = strings.Cut(url, "?")
	start := 0
	if i := strings.Index(url, "://"); i >= 0 {
		start = i + len("://")
	}
	i := strings.LastIndexByte(url[start:], '/')
	if i < 0 && start > 0 { // a host without a path
		return url + "/" + name
	}
	return url[:start+i+1] + name
}
