package sim

// An entry is the key of a pending event: its time, and its sequence number, which orders events of one time. The slot
// is in the low bits of the key: 16 bytes, so that the four children of a node fill one cache line.
type entry struct {
	dueAt Time
	key   uint64 // sequence number << slotBits | slot
}

// slotBits leave 16 million events pending at once, and 10¹² in all: 60 hours at 5 million a second.
const slotBits = 24

func (e entry) before(o entry) bool { return e.dueAt < o.dueAt || e.dueAt == o.dueAt && e.key < o.key }
func (e entry) slot() uint32        { return uint32(e.key & (1<<slotBits - 1)) }

// A heap holds the pending entries, the next one first. Each parent has four children, so the tree is half as deep as a
// binary one.
type heap []entry

func (h *heap) push(e entry) {
	*h = append(*h, e)
	h.up(len(*h)-1, e)
}

func (h *heap) pop() entry {
	s := *h
	first, last := s[0], s[len(s)-1]
	*h = s[:len(s)-1]
	if len(*h) > 0 {
		h.down(0, last)
	}
	return first
}

func (h *heap) up(i int, e entry) {
	s := *h
	for i > 0 {
		parent := (i - 1) / 4
		if s[parent].before(e) {
			break
		}
		s[i], i = s[parent], parent
	}
	s[i] = e
}

func (h *heap) down(i int, e entry) {
	s := *h
	for {
		child := 4*i + 1
		if child >= len(s) {
			break
		}
		least := child
		for c := child + 1; c < min(child+4, len(s)); c++ {
			if s[c].before(s[least]) {
				least = c
			}
		}
		if e.before(s[least]) {
			break
		}
		s[i], i = s[least], least
	}
	s[i] = e
}
