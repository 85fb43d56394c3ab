package weights

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// OpenPath opens a .gguf file, or a manifest (.json) with its parts beside it. Parts are held to the manifest's sizes,
// not to its hashes. Close the result after use.
func OpenPath(path string) (*File, error) {
	if strings.HasSuffix(path, ".json") {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("weights: %w", err)
		}
		m, err := ReadManifest(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		names := make([]string, len(m.Parts))
		for i, p := range m.Parts {
			names[i] = filepath.Join(filepath.Dir(path), p.Name)
		}
		return openFiles(names, m.Parts)
	}
	return openFiles([]string{path}, nil)
}

// openFiles opens files as one. Where parts are given, each file must have its part's size.
func openFiles(names []string, parts []Part) (*File, error) {
	j := new(joined)
	for i, name := range names {
		f, err := os.Open(name)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("weights: %w", err), j.Close())
		}
		j.files = append(j.files, f)
		info, err := f.Stat()
		if err != nil {
			return nil, errors.Join(fmt.Errorf("weights: %w", err), j.Close())
		}
		if parts != nil && info.Size() != parts[i].Size {
			err := fmt.Errorf("weights: %s has %d bytes, the manifest says %d", name, info.Size(), parts[i].Size)
			return nil, errors.Join(err, j.Close())
		}
		j.ends = append(j.ends, j.size()+info.Size())
	}
	f, err := Open(j, j.size())
	if err != nil {
		return nil, errors.Join(err, j.Close())
	}
	f.close = j.Close
	return f, nil
}

// joined reads files as if they were one.
type joined struct {
	files []*os.File
	ends  []int64 // of each file in the whole
}

func (j *joined) size() int64 {
	if len(j.ends) == 0 {
		return 0
	}
	return j.ends[len(j.ends)-1]
}

func (j *joined) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fmt.Errorf("weights: read at %d", off)
	}
	done := 0
	for i := sort.Search(len(j.ends), func(i int) bool { return j.ends[i] > off }); i < len(j.files); i++ {
		start := int64(0)
		if i > 0 {
			start = j.ends[i-1]
		}
		at := off + int64(done) - start
		want := min(int64(len(p)-done), j.ends[i]-start-at)
		n, err := j.files[i].ReadAt(p[done:done+int(want)], at)
		done += n
		switch {
		case int64(n) < want:
			return done, err
		case done == len(p):
			return done, nil
		}
	}
	return done, io.EOF
}

func (j *joined) Close() error {
	var errs []error
	for _, f := range j.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
