package quic

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	quicgo "github.com/quic-go/quic-go"

	"ringlet/testkit/patiently"
	"ringlet/transport"
)

// upgradeBoth makes both ends of a connection carry streams.
func upgradeBoth(t testing.TB, a, b transport.Conn) (sa, sb *streamConn) {
	t.Helper()
	ctx, u := within(t), transport.Upgrade{Carrier: transport.CarrierStream}
	made := make(chan transport.Conn)
	go func(u transport.Upgrade) {
		c, err := b.(transport.Upgrader).Upgrade(ctx, u)
		if err != nil {
			t.Error(err)
		}
		made <- c
	}(u)
	u.Dialler = true
	ca, err := a.(transport.Upgrader).Upgrade(ctx, u)
	cb := patiently.Receive(t, made)
	if err != nil || cb == nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = ca.Close("the test is over")
		_ = cb.Close("the test is over")
	})
	return ca.(*streamConn), cb.(*streamConn)
}

func streamPair(t testing.TB) (*streamConn, *streamConn) {
	t.Helper()
	a, b := listen(t, configOf(issue(t, "a"))), listen(t, configOf(issue(t, "b")))
	ca, cb := connectPair(t, a, b, "b")
	return upgradeBoth(t, ca, cb)
}

// datagram is recognizable by its size.
func datagram(size int) []byte {
	d := make([]byte, size)
	for i := range d {
		d[i] = byte(i*31 + size)
	}
	return d
}

// receiveAll receives n datagrams, checks each and counts them by size.
func receiveAll(t testing.TB, c transport.Conn, n int) map[int]int {
	t.Helper()
	got := map[int]int{}
	batch := make([][]byte, 16)
	for n > 0 {
		m, err := c.Recv(batch)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range batch[:m] {
			if !bytes.Equal(d, datagram(len(d))) {
				t.Fatalf("a datagram of %d bytes is damaged", len(d))
			}
			got[len(d)]++
		}
		n -= m
	}
	return got
}

func TestStreamCarriesDatagrams(t *testing.T) {
	a, b := streamPair(t)
	if a.Peer() != "b" || b.Peer() != "a" || a.MaxDatagram() != b.MaxDatagram() {
		t.Errorf("%q and %q, %d and %d bytes", a.Peer(), b.Peer(), a.MaxDatagram(), b.MaxDatagram())
	}
	sizes := []int{1, 2, 100, maxQuickDatagram - 1, maxQuickDatagram, maxQuickDatagram + 1, 20000, streamDatagram}
	for _, direction := range [][2]*streamConn{{a, b}, {b, a}} {
		for range 3 {
			for _, n := range sizes {
				if err := direction[0].Send(datagram(n)); err != nil {
					t.Fatal(err)
				}
			}
		}
		for n, times := range receiveAll(t, direction[1], 3*len(sizes)) {
			if times != 3 {
				t.Errorf("%d bytes came %d times", n, times)
			}
		}
	}
	for _, n := range []int{0, streamDatagram + 1} {
		if err := a.Send(make([]byte, n)); err == nil {
			t.Errorf("a datagram of %d bytes was taken", n)
		}
	}
	if err := b.Close("enough"); err != nil {
		t.Error(err)
	}
	if err := b.Close("again"); err != nil {
		t.Errorf("closing again: %v", err)
	}
	var app *quicgo.ApplicationError
	if _, err := a.Recv(make([][]byte, 1)); !errors.As(err, &app) || app.ErrorMessage != "enough" {
		t.Errorf("the peer learnt %v", err)
	}
	if err := a.Send(datagram(9)); err == nil {
		t.Error("sent to a peer that is gone")
	}
	if _, err := b.Recv(make([][]byte, 1)); err == nil {
		t.Error("received on a closed connection")
	}
}

