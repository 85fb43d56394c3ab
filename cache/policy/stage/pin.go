package stage

import "slices"

// Pinned is [Protect] where tokens are pinned, by ascending positions. Pins stay before all others that never leave, as
// far as limit has room for them; the rest of limit is for sinks and recent tokens as in Protect. A pin that is no
// candidate does nothing.
func Pinned(marked []bool, pos, pins []int32, sinks, recent, limit int) int {
	if len(pins) == 0 {
		return Protect(marked, pos, sinks, recent, limit)
	}
	n, left := len(pos), limit
	free, first, newest := 0, 0, 0 // not pinned: all, sinks, recent ones
	for i, p := range pos {
		if _, pinned := slices.BinarySearch(pins, p); pinned && left > 0 {
			marked[i] = true
			left--
			continue
		}
		free++
		if int(p) < sinks {
			first++
		}
		if i >= n-recent {
			newest++
		}
	}
	first, newest = Guard(free, first, newest, left)
	for i := 0; first > 0; i++ {
		if !marked[i] {
			marked[i] = true
			first--
		}
	}
	count, last := 0, free-newest // of the tokens that were not pinned, those from last on are recent
	for i, p := range pos {
		if _, pinned := slices.BinarySearch(pins, p); !pinned {
			if last--; last < 0 {
				marked[i] = true
			}
		}
		if marked[i] {
			count++
		}
	}
	return count
}
