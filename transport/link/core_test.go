package link

import (
	"bytes"
	"testing"

	"ringlet/shmem"
	"ringlet/testkit/golden"
)

const second = int64(1e9)

func TestSmallWritesShareDatagrams(t *testing.T) {
	d := newDuo(t, Config{})
	for i := range 300 {
		d.write(0, uint32(i*128), pattern(128, byte(i)), uint64(i))
	}
	if !d.run(second) || len(d.eventsOf(0, EventCompleted)) != 300 {
		t.Fatalf("%d of 300 writes completed", len(d.eventsOf(0, EventCompleted)))
	}
	// 8 header + n × (36 header + 128) ≤ 1415: 8 to a datagram.
	if got := d.sent[0][spaceRequests]; got != 38 {
		t.Errorf("%d datagrams for 300 writes of 128 bytes, want 38", got)
	}
	for i := range 300 {
		if !bytes.Equal(d.memory[1][shmem.PageSize+i*128:][:128], pattern(128, byte(i))) {
			t.Fatalf("write %d differs", i)
		}
	}
}

func TestPaddingMakesDatagramsEqual(t *testing.T) {
	d := newDuo(t, Config{PadDatagrams: true})
	var sizes []int
	d.drop = func(from int, b []byte) bool {
		if from == 0 && b[1] == spaceRequests {
			sizes = append(sizes, len(b))
		}
		return false
	}
	for i := range 20 {
		d.write(0, uint32(i*200), make([]byte, 200), uint64(i))
	}
	d.run(second)
	for i, n := range sizes[:len(sizes)-1] {
		if n != 1415 {
			t.Errorf("datagram %d is %d bytes long, want 1415", i, n)
		}
	}
	if last := sizes[len(sizes)-1]; last >= 1415 {
		t.Errorf("the last datagram was filled up to %d bytes", last)
	}
}

func TestWriteOfNothingIsPlacedAndAnswered(t *testing.T) {
	d := newDuo(t, Config{})
	d.write(0, duoGrant, nil, 9)
	if !d.run(second) || len(d.eventsOf(1, EventPlaced)) != 1 || len(d.eventsOf(0, EventCompleted)) != 1 ||
		d.events[0][0].Reason != 0 {
		t.Fatalf("events %+v and %+v", d.events[0], d.events[1])
	}
}

func TestFencesPassInOrder(t *testing.T) {
	d := newDuo(t, Config{})
	d.core[0].Fence(100) // of nothing: at once
	lost := 0
	d.drop = func(from int, b []byte) bool { // the first write needs a repair, the second does not
		if from == 0 && b[1] == spaceRequests && lost == 0 {
			lost++
			return true
		}
		return false
	}
	d.write(0, 0, pattern(5000, 1), 1)
	d.core[0].Fence(101)
	d.write(0, 5000, pattern(5000, 2), 2)
	d.core[0].Fence(102)
	d.core[0].Fence(103)
	if !d.run(second) {
		t.Fatal("stuck")
	}
	var order []uint64
	first := -1
	for i, ev := range d.events[0] {
		if ev.Kind == EventFenced {
			order = append(order, ev.Cookie)
		}
		if ev.Kind == EventCompleted && ev.Cookie == 1 {
			first = i
		}
		if ev.Kind == EventFenced && ev.Cookie == 101 && first < 0 {
			t.Error("fence 101 passed before write 1 had its outcome")
		}
	}
	if len(order) != 4 || order[0] != 100 || order[1] != 101 || order[2] != 102 || order[3] != 103 {
		t.Errorf("fences passed as %v", order)
	}
}

func TestFullRequestQueueDrains(t *testing.T) {
	d := newDuo(t, Config{})
	n := 0
	for d.core[0].Write(Write{Ref: d.ref[0], Cookie: uint64(n)}) {
		n++
	}
	if n != maxOps {
		t.Fatalf("%d writes queued, want %d", n, maxOps)
	}
	if d.core[0].Fence(1) {
		t.Fatal("a fence found room where a write did not")
	}
	if !d.run(second) || len(d.eventsOf(0, EventCompleted)) != n {
		t.Fatalf("%d of %d completed", len(d.eventsOf(0, EventCompleted)), n)
	}
	if !d.core[0].Fence(1) {
		t.Fatal("no room after all have completed")
	}
}

