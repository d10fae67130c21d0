package component

import "ringlet/sim"

// Queue is a FIFO with a limit; 0 is no limit. It reuses its memory.
type Queue[T any] struct {
	s       *sim.Sim
	limit   int
	ring    []T
	head, n int
	Length  sim.Level
	Refused uint64 // items that a full queue refused
}

// NewQueue makes a queue of at most limit items.
func NewQueue[T any](s *sim.Sim, limit int) *Queue[T] { return &Queue[T]{s: s, limit: limit} }

// Len is the number inside.
func (q *Queue[T]) Len() int { return q.n }

// full reports whether Put would refuse.
func (q *Queue[T]) full() bool { return q.limit > 0 && q.n >= q.limit }

// Put appends x, or refuses it.
func (q *Queue[T]) Put(x T) bool {
	if q.full() {
		q.Refused++
		return false
	}
	if q.n == len(q.ring) {
		bigger := make([]T, max(8, 2*q.n))
		for i := range q.n {
			bigger[i] = *q.slot(i)
		}
		q.ring, q.head = bigger, 0
	}
	q.n++
	*q.slot(q.n - 1) = x
	q.Length.Set(q.s.Now(), int64(q.n))
	return true
}

// First is the next item. The queue must not be empty.
func (q *Queue[T]) First() T { return *q.slot(0) }

// Get removes and returns the first item. The queue must not be empty.
func (q *Queue[T]) Get() T {
	var none T
	first := q.slot(0)
	x := *first
	*first = none
	q.head, q.n = (q.head+1)&(len(q.ring)-1), q.n-1
	q.Length.Set(q.s.Now(), int64(q.n))
	return x
}

// slot is item i from the head; the ring's length is a power of two.
func (q *Queue[T]) slot(i int) *T { return &q.ring[(q.head+i)&(len(q.ring)-1)] }
