package kernel

// Words of the session buffer and of lists that the tests of selection set or read.
const (
	WordPos    = wordPos
	WordFrom   = wordFrom
	WordStep   = wordStep
	WordLog    = wordLog
	WordSumsAt = wordSumsAt
	WordPins   = wordPins
	RingAt     = wordIDs // in what ScoringSession makes
	ListLive   = listLive
	ListSlots  = listSlots
	ListOldest = listOldest
	ListNewest = listNewest
	ListCount  = listAbsorbed
)
