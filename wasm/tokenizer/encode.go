package tokenizer

// Encode returns the tokens of a text that a person wrote. It never yields control tokens, adds none, and drops bytes
// that the vocabulary has no token for, before merging, as the reference tokenizers do. Any string is fine, also one
// that is not UTF-8.
func (t *Tokenizer) Encode(text string) []int32 {
	ids := make([]int32, 0, len(text)/3+1)
	var w word
	for len(text) > 0 {
		n := t.next(text)
		ids = w.encode(ids, t, text[:n])
		text = text[n:]
	}
	return ids
}

// word merges the bytes of one pre-token: a list of tokens, linked so that a merge costs no move, and a queue of the
// pairs that could merge. A word of n bytes takes O(n log n) steps, so a long one is no burden.
type word struct {
	id         []int32 // −1 once merged into its left neighbour
	prev, next []int32 // neighbours, −1 for none
	queue      queue
}

// encode appends the tokens of text to ids: merges of lowest rank first, among equals the leftmost.
func (w *word) encode(ids []int32, t *Tokenizer, text string) []int32 {
	w.id, w.prev, w.next, w.queue = w.id[:0], w.prev[:0], w.next[:0], w.queue[:0]
	for i := range len(text) {
		if id := t.bytes[text[i]]; id >= 0 {
			n := int32(len(w.id))
			w.id, w.prev, w.next = append(w.id, id), append(w.prev, n-1), append(w.next, n+1)
		}
	}
	if len(w.id) == 0 {
		return ids
	}
	w.next[len(w.next)-1] = -1
	for i := range w.id {
		w.offer(t, int32(i))
	}
	for len(w.queue) > 0 {
		rank, at := w.queue.pop()
		p, ok := w.pair(t, at)
		if !ok || p.rank != rank {
			continue // one of its tokens has merged with another since
		}
		right := w.next[at]
		w.id[at], w.id[right] = p.into, -1
		after := w.next[right]
		w.next[at] = after
		if after >= 0 {
			w.prev[after] = at
		}
		w.offer(t, at)
		if before := w.prev[at]; before >= 0 {
			w.offer(t, before)
		}
	}
	for i := int32(0); i >= 0; i = w.next[i] {
		ids = append(ids, w.id[i])
	}
	return ids
}

// pair looks up the merge of token i with its right neighbour.
func (w *word) pair(t *Tokenizer, i int32) (pair, bool) {
	if w.id[i] < 0 || w.next[i] < 0 {
		return pair{}, false
	}
	return t.merges.find(w.id[i], w.id[w.next[i]])
}

func (w *word) offer(t *Tokenizer, i int32) {
	if p, ok := w.pair(t, i); ok {
		w.queue.push(p.rank, i)
	}
}

// queue is a binary heap of rank and place, lowest rank first, then the leftmost.
type queue []uint64

func (q *queue) push(rank, at int32) {
	*q = append(*q, uint64(rank)<<32|uint64(at))
	h := *q
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if h[up] <= h[i] {
			break
		}
		h[up], h[i] = h[i], h[up]
		i = up
	}
}

func (q *queue) pop() (rank, at int32) {
	h := *q
	top, n := h[0], len(h)-1
	h[0] = h[n]
	h = h[:n]
	for i := 0; 2*i+1 < n; {
		down := 2*i + 1
		if down+1 < n && h[down+1] < h[down] {
			down++
		}
		if h[i] <= h[down] {
			break
		}
		h[i], h[down] = h[down], h[i]
		i = down
	}
	*q = h
	return int32(top >> 32), int32(top)
}
