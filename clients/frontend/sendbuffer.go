package frontend

import "sort"

// sendBuffer is a ring buffer with the frames that are not sent, or not safe. Positions count all bytes that were ever
// added; position p is at mem[p % len(mem)].
type sendBuffer struct {
	mem []byte
	// tail ≤ sent ≤ head: frames are kept from tail on, and not sent yet from sent on
	tail, sent, head      uint64
	frames                []bufferedFrame // entries firstFrame to lastFrame-1
	firstFrame, lastFrame int
}

// bufferedFrame is the event and the place of a frame.
type bufferedFrame struct {
	event      uint64
	begin, end uint64 // positions
}

// frameAt is entry i of frames, which is used as a ring.
func (k *sendBuffer) frameAt(i int) *bufferedFrame { return &k.frames[i%len(k.frames)] }

// add appends a frame; false if there is no room.
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

// free is the number of free bytes.
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

// put appends bytes at the head; what does not fit before the end of the memory continues at its beginning. The caller
// has made sure that there is room.
func (k *sendBuffer) put(b []byte) {
	n := copy(k.mem[k.head%uint64(len(k.mem)):], b)
	copy(k.mem, b[n:])
	k.head += uint64(len(b))
}

// unsent is the next bytes to send, at most maxWriteSize.
func (k *sendBuffer) unsent() []byte {
	at, n := k.sent%uint64(len(k.mem)), k.head-k.sent
	return k.mem[at:min(at+n, at+maxWriteSize, uint64(len(k.mem)))]
}

// release frees the frames of all events below that number which were sent whole. A frame in which the connection broke
// is kept: it is sent again from its beginning.
func (k *sendBuffer) release(event uint64) {
	for k.firstFrame < k.lastFrame && k.frameAt(k.firstFrame).event < event && k.frameAt(k.firstFrame).end <= k.sent {
		k.tail = k.frameAt(k.firstFrame).end
		k.firstFrame++
	}
}

// unresolved is how many of the first n frames have an event from that one on, and the event of the first of them.
func (k *sendBuffer) unresolved(event uint64, n int) (int, uint64) {
	i := sort.Search(n, func(i int) bool { return k.frameAt(k.firstFrame+i).event >= event })
	if i == n {
		return 0, 0
	}
	return n - i, k.frameAt(k.firstFrame + i).event
}

// rewind sets sent, back or forward, to the first frame that the readout unit does not have: the first one of event or
// a later event.
func (k *sendBuffer) rewind(event uint64) {
	i := k.firstFrame + sort.Search(k.lastFrame-k.firstFrame,
		func(i int) bool { return k.frameAt(k.firstFrame+i).event >= event })
	k.sent = k.head
	if i < k.lastFrame {
		k.sent = k.frameAt(i).begin
	}
}
