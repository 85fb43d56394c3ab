package cache

import (
	"errors"
	"fmt"
)

// FullError says that the cap is reached.
type FullError struct {
	Stored, Asked, Room int   // tokens: of the fullest list and of every list, or of one where one list asked
	Cap                 int64 // bytes
}

func (e *FullError) Error() string {
	return fmt.Sprintf("cache: full: %d tokens are stored and %d of %d more fit in %d bytes", e.Stored, e.Room, e.Asked, e.Cap)
}

// ErrScattered says that there are enough free bytes for what was asked, but no run of them is long enough for a page.
// After [Cache.Gather], and the copies that it asks for, the same call succeeds.
var ErrScattered = errors.New("free memory is scattered")

// ErrOtherArena says that what was saved belongs to another arena, or to one of another size.
var ErrOtherArena = errors.New("cache: load: the arena is not the one that was saved")

// SizeError says that an arena cannot have a size.
type SizeError struct{ Used, Cap int64 } // bytes

func (e *SizeError) Error() string {
	return fmt.Sprintf("cache: resize: cap of %d bytes: want %d…%d", e.Cap, e.Used, int64(MaxCap))
}
