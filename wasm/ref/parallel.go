package ref

import (
	"sync"
	"sync/atomic"
)

// parallel calls f for blocks of at most grain that cover [0, n), from all workers at once. Workers take the next block
// when they are done with one, so blocks may differ in cost. With one worker, or one block, there is one plain call.
func (b *Backend) parallel(n, grain int, f func(worker, from, to int)) {
	if b.workers == 1 || n <= grain {
		f(0, 0, n)
		return
	}
	var next atomic.Int64
	work := func(worker int) {
		for {
			to := int(next.Add(int64(grain)))
			from := to - grain
			if from >= n {
				return
			}
			f(worker, from, min(to, n))
		}
	}
	var wg sync.WaitGroup
	for w := 1; w < b.workers && w*grain < n; w++ {
		wg.Go(func() { work(w) })
	}
	work(0)
	wg.Wait()
}
