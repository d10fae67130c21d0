package frontend

import "sort"

// sendBuffer is a ring of memory with the frames that are not safe, and with those that are not sent. Positions count
// bytes since it was made; a position is in the memory at its remainder by the size.
type sendBuffer struct {
	mem []byte
	// tail ≤ sent ≤ head: from tail on frames are kept, from sent on they are to be sent
	tail, sent, head      uint64
	frames                []bufferedFrame // entries first to last
	firstFrame, lastFrame int
}

// bufferedFrame is a frame.
type bufferedFrame struct {
	event      uint64
	begin, end uint64 // positions
}

// frameAt is an entry.
func (k *sendBuffer) frameAt(i int) *bufferedFrame { return &k.frames[i%len(k.frames)] }

// add puts a frame behind the others; false if there is no room.
func (k *sendBuffer) add(event uint64, header, data []byte) bool {
	n := uint64(len(header) + len(data))
	if n > k.free() {
		return false
	}
	if k.lastFrame-k.firstFrame == len(k.frames) {
		k.grow()
	}
	*k.frameAt(k.lastFrame) = bufferedFrame{event, k.head, k.head + n}
	k.lastFrame++
	k.put(header)
	k.put(data)
	return true
}

// free is how many bytes more it has room for.
func (k *sendBuffer) free() uint64 { return uint64(len(k.mem)) - (k.head - k.tail) }

// grow makes room for twice as many entries.
func (k *sendBuffer) grow() {
	frames := make([]bufferedFrame, max(1024, 2*len(k.frames)))
	n := 0
	for i := k.firstFrame; i < k.lastFrame; i++ {
		frames[n] = *k.frameAt(i)
		n++
	}
	k.frames, k.firstFrame, k.lastFrame = frames, 0, n
}

// put copies bytes to the head, around the end of the memory.
func (k *sendBuffer) put(b []byte) {
	n := copy(k.mem[k.head%uint64(len(k.mem)):], b)
	copy(k.mem, b[n:])
	k.head += uint64(len(b))
}

// unsent is the next piece to send.
func (k *sendBuffer) unsent() []byte {
	at, n := k.sent%uint64(len(k.mem)), k.head-k.sent
	return k.mem[at:min(at+n, at+maxWriteSize, uint64(len(k.mem)))]
}

// release lets go of the frames of all events below that number, if they were sent. The frame that a connection broke
// in is kept, too: it is sent again from its beginning.
func (k *sendBuffer) release(event uint64) {
	for k.firstFrame < k.lastFrame && k.frameAt(k.firstFrame).event < event && k.frameAt(k.firstFrame).end <= k.sent {
		k.tail = k.frameAt(k.firstFrame).end
		k.firstFrame++
	}
}

// unresolved is how many of the first n frames have an event from that one on; and the first of them.
func (k *sendBuffer) unresolved(event uint64, n int) (int, uint64) {
	i := sort.Search(n, func(i int) bool { return k.frameAt(k.firstFrame+i).event >= event })
	if i == n {
		return 0, 0
	}
	return n - i, k.frameAt(k.firstFrame + i).event
}

// rewind goes back, or on, to the frame of the first event that is not there.
func (k *sendBuffer) rewind(event uint64) {
	i := k.firstFrame + sort.Search(k.lastFrame-k.firstFrame,
		func(i int) bool { return k.frameAt(k.firstFrame+i).event >= event })
	k.sent = k.head
	if i < k.lastFrame {
		k.sent = k.frameAt(i).begin
	}
}
