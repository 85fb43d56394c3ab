package llama

import "time"

// FixPace lets pieces of a prompt have so many rows whatever the clock says. Pieces change the order of sums: only then
// is the same prompt the same to the last bit.
func (m *Model) FixPace(rows int) {
	m.pace = pace{rows: rows, max: rows, now: func() time.Time { return time.Time{} }}
}
