package source_test

import (
	"encoding/binary"
	"net"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"ringlet/source"
	"ringlet/source/live"
	"ringlet/testkit/livetest"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// receiveBusy opens a socket for what a readout unit says of being busy.
func receiveBusy(t testing.TB) (*net.UnixConn, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "busy")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	must.OK(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn, path
}

// openBusy opens a source in a unit that tells a receiver of being busy.
func openBusy(t testing.TB, to string) (*source.Live, *livetest.Feed) {
	t.Helper()
	feed := livetest.New()
	defer source.AddKindForTest(livetest.NewRow(func(string) *livetest.Feed { return feed }))()
	row, text := source.KindOf("fake:a")
	src, err := row.Open(t.Context(), source.Settings{
		GeneratorConfig: source.GeneratorConfig{
			Packing: 10,
		},
		RUs:   1,
		Input: text,
		Live: source.LiveSettings{
			FragmentTimeout: time.Second,
			FlushAfter:      time.Minute,
			Run:             7,
			Busy: source.BusySettings{
				BusyMarks: live.BusyMarks{High: 60, Low: 40},
				To:        to,
				Name:      "n3",
			},
		},
	})
	must.OK(t, err)
	l := src.(*source.Live)
	l.BeginIntake(func(live.Reach) {})
	t.Cleanup(func() { must.OK(t, l.Close()) })
	return l, feed
}

// readBusy reads datagrams until one has the state.
func readBusy(t testing.TB, conn *net.UnixConn, state byte) []byte {
	t.Helper()
	for buf := make([]byte, 200); ; {
		must.OK(t, conn.SetReadDeadline(time.Now().Add(patiently.LongTimeout)))
		n, err := conn.Read(buf)
		must.OK(t, err)
		if buf[5] == state {
			return buf[:n]
		}
	}
}

// TestBusyBySteps: the fragment that fills the stage up to its mark makes the unit busy before the next one is taken,
// and the cut that empties it makes it free before the reader goes on. The front-end and the receiver are told both.
func TestBusyBySteps(t *testing.T) {
	conn, path := receiveBusy(t)
	l, feed := openBusy(t, "unix:"+path)
	const entries = 4096 // of the stage of a source with such packing
	mark := (entries*60 + 99) / 100
	for e := range mark - 1 {
		feed.Send(0, 8, uint64(e))
	}
	patiently.Until(t, "the fragments are taken", func() bool { return feed.Consumed() == uint64(mark-1) })
	if s := l.BusyStats(); s.Times != 0 {
		t.Fatalf("busy below the mark: %+v", s)
	}
	feed.Send(0, 8, uint64(mark-1))
	patiently.Until(t, "one more is taken", func() bool { return feed.Consumed() == uint64(mark) })
	if s := l.BusyStats(); s.Times != 1 {
		t.Fatalf("not busy at the mark: %+v", s)
	}
	d := readBusy(t, conn, 1)
	if string(d[:4]) != "RLBY" || d[4] != 1 || d[6] != 1<<live.BusyIntake || binary.LittleEndian.Uint64(d[16:]) != 7 ||
		string(d[48:]) != "n3" || len(d) != 48+int(d[7]) {
		t.Errorf("a datagram of a busy unit: % x", d)
	}
	var b source.Block
	dst := make([]byte, l.MaxBlock())
	for first := uint64(0); first < uint64(mark)-entries*40/100; first += 10 {
		l.AddCuts([]live.Cut{{First: first, Events: 10}}, false)
		must.OK(t, l.Next(t.Context(), dst, &b))
	}
	want := []live.BusyState{{Causes: 1 << live.BusyIntake}, {Source: -1}}
	if got := feed.BusyStates(); !slices.Equal(got, want) {
		t.Errorf("the front-end is told %v, and not %v", got, want)
	}
	readBusy(t, conn, 0)
	if s := l.BusyStats(); s.Times != 1 || s.DeadTime == 0 || s.DeadTime != s.Intake || s.Builders != 0 || s.Unsent != 0 {
		t.Errorf("dead time: %+v", s)
	}
}

// TestBusyEnds: a unit that is busy says at the end of its run that it is free, also to a receiver that came late, and
// nothing follows.
func TestBusyEnds(t *testing.T) {
	conn, path := receiveBusy(t)
	l, feed := openBusy(t, "unix:"+path)
	l.NoteRetained(10, 10)
	readBusy(t, conn, 1)
	l.EndIntake()
	l.NoteRetained(4, 10)
	l.NoteRetained(10, 10)
	readBusy(t, conn, 0)
	must.OK(t, l.Close())
	readBusy(t, conn, 2)
	want := []live.BusyState{{Causes: 1 << live.BusyBuilders, Source: -1}, {Source: -1}}
	if got := feed.BusyStates(); !slices.Equal(got, want) {
		t.Errorf("the front-end is told %v, and not %v", got, want)
	}
}

// TestBusyWithoutReceiver: what nobody takes is counted, and harms nothing. A receiver that comes later is told.
func TestBusyWithoutReceiver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "busy")
	l, _ := openBusy(t, "unix:"+path)
	l.NoteRetained(10, 10)
	patiently.Until(t, "a datagram is lost", func() bool { return l.BusyStats().Unsent > 0 })
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	must.OK(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	readBusy(t, conn, 1)
}

// TestBusyWithoutReceiverByUDP: the kernel tells of a datagram that nobody took when the next one is sent.
func TestBusyWithoutReceiverByUDP(t *testing.T) {
	free, err := net.ListenPacket("udp", "127.0.0.1:0")
	must.OK(t, err)
	at := free.LocalAddr().String()
	must.OK(t, free.Close())
	l, _ := openBusy(t, "udp:"+at)
	used := uint64(0)
	patiently.Until(t, "a datagram is lost", func() bool {
		used = 10 - used
		l.NoteRetained(used, 10)
		return l.BusyStats().Unsent > 0
	})
}

func TestParseBusyTarget(t *testing.T) {
	for text, want := range map[string]string{
		"unix:/run/busy":   "unixgram /run/busy",
		"udp:7000":         "udp 127.0.0.1:7000",
		"udp:[::1]:7000":   "udp [::1]:7000",
		"udp:trigger:7000": "udp trigger:7000",
		"":                 " ",
	} {
		network, at, err := source.ParseBusyTarget(text)
		if got := network + " " + at; err != nil || got != want {
			t.Errorf("%q is %q, %v", text, got, err)
		}
	}
	for _, text := range []string{"unix:busy", "tcp:a:1", "udp:", "udp:0.0.0.0:7", "udp:a", "busy"} {
		if _, _, err := source.ParseBusyTarget(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

// BenchmarkBusy is how long it takes from the change of a buffer to the datagram in the receiver's hands.
func BenchmarkBusy(b *testing.B) {
	conn, path := receiveBusy(b)
	l, _ := openBusy(b, "unix:"+path)
	took := make([]time.Duration, 0, b.N)
	readBusy(b, conn, 0)
	b.ResetTimer()
	for i := range b.N {
		busy := byte(1 - i%2)
		time.Sleep(time.Millisecond) // so that the goroutine that sends is asleep, as in a run
		began := time.Now()
		l.NoteRetained(uint64(busy), 1)
		readBusy(b, conn, busy)
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e3, "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1e3, "p99-µs")
}
