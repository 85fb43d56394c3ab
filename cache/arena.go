package cache

import "slices"

// unit is the allocation unit of an arena, in bytes.
const unit = 16

// arena hands out runs of units by first fit. It knows offsets only; the bytes belong to a backend.
//
// Pages of one kind have one size, and sizes differ between kinds: once pages are freed, the free sum may suffice for a
// page for which there is no run. Pages are found through tables only, so they can move (see Cache.Gather).
type arena struct {
	size int64 // units
	free int64 // units, the sum of runs
	runs []run // free runs by offset, never adjacent
}

type run struct{ at, n int64 }

func (r run) end() int64 { return r.at + r.n }

func newArena(bytes int64) *arena {
	a := &arena{size: bytes / unit}
	a.reset()
	return a
}

func (a *arena) reset() {
	a.free = a.size
	a.runs = a.runs[:0]
	if a.size > 0 {
		a.runs = append(a.runs, run{0, a.size})
	}
}

// alloc returns the offset of n units, or false if no run is long enough.
func (a *arena) alloc(n int64) (at int64, ok bool) {
	for i := range a.runs {
		r := &a.runs[i]
		if r.n < n {
			continue
		}
		at = r.at
		r.at, r.n = r.at+n, r.n-n
		if r.n == 0 {
			a.runs = slices.Delete(a.runs, i, i+1)
		}
		a.free -= n
		return at, true
	}
	return 0, false
}

// release gives back n units at an offset that alloc returned, and joins them with their free neighbours.
func (a *arena) release(at, n int64) {
	i, _ := slices.BinarySearchFunc(a.runs, at, func(r run, at int64) int { return int(r.at - at) })
	freed := run{at, n}
	if i > 0 && a.runs[i-1].end() > at || i < len(a.runs) && freed.end() > a.runs[i].at {
		panic("cache: page released twice")
	}
	a.free += n
	joinsLeft := i > 0 && a.runs[i-1].end() == at
	joinsRight := i < len(a.runs) && freed.end() == a.runs[i].at
	switch {
	case joinsLeft && joinsRight:
		a.runs[i-1].n += n + a.runs[i].n
		a.runs = slices.Delete(a.runs, i, i+1)
	case joinsLeft:
		a.runs[i-1].n += n
	case joinsRight:
		a.runs[i] = run{at, n + a.runs[i].n}
	default:
		a.runs = slices.Insert(a.runs, i, freed)
	}
}

// gather makes all free units one run, at the end.
func (a *arena) gather() {
	a.runs = a.runs[:0]
	if a.free > 0 {
		a.runs = append(a.runs, run{a.size - a.free, a.free})
	}
}

// end is where the last page ends.
func (a *arena) end() int64 {
	if n := len(a.runs); n > 0 && a.runs[n-1].end() == a.size {
		return a.runs[n-1].at
	}
	return a.size
}

// resize sets the size, which is at least end.
func (a *arena) resize(size int64) {
	end := a.end()
	if end < a.size {
		a.runs = a.runs[:len(a.runs)-1]
	}
	if end < size {
		a.runs = append(a.runs, run{end, size - end})
	}
	a.free += size - a.size
	a.size = size
}
