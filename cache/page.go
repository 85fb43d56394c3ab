package cache

// most bounds the tokens that any list could ever hold: each takes bytes of its own.
func (c *Cache) most() int { return int(c.bytes) }

// listNeeds is how many units must be free for a list to have pages for so many slots.
func (c *Cache) listNeeds(l *List, slots int) (units int64) {
	for i, t := range c.tables {
		units += max(0, t.pages(slots)-int64(len(*l.table(i)))) * t.units
	}
	return units
}

// unitsFor is how many units must be free for n more tokens in every list.
func (c *Cache) unitsFor(n int) (need int64) {
	for i := range c.lists {
		l := &c.lists[i]
		if need += c.listNeeds(l, l.slotsFor(n)); need > c.arena.free {
			break // enough to know, and the sum stays small
		}
	}
	return need
}

// grow gives a list the pages for so many slots. False means that no free run was long enough.
func (c *Cache) grow(l *List, slots int) bool {
	for i, t := range c.tables {
		pages := l.table(i)
		for int64(len(*pages)) < t.pages(slots) {
			at, ok := c.arena.alloc(t.units)
			if !ok {
				return false
			}
			c.push(pages, uint32(at*(unit/wordBytes)))
			c.led.Move(Free, t.kind, t.units*unit)
			c.led.Add(t.kind, t.whole, 0)
		}
	}
	return true
}

// shrink frees the pages of a list that so many slots do not need.
func (c *Cache) shrink(l *List, slots int) {
	for i := tables - 1; i >= 0; i-- {
		t, pages := c.tables[i], l.table(i)
		for int64(len(*pages)) > t.pages(slots) {
			last := len(*pages) - 1
			c.arena.release(int64((*pages)[last])/(unit/wordBytes), t.units)
			*pages = (*pages)[:last]
			c.led.Move(t.kind, Free, t.units*unit)
			c.led.Add(t.kind, -t.whole, 0)
		}
	}
	if len(l.Sums) == 0 {
		l.Absorbed = 0
	}
}

// push appends to a table, a mirror or an order, and counts what that takes of the host.
func (c *Cache) push(table *[]uint32, word uint32) {
	had := cap(*table)
	*table = append(*table, word)
	c.countTables(int64(cap(*table) - had))
}

// countLive enters n tokens of one list (negative: takes them out).
func (c *Cache) countLive(n int) {
	for _, t := range c.tables {
		c.led.Add(t.kind, int64(n)*t.lane, 0)
	}
}

// countTables enters n words of tables, mirrors and orders.
func (c *Cache) countTables(n int64) { c.led.Add(Aux, n*wordBytes, n*wordBytes) }
