package cache

import (
	"errors"
	"slices"
	"testing"
)

// A list that is lent has slots and pages as Put would have given it, and its tokens again once they are learnt.
func TestLend(t *testing.T) {
	geo := Geometry{Layers: 1, KVHeads: 1, HeadDim: 8, Key: F16, Value: F16, PageK: 2, PageV: 2}
	led := new(Ledger)
	c, err := New(geo, geo.FullBytes(8), led)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Put(0, 0, []uint32{0, 1, 2}); err != nil {
		t.Fatal(err)
	}
	mark, l := c.Mark(), c.List(0, 0)
	for _, step := range []struct{ tokens, slots, pages int }{{5, 5, 3}, {2, 5, 3}, {4, 5, 3}, {6, 6, 3}, {3, 6, 3}} {
		if err := c.Hold(0, 0, step.tokens); err != nil {
			t.Fatal(err)
		}
		if l.Live != step.tokens || l.Slots != step.slots || len(l.Keys) != step.pages {
			t.Errorf("%d tokens in %d slots of %d pages, want %v", l.Live, l.Slots, len(l.Keys), step)
		}
	}
	if !c.Lent() || !c.Stale(mark) {
		t.Error("lent lists have a way back")
	}
	if _, err := c.Put(0, 0, []uint32{9}); err == nil {
		t.Error("put in a list that is lent")
	}
	if _, err := c.Take(0, 0, 1); err == nil {
		t.Error("took of a list that is lent")
	}
	for _, at := range [][]uint32{
		{1, 2},                                   // too few
		{1, 7, 5, DeadPosition, DeadPosition, 5}, // twice
		{1, 7, DeadPosition, DeadPosition, DeadPosition, DeadPosition}, // too few tokens
	} {
		if err := c.Learn(0, 0, at); !errors.Is(err, ErrPositions) || !c.Lent() {
			t.Errorf("learnt %v", at)
		}
	}
	if err := c.Learn(0, 0, []uint32{DeadPosition, 7, 0, DeadPosition, DeadPosition, 5}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(l.Order(), []uint32{2, 5, 1}) || c.Lent() {
		t.Errorf("order %v", l.Order())
	}
	if slots, err := c.Put(0, 0, []uint32{9}); err != nil || slots[0] != 0 {
		t.Errorf("the next token takes slot %v: %v", slots, err)
	}
	var full *FullError
	if err := c.Hold(0, 0, 9); !errors.As(err, &full) || l.Live != 4 {
		t.Errorf("9 tokens in room for 8: %v", err)
	}
	if err := c.Hold(0, 0, 1); err != nil {
		t.Fatal(err)
	}
	c.Pack(0, 0)
	c.Trim(0, 0)
	if l.Slots != 1 || len(l.Keys) != 1 {
		t.Errorf("%d slots in %d pages", l.Slots, len(l.Keys))
	}
	c.Reset()
	if c.Lent() || led.Rows()[Positions].Logical != 0 {
		t.Error("reset leaves something")
	}
}
