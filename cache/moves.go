package cache

// Move is a copy of one token from slot to slot of one list.
type Move struct{ From, To uint32 }

// PageMove is a copy of Words 4-byte words within the arena; source and destination may overlap.
type PageMove struct{ From, To, Words uint32 }

// NoSlot marks a row that is not stored.
const NoSlot = 0xFFFFFFFF
