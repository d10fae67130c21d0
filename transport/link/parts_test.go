package link

import (
	"bytes"
	"testing"
)

// TestRequesterAlone: a write is cut, sent, answered and told, without any datagram space.
func TestRequesterAlone(t *testing.T) {
	var reported notices
	q := newRequester(&Config{MaxDatagram: 1415}, &reported)
	data := pattern(q.chunkSize+100, 1)
	if !q.queue(op{Write: Write{Ref: goldenWrite(false).Ref, Data: data, Cookie: 7}}) || !q.mayCut() {
		t.Fatal("a write is not taken")
	}
	buf, sizes := make([]byte, 1415), []int{writeHeaderSize + q.chunkSize, writeHeaderSize + 100}
	var r sentDatagram
	for i, want := range sizes {
		if !q.cutNext(0, 1415) || q.nextFrameSize() != want {
			t.Fatalf("chunk %d takes %d bytes, want %d", i, q.nextFrameSize(), want)
		}
		r.frames = r.frames[:0]
		if n := q.putChunks(0, buf, headerSize, 1415, &r); n != headerSize+want || len(r.frames) != 1 {
			t.Fatalf("chunk %d makes a datagram of %d bytes with %d frames", i, n, len(r.frames))
		}
	}
	if why := q.onResponse(r.frames[0].id+1, 0); why == "" {
		t.Error("a response to no transaction is taken")
	}
	if why := q.onResponse(r.frames[0].id, 0); why != "" {
		t.Error(why)
	}
	if e := reported.takeEvents(nil); len(e) != 1 || e[0].Kind != EventCompleted || e[0].Cookie != 7 || !q.isIdle() {
		t.Errorf("reported %+v, idle %v", e, q.isIdle())
	}
	if s := reported.stats; s.WritesCompleted != 1 || s.ChunksSent != 2 || s.BytesSent != uint64(len(data)) {
		t.Errorf("counted %+v", s)
	}
}

// TestSignalsAlone: signals that come in any order, and again, are delivered once and in order.
func TestSignalsAlone(t *testing.T) {
	var reported notices
	g := newSignals(&reported)
	var want []byte
	for i := range byte(40) { // more than it has slots at first
		g.queue([]byte{i})
		want = append(want, i)
	}
	var r sentDatagram
	buf := make([]byte, 1415)
	n := g.put(buf, headerSize, len(buf), &r)
	if n != headerSize+40*(signalHeader+1) || g.pending() || g.isIdle() {
		t.Fatalf("%d bytes, pending %v, idle %v", n, g.pending(), g.isIdle())
	}
	for i := 39; i >= 0; i-- {
		for range 2 {
			if why := g.receive(uint32(i), []byte{byte(i)}); why != "" {
				t.Fatal(why)
			}
		}
	}
	var got []byte
	for _, e := range reported.takeEvents(nil) {
		got = append(got, e.Data...)
	}
	if !bytes.Equal(got, want) || reported.stats.SignalsReceived != 40 || reported.stats.SignalsDuplicate != 1 {
		t.Errorf("delivered %v, counted %+v", got, reported.stats)
	}
	if g.onAcked(&r); !g.isIdle() || g.putAgain(buf, 3) != 0 {
		t.Error("what has arrived is still kept")
	}
}

// TestRecoveryAlone: of a burst whose end is lost the silence asks for the newest datagram, and its ack for the rest.
func TestRecoveryAlone(t *testing.T) {
	var reported notices
	cfg := Config{MaxDatagram: 1415}.withDefaults()
	v := newRecovery(&cfg, &reported)
	s, now := &v.send[spaceRequests], int64(1e9)
	for range 8 {
		v.onSent(s.newRecord(), now)
	}
	ack := func(next uint32, word byte) {
		buf := make([]byte, 2*spaceAckHeader+8)
		putSpaceAck(buf, next, 100, 1, 0)
		buf[spaceAckHeader] = word
		putSpaceAck(buf[spaceAckHeader+8:], 0, ResponseCredit, 0, 0)
		if at := v.onAck(now, buf); at >= 0 {
			t.Fatalf("the ack is wrong at byte %d", at)
		}
	}
	now += millisecond
	if ack(2, 0); len(s.acked) != 2 || v.inFlight() != 6 || v.mayResend() || v.rtt.smoothed != millisecond {
		t.Fatalf("%d acked, %d in flight, resend %v, %+v", len(s.acked), v.inFlight(), v.mayResend(), v.rtt)
	}
	now = v.deadline()
	v.tick(now)
	_, r := v.nextRepair()
	if r == nil || r.seq != 7 || reported.stats.Probes != 1 || v.mayResend() {
		t.Fatalf("the probe is %+v of %d", r, reported.stats.Probes)
	}
	r.repeated = true
	v.onSent(r, now)
	now += millisecond
	ack(2, 1<<5)
	for seq := uint32(2); seq < 7; seq++ {
		if _, r := v.nextRepair(); r == nil || r.seq != seq {
			t.Fatalf("%+v is repaired, want number %d", r, seq)
		}
	}
}

// TestAcksAlone: what leaves a gap is acked at once; what leaves none may wait for something to travel with.
func TestAcksAlone(t *testing.T) {
	var reported notices
	cfg := Config{MaxDatagram: 1415, PiggybackAcks: true}.withDefaults()
	a := newAcks(&cfg, &reported)
	receive := func(seq uint32) {
		a.onReceived(&header{kind: spaceRequests})
		if v := a.recv[spaceRequests].accept(seq); v != fresh {
			t.Fatalf("number %d has verdict %d", seq, v)
		}
		a.endBatch(5)
	}
	buf := make([]byte, 1415)
	receive(0)
	if a.due || a.deadline != 5+maxAckDelay || a.putFrame(buf, ackFrameSize-1) != 0 ||
		a.putFrame(buf, ackFrameSize) != ackFrameSize || a.owes() || a.deadline != 0 {
		t.Fatalf("without a gap: %+v", a)
	}
	receive(1)
	if a.tick(5 + maxAckDelay); !a.due {
		t.Error("an ack waits longer than maxAckDelay")
	}
	a.put(buf)
	receive(3)
	if !a.due || a.putFrame(buf, len(buf)) != 0 || a.put(buf) != 2*spaceAckHeader+8 || reported.stats.AcksSent != 3 {
		t.Errorf("with a gap: due %v, %d acks", a.due, reported.stats.AcksSent)
	}
}
