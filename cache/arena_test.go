package cache

import (
	"math/rand/v2"
	"testing"
)

// Random allocations and releases against a map of owners: no unit has two, first fit means the lowest place that fits,
// and the free sum is what nobody owns.
func TestArenaAgainstMap(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 5))
		size := int64(1 + r.IntN(60))
		a := newArena(size*unit + int64(r.IntN(unit))) // bytes past the last whole unit are of no use
		owner := make([]int, size)
		type span struct{ at, n int64 }
		live := map[int]span{}
		fits := func(at, n int64) bool {
			for i := at; i < at+n; i++ {
				if i >= size || owner[i] != 0 {
					return false
				}
			}
			return true
		}
		for id := 1; id < 400; id++ {
			if len(live) > 0 && r.IntN(2) == 0 {
				for k, s := range live { // any one
					a.release(s.at, s.n)
					for i := s.at; i < s.at+s.n; i++ {
						owner[i] = 0
					}
					delete(live, k)
					break
				}
			} else {
				n := int64(1 + r.IntN(9))
				want := int64(0)
				for want < size && !fits(want, n) {
					want++
				}
				at, ok := a.alloc(n)
				if ok != (want < size) || ok && at != want {
					t.Fatalf("seed %d: alloc(%d) = %d, %v; first fit is at %d of %d", seed, n, at, ok, want, size)
				}
				if ok {
					live[id] = span{at, n}
					for i := at; i < at+n; i++ {
						owner[i] = id
					}
				}
			}
			free := int64(0)
			for _, o := range owner {
				if o == 0 {
					free++
				}
			}
			if a.free != free {
				t.Fatalf("seed %d: %d units free, want %d", seed, a.free, free)
			}
			for i := 1; i < len(a.runs); i++ {
				if a.runs[i-1].end() >= a.runs[i].at {
					t.Fatalf("seed %d: runs %v are not apart", seed, a.runs)
				}
			}
		}
	}
}

func TestArenaReleasedTwice(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	a := newArena(10 * unit)
	at, _ := a.alloc(4)
	a.release(at, 4)
	a.release(at, 4)
}
