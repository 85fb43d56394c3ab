package step

import "time"

var begin = time.Now()

// Clock is how long the program has run. Whatever keeps a moment keeps this: a time.Time in a struct that an interface
// holds would bring calendars and their formats into the engine.
func Clock() time.Duration { return time.Since(begin) }
