package quic

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestReaderTakesWhatIsAtHand holds that a reader of quic-go's packets looks before it lets others run: quic-go's
// goroutines have much to do with each packet. A reader that let them run first had 0.77 of the throughput (medians of
// 5 by turns, 2026-11-27).
func TestReaderTakesWhatIsAtHand(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	c := udp(t)
	var turns atomic.Uint64 // of another goroutine, which has one each time that the reader yields
	var over atomic.Bool
	defer over.Store(true)
	go func() {
		for ; !over.Load(); runtime.Gosched() {
			turns.Add(1)
		}
	}()
	s := newSocket(c, false, time.Millisecond, nil, nil)
	const rounds = 200
	yielded := 0
	for range rounds {
		if _, err := c.WriteTo([]byte("x"), c.LocalAddr()); err != nil {
			t.Fatal(err)
		}
		var ready error
		if err := s.raw.Control(func(fd uintptr) {
			for ready = unix.EINTR; ready == unix.EINTR; { // the runtime's signals end it
				_, ready = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(testTimeout.Milliseconds()))
			}
		}); err != nil || ready != nil {
			t.Fatal(err, ready)
		}
		before := turns.Load()
		if err := s.fill(); err != nil {
			t.Fatal(err)
		}
		if turns.Load() != before {
			yielded++
		}
	}
	if yielded > rounds/2 { // the runtime takes the processor away now and then
		t.Errorf("others ran in %d of %d rounds before the reader took what was at hand", yielded, rounds)
	}
}
