package quic

import (
	"context"
	"net"
	"testing"
	"time"

	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// TestStamps: the kernel tells when packets were sent and received, in this order and just now; it tells nothing where
// nobody has asked.
func TestStamps(t *testing.T) {
	for _, enabled := range []bool{true, false} {
		cfg := configOf(issue(t, "a"))
		cfg.Timestamps = enabled
		n := listen(t, cfg)
		to := n.Addr().(*net.UDPAddr)
		began := time.Now().UnixNano()
		ctx, cancel := context.WithTimeout(t.Context(), patiently.LongTimeout)
		defer cancel()
		for again := true; again; again = enabled && n.LastReceiveTime() == 0 && ctx.Err() == nil {
			_, _, err := n.sock.WriteMsgUDP(make([]byte, 100), nil, to) // it takes the kernel a moment to begin
			must.OK(t, err)
			time.Sleep(time.Millisecond)
		}
		sent := n.AppendSendTimes(nil)
		if !enabled {
			if n.LastReceiveTime() != 0 || len(sent) != 0 {
				t.Errorf("%d, %v: nobody has asked", n.LastReceiveTime(), sent)
			}
			continue
		}
		const wall = int64(time.Second) // which may be set meanwhile
		if len(sent) == 0 || sent[0] > n.LastReceiveTime() || sent[0] < began-wall ||
			n.LastReceiveTime() > time.Now().UnixNano()+wall {
			t.Errorf("sent at %v, received at %d; it began at %d", sent, n.LastReceiveTime(), began)
		}
		if again := n.AppendSendTimes(nil); len(again) != 0 {
			t.Errorf("%v is told twice", again)
		}
	}
}

// TestWaits: what lies in the socket is counted with its time, for as long as somebody wants it.
func TestWaits(t *testing.T) {
	n := listen(t, configOf(issue(t, "a")))
	to := n.Addr().(*net.UDPAddr)
	send := func() {
		_, _, err := n.sock.WriteMsgUDP(make([]byte, 100), nil, to)
		must.OK(t, err)
		time.Sleep(time.Millisecond)
	}
	if send(); n.QueueDelays() != nil {
		t.Error("nobody has asked")
	}
	for range 2 { // the second one begins anew
		must.OK(t, n.MeasureQueueDelays(true))
		if n.QueueDelays().TotalCount() != 0 {
			t.Error("what was counted before is there")
		}
		ctx, cancel := context.WithTimeout(t.Context(), patiently.LongTimeout)
		for n.QueueDelays().TotalCount() == 0 && ctx.Err() == nil {
			send()
		}
		cancel()
		if h := n.QueueDelays(); h.TotalCount() == 0 || h.Max() > maxQueueDelay.Microseconds() {
			t.Errorf("%d packets, %d µs at most", h.TotalCount(), h.Max())
		}
	}
	must.OK(t, n.MeasureQueueDelays(false))
	if send(); n.QueueDelays() != nil {
		t.Error("nobody wants it any more")
	}
}
