package link

// fifo is a first-in, first-out queue. It reuses its memory.
type fifo[T any] struct {
	items []T
	head  int // items before this index have been taken
}

func (q *fifo[T]) len() int { return len(q.items) - q.head }

func (q *fifo[T]) push(v T) {
	if q.head > 0 && len(q.items) == cap(q.items) {
		n := copy(q.items, q.items[q.head:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, v)
}

// pop takes the oldest item; there must be one.
func (q *fifo[T]) pop() T {
	v := q.items[q.head]
	if q.head++; q.head == len(q.items) {
		q.clear()
	}
	return v
}

func (q *fifo[T]) clear() { q.items, q.head = q.items[:0], 0 }
