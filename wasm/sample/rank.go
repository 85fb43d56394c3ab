package sample

// ranking lists tokens by score, largest first and of equal ones the first, sorting only as far as someone looks: a heap
// whose tops move to the end of the list, one by one.
type ranking struct {
	scores []float32
	order  []int32 // a heap, then the sorted tokens from the end
	heap   int     // length of the heap
}

// reset ranks the tokens whose weight is at least least.
func (r *ranking) reset(scores, weight []float32, least float32) {
	r.scores, r.order = scores, r.order[:0]
	for i, w := range weight {
		if w >= least {
			r.order = append(r.order, int32(i))
		}
	}
	r.heap = len(r.order)
	for i := r.heap/2 - 1; i >= 0; i-- {
		r.sink(i)
	}
}

// at is the token of rank i < len(order).
func (r *ranking) at(i int) int32 {
	for len(r.order)-r.heap <= i {
		r.heap--
		r.order[0], r.order[r.heap] = r.order[r.heap], r.order[0]
		r.sink(0)
	}
	return r.order[len(r.order)-1-i]
}

// sink restores the heap below i.
func (r *ranking) sink(i int) {
	for 2*i+1 < r.heap {
		child := 2*i + 1
		if child+1 < r.heap && r.before(r.order[child+1], r.order[child]) {
			child++
		}
		if !r.before(r.order[child], r.order[i]) {
			return
		}
		r.order[i], r.order[child] = r.order[child], r.order[i]
		i = child
	}
}

func (r *ranking) before(a, b int32) bool {
	return r.scores[a] > r.scores[b] || r.scores[a] == r.scores[b] && a < b
}
