package frontend_test

import (
	"bytes"
	"fmt"
	"net"
	"testing"

	"ringlet/clients/frontend"
	"ringlet/source/frames"
	"ringlet/source/live"
	"ringlet/testkit/compiled"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
	"ringlet/testkit/ports"
)

// TestStreamMoves: where a readout unit is lost and another one opens at the next address of the list, the stream goes
// there, with all that is not safe. Nobody listens at the first address.
func TestStreamMoves(t *testing.T) {
	ctx := longContext(t)
	nobody, here, there := at(t), at(t), at(t)
	f, err := frames.OpenTCP(ctx, live.FeedSettings{Address: here, Name: "here"})
	must.OK(t, err)
	s, err := frontend.Dial(ctx, "tcp:"+nobody+","+here+","+there, frontend.StreamSettings{})
	must.OK(t, err)
	for e := range uint64(100) {
		must.OK(t, s.Send(ctx, e, fragment(e)))
	}
	var dst [100]live.Fragment
	for got := 0; got < 100; {
		k, err := f.Next(ctx, dst[:])
		must.OK(t, err)
		got += k
	}
	must.OK(t, f.Close())
	moved, err := frames.OpenTCP(ctx, live.FeedSettings{Address: there, Name: "there"})
	must.OK(t, err)
	defer moved.Close()
	ended := make(chan error, 1)
	go func() { ended <- s.Close(ctx) }()
	for e := uint64(0); e < 100; {
		k, err := moved.Next(ctx, dst[:])
		must.OK(t, err)
		for _, g := range dst[:k] {
			if g.Event != e || !bytes.Equal(g.Data, fragment(e)) {
				t.Fatalf("event %d, where %d is due", g.Event, e)
			}
			e++
		}
		moved.ReleaseFragments(k)
	}
	moved.SetSafeBelow(100)
	must.OK(t, patiently.Receive(t, ended, "the stream does not end"))
	for _, wrong := range []string{"tcp:", "tcp:,a:1", "tcp:a:1,", "udp:a:1"} {
		if _, err := frontend.Dial(ctx, wrong, frontend.StreamSettings{}); err == nil {
			t.Errorf("%s is taken", wrong)
		}
	}
}

// at is an address where nobody listens yet.
func at(t *testing.T) string { return fmt.Sprintf("127.0.0.1:%d", ports.Reserve(t)) }

// TestStreamInCMoves: so does the client in C.
func TestStreamInCMoves(t *testing.T) {
	here, address := newPeer(t, "tcp")
	there, _ := newPeer(t, "tcp")
	const events, size = 300, 1000
	c := start(t, []string{compiled.C(t, "../c", "testdata/stream.c")},
		"tcp:"+at(t)+","+address[len("tcp:"):]+","+there.l.Addr().(*net.TCPAddr).String(), "-1", fmt.Sprint(events),
		fmt.Sprint(size), "60000")
	here.accept()
	here.answer(0, 0, 12, 1<<16, 65535, "")
	c.line(t)
	here.expect(0, 60, size)
	here.answer(1, 40, 0, 0, 0, "")
	must.OK(t, here.l.Close())
	must.OK(t, here.conn.Close())
	there.accept()
	there.answer(0, 60, 12, 1<<16, 65535, "")
	there.expect(60, 120, size)
	there.answer(1, 120, 0, 0, 0, "")
	there.expect(120, 240, size)
	there.answer(1, 240, 0, 0, 0, "")
	there.expect(240, events, size)
	there.expectEnd(events)
	there.answer(8, events, 0, 0, 0, "")
	there.answer(1, events, 0, 0, 0, "")
	if said := c.line(t); said != "safe 300 given up 0 connected 2" {
		t.Errorf("%q", said)
	}
	must.OK(t, patiently.Exit(t, c.Cmd))
}