// TestRefusalEndsALongWrite: a write of three transactions runs out of its grant in the first.
func TestRefusalEndsALongWrite(t *testing.T) {
	d := newDuo(t, Config{MaxDatagram: MinDatagram})
	chunkSize := fullChunk(MinDatagram)
	for round := range 3 {
		d.events = [2][]Event{}
		d.write(0, 0, pattern(3*maxChunks*chunkSize, 1), 7)
		d.write(0, 0, []byte("after"), 8)
		if !d.run(10 * second) {
			t.Fatal("stuck")
		}
		got := d.eventsOf(0, EventCompleted)
		if len(got) != 2 || got[0].Cookie != 7 || got[0].Reason != Reason(shmem.OutOfRange) || got[1].Reason != 0 {
			t.Fatalf("round %d: completions %+v", round, got)
		}
		if refused := d.eventsOf(1, EventRefused); len(refused) == 0 || refused[0].Reason != Reason(shmem.OutOfRange) {
			t.Fatalf("round %d: the receiver was told %+v", round, refused)
		}
		s := d.core[0].Stats()
		if s.TransactionsUsed != 0 || s.WritesRefused != uint64(round+1) || s.WritesCompleted != uint64(round+1) {
			t.Fatalf("round %d: %+v", round, s)
		}
		if s.ChunksSent > uint64((round+1)*(duoExport/chunkSize+4*DefaultCredit)) {
			t.Errorf("round %d: %d chunks were sent although the first was refused early", round, s.ChunksSent)
		}
	}
	if !bytes.Equal(d.memory[1][:shmem.PageSize], make([]byte, shmem.PageSize)) ||
		!bytes.Equal(d.memory[1][duoExport-shmem.PageSize:], make([]byte, shmem.PageSize)) {
		t.Error("bytes outside the grant were written")
	}
}

func TestEachViolationReachesTheWriter(t *testing.T) {
	d := newDuo(t, Config{})
	bad := func(change func(*Write)) Write {
		w := Write{Ref: d.ref[0], Data: []byte("x")}
		change(&w)
		return w
	}
	for want, w := range map[shmem.Violation]Write{
		shmem.NoWindow:   bad(func(w *Write) { w.Ref.Window = 99 }),
		shmem.StaleGen:   bad(func(w *Write) { w.Ref.Gen-- }),
		shmem.OutOfRange: bad(func(w *Write) { w.Offset = duoGrant }),
	} {
		d.events = [2][]Event{}
		d.core[0].Write(w)
		if !d.run(second) || len(d.events[0]) != 1 || d.events[0][0].Reason != Reason(want) {
			t.Errorf("%v: writer told %+v", want, d.events[0])
		}
		if len(d.events[1]) != 1 || d.events[1][0].Kind != EventRefused || d.events[1][0].Reason != Reason(want) {
			t.Errorf("%v: receiver told %+v", want, d.events[1])
		}
	}
}

func TestThousandsOfSignalsAreInOrder(t *testing.T) {
	d := newDuo(t, Config{})
	n := 0
	d.drop = func(int, []byte) bool { n++; return n%5 == 0 }
	const signals = 5000
	for i := range signals {
		if !d.core[0].Signal([]byte{byte(i), byte(i >> 8)}) {
			t.Fatal("refused")
		}
	}
	if d.core[0].Signal(make([]byte, MaxSignal+1)) {
		t.Error("a signal that is too long was taken")
	}
	if !d.run(100 * second) {
		t.Fatal("stuck")
	}
	got := d.eventsOf(1, EventSignal)
	if len(got) != signals {
		t.Fatalf("%d of %d signals", len(got), signals)
	}
	for i, ev := range got {
		if ev.Data[0] != byte(i) || ev.Data[1] != byte(i>>8) {
			t.Fatalf("signal %d is %x", i, ev.Data)
		}
	}
}

// TestResponsesOfABadPeerAreBounded: a peer that starts ever new transactions and never takes an answer.
func TestResponsesOfABadPeerAreBounded(t *testing.T) {
	d := goldenDuo(t)
	b := golden.Hex(t, "write")
	var errs int
	for i := range uint32(3000) {
		putHeader(b, header{view: 0x0203, seq: goldenSeq + i})
		f := writeFrame{
			tx:              1024 + i,
			ref:             shmem.Ref{Window: 2, Gen: 7},
			transactionSize: 7,
		}
		putWriteHeader(b[headerSize:], &f, 7)
		if d.core[1].Receive(1, b) != nil {
			errs++
		}
		d.core[1].Events(nil)
	}
	if c := d.core[1]; c.responder.responses.len() > maxTransactions || errs != 3000-maxTransactions {
		t.Errorf("%d responses wait, %d writes were found wrong", c.responder.responses.len(), errs)
	}
}
