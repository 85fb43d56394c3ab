package cache

// most bounds the tokens that any list could ever hold: each takes bytes of its own.
func (c *Cache) most() int { return int(c.bytes) }

// unitsFor is how many units must be free for n more tokens in every list.
func (c *Cache) unitsFor(n int) int64 {
	var need int64
	for i := range c.lists {
		l := &c.lists[i]
		k, v, p := c.geo.pages(l.Slots + n)
		need += max(0, k-int64(len(l.Keys)))*c.geo.keyUnits() +
			max(0, v-int64(len(l.Values)))*c.geo.valueUnits() +
			max(0, p-int64(len(l.Positions)))*positionUnits
		if need > c.arena.free {
			break // enough to know, and the sum stays small
		}
	}
	return need
}

// grow gives a list the pages for slots tokens. False means that no free run was long enough.
func (c *Cache) grow(l *List, slots int) bool {
	k, v, p := c.geo.pages(slots)
	return c.push(&l.Keys, k, c.geo.keyUnits(), c.geo.Key.Kind()) &&
		c.push(&l.Values, v, c.geo.valueUnits(), c.geo.Value.Kind()) &&
		c.push(&l.Positions, p, positionUnits, Positions)
}

// shrink frees the pages of a list that slots tokens do not need.
func (c *Cache) shrink(l *List, slots int) {
	k, v, p := c.geo.pages(slots)
	c.pop(&l.Positions, p, positionUnits, Positions)
	c.pop(&l.Values, v, c.geo.valueUnits(), c.geo.Value.Kind())
	c.pop(&l.Keys, k, c.geo.keyUnits(), c.geo.Key.Kind())
}

// push adds pages to a table until it has n.
func (c *Cache) push(table *[]uint32, n, units int64, kind Kind) bool {
	for int64(len(*table)) < n {
		at, ok := c.arena.alloc(units)
		if !ok {
			return false
		}
		had := cap(*table)
		*table = append(*table, uint32(at*(unit/4)))
		c.countTables(int64(cap(*table) - had))
		c.led.Move(Free, kind, units*unit)
	}
	return true
}

// pop frees the last pages of a table until it has n.
func (c *Cache) pop(table *[]uint32, n, units int64, kind Kind) {
	for int64(len(*table)) > n {
		last := len(*table) - 1
		c.arena.release(int64((*table)[last])/(unit/4), units)
		*table = (*table)[:last]
		c.led.Move(kind, Free, units*unit)
	}
}

// countLive enters n tokens of one list (negative: takes them out).
func (c *Cache) countLive(n int64) {
	c.led.Add(c.geo.Key.Kind(), n*c.geo.keyBytes(), 0)
	c.led.Add(c.geo.Value.Kind(), n*c.geo.valueBytes(), 0)
	c.led.Add(Positions, n*positionBytes, 0)
}

// countTables enters n words of page tables.
func (c *Cache) countTables(n int64) { c.led.Add(Aux, n*4, n*4) }
