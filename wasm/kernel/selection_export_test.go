package kernel

import (
	"strconv"

	"kvlens/shaders"
)

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

// Remember notes what tokens of a layer are worth, or, again, which of those that were noted stay.
func Remember(layer, kvHeads int, again bool) Stage {
	return Stage{
		Variant: shaders.Variant{Kernel: "remember", Consts: map[string]string{"AGAIN": strconv.FormatBool(again)}},
		Params:  []uint32{uint32(layer), uint32(kvHeads)}, groups: [2]int{kvHeads, 1},
	}
}
