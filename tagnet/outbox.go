package tagnet

// outbox keeps what a unit says until the scheduler has acknowledged it, and so lets a session go on over
// another stream when one has broken: what was on the wire then is sent again. Each entry has a sequence number, from
// 0; acknowledgements are cumulative.
//
//	0 … acked … sent … maxSent … total
//	    └ kept ───────────────────┘
//
// It is a core without goroutines. Its zero value is empty.
type outbox[T any] struct {
	items   []T    // those not acknowledged are items[head:]
	head    int    // index of the entry with number acked
	acked   uint64 // entries acknowledged
	sent    uint64 // entries sent on the present stream, or acknowledged before it
	maxSent uint64 // entries ever sent
}

// total is how many entries there ever were.
func (o *outbox[T]) total() uint64 { return o.acked + uint64(len(o.items)-o.head) }

// unsent is how many entries were never sent.
func (o *outbox[T]) unsent() int { return int(o.total() - o.maxSent) }

// push adds an entry.
func (o *outbox[T]) push(v T) { *o.add() = v }

// add adds an entry, which the caller fills in.
func (o *outbox[T]) add() *T {
	var none T
	o.items = append(o.items, none)
	return &o.items[len(o.items)-1]
}

// claim marks up to limit entries as sent and copies them into to, which it returns with the number of the first.
func (o *outbox[T]) claim(to []T, limit int) (first uint64, claimed []T) {
	first = o.sent
	from := o.items[o.head+int(o.sent-o.acked):]
	to = append(to[:0], from[:min(limit, len(from))]...)
	o.sent += uint64(len(to))
	o.maxSent = max(o.maxSent, o.sent)
	return first, to
}

// ack forgets the entries below a number. It refuses to acknowledge what was never sent, or to take an
// acknowledgement back.
func (o *outbox[T]) ack(below uint64) bool {
	if below > o.maxSent || below < o.acked {
		return false
	}
	clear(o.items[o.head : o.head+int(below-o.acked)])
	o.head += int(below - o.acked)
	o.acked, o.sent = below, max(o.sent, below)
	if 2*o.head >= len(o.items) { // each entry is moved once at most for each one that is forgotten
		o.items = o.items[:copy(o.items, o.items[o.head:])]
		o.head = 0
	}
	return true
}

// rewind prepares for another stream: all that is not acknowledged is to be sent again.
func (o *outbox[T]) rewind() { o.sent = o.acked }

// countRepeated is the other end of an outbox: of n entries from number first on, as many were taken before as it
// tells. False: entries are missing between those that were taken and the first.
func countRepeated(applied, first uint64, n int) (before int, ok bool) {
	if first > applied {
		return 0, false
	}
	return int(min(applied-first, uint64(n))), true
}
