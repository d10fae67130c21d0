package decision

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// TestTheEndOfASlowReader holds that at the end of a run each decision is counted that a reader did not take, and each
// subscriber that was cut off: with what it had been given, and with what waited behind that.
func TestTheEndOfASlowReader(t *testing.T) {
	var stats OutletStats
	server, err := Listen("127.0.0.1:0", &stats, slog.New(slog.DiscardHandler))
	must.OK(t, err)
	buffer, err := OpenBuffer(fmt.Sprintf("ringlet-test-end-%d", os.Getpid()), &stats, slog.New(slog.DiscardHandler))
	must.OK(t, err)
	reads, writes := net.Pipe() // nothing of it is buffered
	defer reads.Close()
	sub := &subscriber{writes, newQueue()}
	server.subs[sub] = true
	server.wg.Go(func() { server.serve(sub) })
	b, many := make([]byte, maxBatch*ResultSize), uint64(0)
	until := time.Now().Add(patiently.LongTimeout)
	for stats.NoSpace.Load() == 0 && time.Now().Before(until) { // until ring and queue are full
		buffer.Publish(b)
		many += maxBatch
	}
	must.OK(t, buffer.Close())
	if got := stats.Handed.Load() + stats.NoSpace.Load(); got != many {
		t.Errorf("%d decisions of %d are accounted for", got, many)
	}
	server.Publish(b)
	must.OK(t, server.Close())
	if stats.SubscribersCutOff.Load() != 1 {
		t.Error("nobody is told that a subscriber was cut off")
	}
}
