package cache

import "testing"

func TestLedger(t *testing.T) {
	var l Ledger
	l.Add(Free, 0, 1000)
	l.Move(Free, KVF16, 300)
	l.Add(KVF16, 250, 0)
	l.Add(Scratch, 40, 64)
	l.Move(KVF16, Free, 200)
	l.Add(Scratch, -40, -64)
	l.Add(Scratch, 8, 8)
	rows := l.Rows()
	want := map[Kind]Row{
		Free:    {Logical: 0, Allocated: 900, Peak: 1000},
		KVF16:   {Logical: 250, Allocated: 100, Peak: 300},
		Scratch: {Logical: 8, Allocated: 8, Peak: 64},
	}
	for k, row := range rows {
		if row != want[Kind(k)] {
			t.Errorf("kind %d: %+v, want %+v", k, row, want[Kind(k)])
		}
	}
	// The most there ever was at once: the arena and the first scratch.
	if got := l.Total(); got != (Row{Logical: 258, Allocated: 1008, Peak: 1064}) {
		t.Errorf("total: %+v", got)
	}
}
