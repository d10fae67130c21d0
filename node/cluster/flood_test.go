package cluster

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"ringlet/internal/connlimit"
	"ringlet/testkit/logged"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// A second node under a name tries until it gives up; neither its log nor those of the members are flooded meanwhile.
func TestTakenNameFloodsNoLog(t *testing.T) {
	var first, second logged.Buffer
	cfg := config("n0", nil)
	cfg.Logger = slog.New(slog.NewTextHandler(&first, nil))
	n0 := open(t, cfg)
	open(t, config("n1", n0))
	double := config("n1", n0)
	double.Logger = slog.New(slog.NewTextHandler(&second, nil))
	double.Timing.ReclaimTimeout = time.Minute
	ctx, giveUp := context.WithCancel(limit(t))
	go func() {
		defer giveUp()
		for n0.Counters().NameConflicts.Load() < 10 && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
	}()
	_, err := Open(ctx, double)
	var refused *joinError
	if !errors.As(err, &refused) || refused.Why != nameTaken || n0.Counters().NameConflicts.Load() < 10 {
		t.Fatalf("error %v, want a taken name; n0 met it %d times", err, n0.Counters().NameConflicts.Load())
	}
	for who, log := range map[string]*logged.Buffer{"n0": &first, "the second n1": &second} {
		if lines, all := log.Count("two nodes under one name"), log.Count("n1"); lines != 1 || all > 10 {
			t.Errorf("%s tells of it %d times in %d lines:\n%s", who, lines, all, log)
		}
	}
	if lines := second.Count("the name is taken"); lines != 1 {
		t.Errorf("the second n1 says %d times why it goes on:\n%s", lines, &second)
	}
}

