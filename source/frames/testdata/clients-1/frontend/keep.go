package frontend

import "sort"

// keep is a ring of memory with the frames that are not safe, and with those that are not sent. Positions count bytes
// since it was made; a position is in the memory at its remainder by the size.
type keep struct {
	mem              []byte
	tail, sent, head uint64 // tail ≤ sent ≤ head: from tail on frames are kept, from sent on they are to be sent
	ring             []kept // entries first to last
	first, last      int
}

// kept is a frame.
type kept struct {
	event      uint64
	begin, end uint64 // positions
}

// at is an entry.
func (k *keep) at(i int) *kept { return &k.ring[i%len(k.ring)] }

// add puts a frame behind the others; false if there is no room.
func (k *keep) add(event uint64, header, data []byte) bool {
	n := uint64(len(header) + len(data))
	if k.head+n-k.tail > uint64(len(k.mem)) {
		return false
	}
	if k.last-k.first == len(k.ring) {
		k.grow()
	}
	*k.at(k.last) = kept{event, k.head, k.head + n}
	k.last++
	k.put(header)
	k.put(data)
	return true
}

// grow makes room for twice as many entries.
func (k *keep) grow() {
	ring := make([]kept, max(1024, 2*len(k.ring)))
	n := 0
	for i := k.first; i < k.last; i++ {
		ring[n] = *k.at(i)
		n++
	}
	k.ring, k.first, k.last = ring, 0, n
}

// put copies bytes to the head, around the end of the memory.
func (k *keep) put(b []byte) {
	n := copy(k.mem[k.head%uint64(len(k.mem)):], b)
	copy(k.mem, b[n:])
	k.head += uint64(len(b))
}

// unsent is the next piece to send.
func (k *keep) unsent() []byte {
	at, n := k.sent%uint64(len(k.mem)), k.head-k.sent
	return k.mem[at:min(at+n, at+streamWrite, uint64(len(k.mem)))]
}

// forget lets go of the frames of all events below that number, if they were sent. The frame that a connection broke in
// is kept, too: it is sent again from its beginning.
func (k *keep) forget(event uint64) {
	for k.first < k.last && k.at(k.first).event < event && k.at(k.first).end <= k.sent {
		k.tail = k.at(k.first).end
		k.first++
	}
}

// resume goes back, or on, to the frame of the first event that is not there.
func (k *keep) resume(event uint64) {
	i := k.first + sort.Search(k.last-k.first, func(i int) bool { return k.at(k.first+i).event >= event })
	k.sent = k.head
	if i < k.last {
		k.sent = k.at(i).begin
	}
}
