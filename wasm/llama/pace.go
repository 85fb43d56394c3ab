package llama

import (
	"time"

	"kvlens/wasm/step"
)

// Pieces of work aim at a time between these bounds, so that a browser's page and its Stop button stay alive and no
// driver's watchdog fires.
const (
	shortPiece = 10 * time.Millisecond
	longPiece  = 40 * time.Millisecond
)

// pace adapts the number of prompt rows in one operation to the speed of the backend.
type pace struct {
	rows, max int
	worst     time.Duration // longest operation since the last adapt
	busy      time.Duration // work since the last yield
	now       func() time.Duration
}

func newPace(chunk int) pace {
	if chunk <= 0 {
		chunk = defaultChunk
	}
	return pace{rows: min(chunk, 16), max: chunk, now: step.Clock}
}

// steady makes all pieces equally long: where nobody waits for a turn, the same prompt is then the same to the last bit,
// because pieces decide the order of sums.
func (p *pace) steady() {
	p.rows = p.max
	p.now = func() time.Duration { return 0 }
}

// start begins to measure an operation. The function it returns ends it, and says whether it is time to yield.
func (p *pace) start() func() bool {
	begin := p.now()
	return func() bool {
		d := p.now() - begin
		p.worst = max(p.worst, d)
		p.busy += d
		return p.busy >= shortPiece
	}
}

// giveWay lets others run.
func (m *Model) giveWay() {
	m.yield()
	m.pace.busy = 0
}

// adapt chooses the rows of the next pieces after one of n rows.
func (p *pace) adapt(n int) {
	switch {
	case p.worst > longPiece:
		p.rows = max(1, n/2)
	case p.worst < shortPiece && n == p.rows:
		p.rows = min(p.max, 2*p.rows)
	}
	p.worst = 0
}