func TestWrongKeyFloodsNoLog(t *testing.T) {
	var log logged.Buffer
	cfg := config("n0", nil)
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	n0 := open(t, cfg)
	conn, err := net.Dial("udp", n0.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for end := limit(t); n0.Counters().WrongKey.Load() < 3 && end.Err() == nil; time.Sleep(time.Millisecond) {
		if _, err := conn.Write(bytes.Repeat([]byte{1}, 100)); err != nil {
			t.Fatal(err)
		}
	}
	if lines := log.Count("Decrypt packet failed"); n0.Counters().WrongKey.Load() < 3 || lines != 1 {
		t.Errorf("%d packets were told %d times:\n%s", n0.Counters().WrongKey.Load(), lines, &log)
	}
}

// TestJunkFloodsNoLog: lines of memberlist that differ in what a stranger sent are of one kind.
func TestJunkFloodsNoLog(t *testing.T) {
	var log logged.Buffer
	h := gossipHandler{Handler: slog.NewTextHandler(&log, nil), counters: &Counters{}, logLimiter: &connlimit.LogLimiter{}}
	for i := range 100 {
		for _, text := range []string{
			fmt.Sprintf("[DEBUG] memberlist: Stream connection from=127.0.0.1:%d", i), // not told at all
			fmt.Sprintf("[ERR] memberlist: discarding stream with unacceptable label \"\\x%02x\": from=127.0.0.1:%d", i, i),
			fmt.Sprintf("[ERR] memberlist: failed to receive: remote node state is larger than limit (%d) from=[::1]:%d", i, i),
			fmt.Sprintf("[INFO] memberlist: Marking n%d as failed, suspect timeout reached", i), // what members do
		} {
			must.OK(t, h.Handle(t.Context(), slog.NewRecord(time.Unix(0, 0), slog.LevelInfo, text, 0)))
		}
	}
	for text, want := range map[string]int{
		"unacceptable label": 1, "larger than limit": 1, "Marking": 100, "gossip: ": 102,
	} {
		if logged := log.Count(text); logged != want {
			t.Errorf("%q is told %d times, want %d:\n%s", text, logged, want, &log)
		}
	}
}

// TestSilentConnectionsAreBounded: strangers that connect and say nothing hold a bounded number of places for a bounded
// time, and a member comes in beside them.
func TestSilentConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	var log logged.Buffer
	cfg := config("n0", nil)
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	n0 := open(t, cfg)
	for range 2 * maxStreamsPerHost {
		c, err := net.Dial("tcp", n0.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	open(t, config("n1", n0))
	if n := n0.Counters().StreamsRefused.Load(); n < maxStreamsPerHost {
		t.Errorf("%d connections were refused, want %d", n, maxStreamsPerHost)
	}
	if lines := log.Count("too many are open"); lines != 1 {
		t.Errorf("told %d times", lines)
	}
}

// TestStateIsBounded: whoever sends more than the state of a cluster is cut off.
func TestStateIsBounded(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	s := &boundedStream{Conn: b, bytesLeft: 10, release: func() {}}
	defer s.Close()
	go func() { _, _ = a.Write(make([]byte, 20)) }()
	must.OK(t, a.SetDeadline(time.Now().Add(patiently.LongTimeout)))
	n, err := io.ReadFull(s, make([]byte, 20))
	if n != 10 || !errors.Is(err, io.ErrShortBuffer) {
		t.Errorf("%d bytes, %v", n, err)
	}
}

func TestTimingFollowsTheAddresses(t *testing.T) {
	for _, tc := range []struct {
		bind string
		join []string
		want Timing
	}{
		{"127.0.0.1", nil, LocalTiming()},
		{"", []string{"127.0.0.2:7946", "[::1]:7", "localhost:7"}, LocalTiming()},
		{"10.0.0.1", nil, lanTiming()},
		{"0.0.0.0", nil, lanTiming()},
		{"127.0.0.1", []string{"10.0.0.1:7946"}, lanTiming()},
		{"127.0.0.1", []string{"control:7946"}, lanTiming()},
		{"::1", []string{"[fd00::1]:7946"}, lanTiming()},
	} {
		if got := TimingFor(tc.bind, tc.join); got != tc.want {
			t.Errorf("bound at %q, joining %v: %+v", tc.bind, tc.join, got)
		}
	}
}

// TestWhenToJoinAgain: whenever nobody who was joined is there, and now and then while gossip is not answered.
func TestWhenToJoinAgain(t *testing.T) {
	for _, tc := range []struct {
		connected bool
		score     int
		since     time.Duration
		want      bool
	}{
		{true, 0, time.Hour, false},
		{false, 0, 0, true},
		{false, 7, 0, true},
		{true, 1, time.Hour, false},
		{true, 2, strainedInterval, true},
		{true, 7, strainedInterval - 1, false},
	} {
		if got := needsJoin(tc.connected, tc.score, tc.since); got != tc.want {
			t.Errorf("%+v: %v", tc, got)
		}
	}
}

// A recorded message whose first byte, the version, was changed opens with the key, and then memberlist removes a
// padding that is not there: that ended the process (found by make hostile).
func TestVersionThatNobodyWrites(t *testing.T) {
	cfg := config("n0", nil)
	n0 := open(t, cfg)
	open(t, config("n1", n0))
	block, err := aes.NewCipher(cfg.Key)
	must.OK(t, err)
	gcm, err := cipher.NewGCM(block)
	must.OK(t, err)
	sealed := func(data []byte) []byte {
		nonce := make([]byte, gcm.NonceSize())
		return append(append([]byte{0}, nonce...), gcm.Seal(nil, nonce, bytes.Repeat([]byte{255}, 64), data)...)
	}
	conn, err := net.Dial("udp", n0.Addr().String())
	must.OK(t, err)
	defer conn.Close()
	_, err = conn.Write(sealed(nil))
	must.OK(t, err)
	patiently.Until(t, "it is counted", func() bool { return n0.Counters().WrongKey.Load() == 1 })

	begin := []byte{sealedStreamKind, 0, 0, 0, byte(len(sealed(nil)))}
	stream, err := net.Dial("tcp", n0.Addr().String())
	must.OK(t, err)
	defer stream.Close()
	_, err = stream.Write(append(begin, sealed(begin)...))
	must.OK(t, err)
	must.OK(t, stream.SetReadDeadline(time.Now().Add(patiently.LongTimeout)))
	if _, err := io.ReadAll(stream); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection was not closed")
	}
	if n := len(n0.Members()); n != 2 {
		t.Errorf("%d members", n)
	}
}