func TestStreamsTakeManySendersAtOnce(t *testing.T) {
	a, b := streamPair(t)
	const senders, each = 8, 30
	for i := range senders {
		go func() {
			for j := range each {
				if err := a.Send(datagram(1 + (i*7919+j*131)%streamDatagram)); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	receiveAll(t, b, senders*each)
}

// TestBulkHoldsNothingUp: as much as a window is sent while nobody calls Recv, and what is small arrives all the same.
func TestBulkHoldsNothingUp(t *testing.T) {
	a, b := streamPair(t)
	for range 2 * streamCredit {
		if err := a.Send(datagram(streamDatagram)); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Send(datagram(5)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the small one", func() bool { return len(b.in[streamQuick].ready) == 1 })
	if got := receiveAll(t, b, 2*streamCredit+1); got[5] != 1 || got[streamDatagram] != 2*streamCredit {
		t.Errorf("%v", got)
	}
}

// TestBufferIsLent: a datagram stays as it is until the next Recv, whatever comes meanwhile.
func TestBufferIsLent(t *testing.T) {
	a, b := streamPair(t)
	if err := a.Send(datagram(6000)); err != nil {
		t.Fatal(err)
	}
	batch := make([][]byte, 1)
	if n, err := b.Recv(batch); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	for range streamSlots - 1 {
		if err := a.Send(datagram(7000)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the ring to be full", func() bool { return len(b.in[streamBulk].ready) == streamSlots-1 })
	if !bytes.Equal(batch[0], datagram(6000)) {
		t.Error("a lent datagram was overwritten")
	}
	receiveAll(t, b, streamSlots-1)
}

// TestStreamErrorsNameTheStream: what the peer has done to a stream ends the link, and says which and what.
func TestStreamErrorsNameTheStream(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(a *streamConn) error
		says string
	}{
		"ended": {func(a *streamConn) error { return a.out[streamBulk].st.Close() }, "a has ended its bulk stream: EOF"},
		"ended within a record": {
			func(a *streamConn) error {
				_, err := a.out[streamQuick].st.Write([]byte{9, 0, 0, 0, 'x'})
				return errors.Join(err, a.out[streamQuick].st.Close())
			},
			"quick stream of a: unexpected EOF",
		},
		"reset": {
			func(a *streamConn) error { a.out[streamQuick].st.CancelWrite(7); return nil },
			"quick stream of a: stream 2 canceled by remote with error code 7",
		},
		"garbage": {
			func(a *streamConn) error { _, err := a.out[streamBulk].st.Write([]byte("garbage")); return err },
			"bulk stream of a: a record of the stream has an impossible length: 1651663207 bytes, not 1 to 32812",
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := streamPair(t)
			if err := c.do(a); err != nil {
				t.Fatal(err)
			}
			for range 2 { // and says so again
				if _, err := b.Recv(make([][]byte, 1)); err == nil || err.Error() != c.says {
					t.Errorf("%v", err)
				}
			}
		})
	}
}

// TestDeadPeerEndsStreams: its silence ends waiting Recv and Send alike.
func TestDeadPeerEndsStreams(t *testing.T) {
	t.Parallel()
	ca, cb, die := dyingPair(t)
	sa, _ := upgradeBoth(t, ca, cb)
	die()
	for { // until the window of congestion is full
		if err := sa.Send(datagram(streamDatagram)); err != nil {
			if !isSilenceError(err) {
				t.Errorf("sending to the dead: %v", err)
			}
			break
		}
	}
	if _, err := sa.Recv(make([][]byte, 1)); !isSilenceError(err) {
		t.Errorf("the peer's death shows as %v", err)
	}
}

// TestStreamsThatBeginWrong: what the peer's streams begin with is not believed.
func TestStreamsThatBeginWrong(t *testing.T) {
	good := func(kind int) []byte {
		p := preambleOf(kind)
		return p[:]
	}
	other := good(0)
	other[6]--
	for name, first := range map[string][2][]byte{
		"garbage":          {[]byte("what is this"), good(1)},
		"an unknown kind":  {good(0), good(2)},
		"one kind twice":   {good(1), good(1)},
		"another window":   {other, good(1)},
		"too little of it": {good(0)[:5], good(1)},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := listen(t, configOf(issue(t, "a"))), listen(t, configOf(issue(t, "b")))
			ca, cb := connectPair(t, a, b, "b")
			for _, p := range first {
				st, err := ca.(*conn).qc.OpenUniStreamSync(within(t))
				if err != nil {
					t.Fatal(err)
				}
				if _, err := st.Write(p); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithTimeout(within(t), 300*time.Millisecond)
			defer cancel()
			if c, err := cb.(*conn).Upgrade(ctx, transport.Upgrade{Carrier: transport.CarrierStream}); err == nil || c != nil {
				t.Errorf("made: %v, %v", c != nil, err)
			}
		})
	}
}

// TestReceivingAllocatesNothing: on our side of quic-go.
func TestReceivingAllocatesNothing(t *testing.T) {
	patiently.Watch(t)
	s := &streamConn{done: make(chan struct{})}
	for i := range s.in {
		in := &s.in[i]
		in.ready, in.free = make(chan []byte, streamSlots), make(chan []byte, streamSlots)
		in.lent = make([][]byte, 0, streamSlots)
		for range streamSlots {
			in.free <- make([]byte, 100)
		}
	}
	batch := make([][]byte, 16)
	if n := testing.AllocsPerRun(1000, func() {
		for i := range s.in {
			for range 10 {
				s.in[i].ready <- (<-s.in[i].free)[:7] // bounded by Watch: a timer would be an allocation
			}
		}
		for got := 0; got < 20; {
			n, err := s.Recv(batch)
			if err != nil {
				t.Fatal(err)
			}
			got += n
		}
		for i := range s.in {
			s.in[i].returnBuffers()
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestClosingWhileOthersWait: Recv, Send and the readers end, at both sides.
func TestClosingWhileOthersWait(t *testing.T) {
	a, b := streamPair(t)
	var wg sync.WaitGroup
	wg.Go(func() {
		for a.Send(datagram(streamDatagram)) == nil {
		}
	})
	wg.Go(func() {
		if _, err := a.Recv(make([][]byte, 1)); err == nil {
			t.Error("received what nobody has sent")
		}
	})
	eventually(t, "the ring to be full", func() bool { return len(b.in[streamBulk].ready) == streamSlots })
	_ = a.Close("enough")
	patiently.Wait(t, wg.Wait)
	_ = b.Close("enough")
}
