package frames

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"ringlet/event"
	"ringlet/source/live"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// settings are those of source 7 in run 42.
func settings(address string) live.FeedSettings {
	return live.FeedSettings{
		Address:  address,
		SourceID: 7,
		Name:     "test:" + address,
		Run:      42,
		Log:      slog.New(slog.DiscardHandler),
	}
}

// openTCP opens a feed on a free port.
func openTCP(t testing.TB) *feed {
	t.Helper()
	got, err := OpenTCP(t.Context(), settings("127.0.0.1:0"))
	must.OK(t, err)
	t.Cleanup(func() { must.OK(t, got.Close()) })
	return got.(*feed)
}

// peer is a front-end of a test.
type peer struct {
	net.Conn
	t testing.TB
}

var plain = hello{Version: currentVersion, Type: noType, Source: anySource}

// old is what a front-end of the first version says.
var old = hello{Version: version1, Type: noType, Source: anySource}

// connect says hello, and returns what is answered.
func connect(t testing.TB, f *feed, h hello) (*peer, answer) {
	t.Helper()
	c, err := net.Dial("tcp", f.Addr())
	must.OK(t, err)
	t.Cleanup(func() { _ = c.Close() })
	p := &peer{c, t}
	p.send(appendHello(nil, h))
	return p, p.answer()
}

func (p *peer) send(b []byte) {
	p.t.Helper()
	if _, err := p.Write(b); err != nil {
		p.t.Fatal(err)
	}
}

// answer reads one, in the version in which it comes.
func (p *peer) answer() answer {
	p.t.Helper()
	must.OK(p.t, p.SetReadDeadline(time.Now().Add(patiently.LongTimeout)))
	var b [answerSize]byte
	_, err := io.ReadFull(p, b[:answerSize1])
	must.OK(p.t, err)
	a := answer{Code: answerCode(b[5]), A: binary.LittleEndian.Uint64(b[8:])}
	rest := b[16:answerSize1]
	if b[4] == currentVersion {
		_, err = io.ReadFull(p, b[answerSize1:])
		must.OK(p.t, err)
		a.B, rest = binary.LittleEndian.Uint64(b[16:]), b[24:]
	}
	a.C, a.D = binary.LittleEndian.Uint32(rest), binary.LittleEndian.Uint32(rest[4:])
	sentence := make([]byte, binary.LittleEndian.Uint16(b[6:]))
	_, err = io.ReadFull(p, sentence)
	must.OK(p.t, err)
	if string(b[:4]) != answerMagic || b[4] != currentVersion && b[4] != version1 {
		p.t.Fatalf("an answer begins with %x", b[:5])
	}
	a.Sentence = string(sentence)
	return a
}

// closed says that the other end has closed the connection.
func (p *peer) closed() {
	p.t.Helper()
	must.OK(p.t, p.SetReadDeadline(time.Now().Add(patiently.LongTimeout)))
	if n, err := p.Read(make([]byte, 1)); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		p.t.Errorf("the connection is not closed: %d bytes, %v", n, err)
	}
}

// data is what event e has.
func data(e uint64) []byte {
	return bytes.Repeat([]byte(fmt.Sprintf("%d.", e)), int(e%40))
}

// events are the frames of events from to to, and the end of the run if to is it.
func events(from, to uint64) (b []byte) {
	for e := from; e < to; e++ {
		b = appendFrame(b, frame{Event: e, Data: data(e), Flags: uint8(e % 2 * flagUnchecked)})
	}
	return b
}

func endFrame(e uint64) []byte { return appendFrame(nil, frame{Event: e, Flags: flagEnd}) }

// collect takes fragments until the event, and checks that they come once and in order.
func collect(t testing.TB, f live.Feed, from, to uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patiently.LongTimeout)
	defer cancel()
	var dst [100]live.Fragment
	for from < to {
		n, err := f.Next(ctx, dst[:min(uint64(len(dst)), to-from)])
		must.OK(t, err)
		for _, g := range dst[:n] {
			if g.Event != from || !bytes.Equal(g.Data, data(from)) || g.Type != event.TestDet {
				t.Fatalf("event %d of type %v has %q; want event %d", g.Event, g.Type, g.Data, from)
			}
			from++
		}
		f.SetResumeEvent(from)
		f.ReleaseFragments(n)
	}
}

// ended says that the feed is at the end of its run.
func ended(t testing.TB, f live.Feed) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patiently.LongTimeout)
	defer cancel()
	if n, err := f.Next(ctx, make([]live.Fragment, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("%d fragments, %v; want the end", n, err)
	}
}

// await waits until a counter of the feed is what is wanted.
func await(t testing.TB, f live.Feed, what string, is func(live.Stats) bool) {
	t.Helper()
	for until := time.Now().Add(patiently.LongTimeout); !is(f.Stats()); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("%s: %+v", what, f.Stats())
		}
	}
}

func TestARun(t *testing.T) {
	f := openTCP(t)
	p, a := connect(t, f, goldenHello) // of source 0x0107
	if a.Code != codeBadSource || !strings.Contains(a.Sentence, "source 263") {
		t.Errorf("%+v", a)
	}
	p.closed()
	p, a = connect(t, f, plain)
	if want := (answer{B: 42, C: storeSize, D: event.MaxNarrowFragment}); a != want {
		t.Fatalf("%+v, want %+v", a, want)
	}
	p.send(events(0, 1000))
	collect(t, f, 0, 1000)
	f.SetSafeBelow(800)
	if a := p.answer(); a.Code != codeAcknowledged || a.A != 800 {
		t.Errorf("%+v", a)
	}
	p.send(append(events(1000, 1500), endFrame(1500)...))
	collect(t, f, 1000, 1500)
	ended(t, f)
	ended(t, f)
	f.SetSafeBelow(1500)
	if a := p.answer(); a.A != 1500 {
		t.Errorf("%+v", a)
	}
	must.OK(t, p.Close())
	await(t, f, "the front-end may go behind its end", func(s live.Stats) bool {
		return s.Fragments == 1500 && s.RefusedMessages == 1 && s.FrontendsAttached == 1 && s.FrontendsGone == 0 &&
			s.Repeated == 0
	})
}

// TestResume: a front-end that breaks off, within a frame too, is asked for what is not there. What it sends all the
// same is thrown away, so each fragment is handed out once.
func TestResume(t *testing.T) {
	f := openTCP(t)
	p, _ := connect(t, f, plain)
	b := events(0, 301)
	p.send(b[:len(b)-5])
	collect(t, f, 0, 300)
	f.SetSafeBelow(200)
	must.OK(t, p.Close())
	await(t, f, "gone", func(s live.Stats) bool { return s.FrontendsGone == 1 })
	p, a := connect(t, f, plain)
	if a.Code != codeAccepted || a.A != 300 {
		t.Fatalf("%+v", a)
	}
	if a := p.answer(); a.Code != codeAcknowledged || a.A != 200 {
		t.Errorf("what is safe is told at once: %+v", a)
	}
	p.send(events(200, 400))
	collect(t, f, 300, 400)
	if s := f.Stats(); s.Repeated != 100 || s.Fragments != 400 {
		t.Errorf("%+v", s)
	}
	if a := p.answer(); a.Code != codeGivenUp || a.A != 200 || a.B != 300 || a.C != reasonBackwards || a.D != 100 {
		t.Errorf("who numbers anew is told: %+v", a)
	}
	p.send(events(398, 399)) // runs backwards: for the core to judge
	collect(t, f, 398, 399)
	p.send(append(endFrame(400), endFrame(400)...))
	ended(t, f)
	if a := p.answer(); a.Code != codeEndReceived || a.A != 400 {
		t.Errorf("%+v", a)
	}
	p.send(events(400, 401))
	if a := p.answer(); a.Code != codeBadFormat || !strings.Contains(a.Sentence, "after the end") {
		t.Errorf("%+v", a)
	}
}

// TestTwoFrontEnds: the second is refused as long as the first is there.
func TestTwoFrontEnds(t *testing.T) {
	f := openTCP(t)
	h := plain
	h.Name = "first"
	p, _ := connect(t, f, h)
	q, a := connect(t, f, plain)
	if a.Code != codeBusy || !strings.Contains(a.Sentence, `"first" at 127.0.0.1:`) {
		t.Errorf("%+v", a)
	}
	q.closed()
	p.send(events(0, 10))
	collect(t, f, 0, 10)
	must.OK(t, p.Close())
	await(t, f, "gone", func(s live.Stats) bool { return s.FrontendsGone == 1 })
	if _, a = connect(t, f, plain); a.Code != codeAccepted || a.A != 10 {
		t.Errorf("%+v", a)
	}
}

// TestJunk: bytes that break the format end the connection, with a sentence and a count, and disturb nobody.
func TestJunk(t *testing.T) {
	f := openTCP(t)
	other := plain
	other.Version = 3
	run := plain
	run.Run = 41
	for i, c := range []struct {
		hello []byte
		then  []byte
		want  answerCode
	}{
		{[]byte("GET / HTTP/1.1\r\n\r\n"), nil, codeBadFormat},
		{appendHello(nil, other), nil, codeBadVersion},
		{appendHello(nil, run), nil, codeBadRun},
		{appendHello(nil, plain), []byte(strings.Repeat("junk", 1<<16)), codeBadFormat},
		{appendHello(nil, plain), append(events(0, 1), "more junk of twenty bytes and more"...), codeBadFormat},
	} {
		conn, err := net.Dial("tcp", f.Addr())
		must.OK(t, err)
		p := &peer{conn, t}
		p.send(c.hello)
		if c.then != nil {
			if a := p.answer(); a.Code != codeAccepted {
				t.Fatalf("%d: %+v", i, a)
			}
			p.send(c.then)
		}
		if a := p.answer(); a.Code != c.want || a.Sentence == "" {
			t.Errorf("%d: %+v", i, a)
		}
		p.closed()
		must.OK(t, p.Close())
		await(t, f, "refused", func(s live.Stats) bool { return s.RefusedMessages == uint64(i+1) })
	}
	p, a := connect(t, f, plain)
	p.send(events(1, 2))
	collect(t, f, 0, 2)
	if a.A != 1 || f.Stats().Fragments != 2 {
		t.Errorf("%+v, %+v", a, f.Stats())
	}
}

// TestSlowConsumer: a front-end that sends more than the store holds waits, and loses nothing.
func TestSlowConsumer(t *testing.T) {
	f := openTCP(t)
	p, _ := connect(t, f, plain)
	const n = 200_000 // small ones: more than may be queued
	big := bytes.Repeat([]byte{7}, event.MaxNarrowFragment)
	const m = 3 * storeSize / event.MaxNarrowFragment
	sent := make(chan error, 1)
	go func() {
		_, err := p.Write(events(0, n))
		for e := uint64(n); err == nil && e < n+m; e++ {
			_, err = p.Write(appendFrame(nil, frame{Event: e, Data: big}))
		}
		sent <- err
	}()
	await(t, f, "full", func(s live.Stats) bool { return s.Fragments == maxQueuedFragments })
	collect(t, f, 0, n)
	var dst [7]live.Fragment
	for e := uint64(n); e < n+m; {
		k, err := f.Next(t.Context(), dst[:])
		must.OK(t, err)
		for _, g := range dst[:k] {
			if g.Event != e || !bytes.Equal(g.Data, big) {
				t.Fatalf("event %d where %d is due", g.Event, e)
			}
			e++
		}
		f.ReleaseFragments(k)
	}
	must.OK(t, patiently.Receive(t, sent, "the front-end could not send"))
}

// TestNothingIsLeft: frames that had no room when they came are handed out when there is some, although nothing comes
// behind them. A store of few fragments has no room all the time, and its consumer frees them as soon as it can.
func TestNothingIsLeft(t *testing.T) {
	const rounds, each = 20, 1000
	f := openTCP(t)
	f.store = newStore(1<<20, 8)
	p, _ := connect(t, f, plain)
	dst := make([]live.Fragment, 8)
	for round := range uint64(rounds) {
		p.send(events(round*each, (round+1)*each))
		for got, until := 0, time.Now().Add(patiently.LongTimeout); got < each; {
			n := f.store.handOut(dst)
			f.ReleaseFragments(n)
			runtime.Gosched() // the reader has its turn on few processors
			if got += n; n == 0 && time.Now().After(until) {
				t.Fatalf("round %d: %d of %d fragments were handed out", round, got, each)
			}
		}
	}
}

// TestCtx: Next ends with its context, and a feed that is closed ends it too.
func TestCtx(t *testing.T) {
	f := openTCP(t)
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan error, 1)
	next := func(ctx context.Context) {
		_, err := f.Next(ctx, make([]live.Fragment, 1))
		got <- err
	}
	go next(ctx)
	cancel()
	if err := patiently.Receive(t, got, "Next waits on"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	p, _ := connect(t, f, plain)
	p.send(events(0, 3))
	collect(t, f, 0, 3)
	go next(t.Context())
	f.SetSafeBelow(3)
	must.OK(t, f.Close())
	if err := patiently.Receive(t, got, "Next waits on"); err == nil {
		t.Error("a closed feed has an end")
	}
	if a := p.answer(); a.A != 3 {
		t.Errorf("the last acknowledgement: %+v", a)
	}
	p.closed()
	must.OK(t, f.Close())
}

// TestManyThatSayNothing: connections without a hello keep nobody out for longer than the time of a hello, and are
// bounded in number.
func TestManyThatSayNothing(t *testing.T) {
	f := openTCP(t)
	p, _ := connect(t, f, plain)
	for range 3 * maxConns {
		c, err := net.Dial("tcp", f.Addr())
		must.OK(t, err)
		t.Cleanup(func() { _ = c.Close() })
	}
	await(t, f, "too many", func(s live.Stats) bool { return s.RefusedMessages >= 2*maxConns })
	p.send(events(0, 5))
	collect(t, f, 0, 5)
}

// TestNextAllocatesNothing holds the path of a fragment, from the connection to the consumer, at no allocation.
func TestNextAllocatesNothing(t *testing.T) {
	f := openTCP(t)
	p, _ := connect(t, f, plain)
	var next uint64
	dst := make([]live.Fragment, 256)
	buf := make([]byte, 0, 1<<20)
	payload := make([]byte, 300)
	const each = 2000
	if n := testing.AllocsPerRun(20, func() {
		buf = buf[:0]
		for range each {
			buf = appendFrame(buf, frame{Event: next, Data: payload})
			next++
		}
		p.send(buf)
		for got := 0; got < each; {
			n, err := f.Next(t.Context(), dst)
			must.OK(t, err)
			f.ReleaseFragments(n)
			got += n
		}
	}); n >= 1 {
		t.Errorf("%v allocations for %d fragments", n, each)
	}
}

func TestUnix(t *testing.T) {
	path := filepath.Join(t.TempDir(), "feed")
	// A process that died has left its socket.
	lis, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	must.OK(t, err)
	lis.SetUnlinkOnClose(false)
	must.OK(t, lis.Close())
	f, err := OpenUnix(t.Context(), settings(path))
	must.OK(t, err)
	if _, err := OpenUnix(t.Context(), settings(path)); err == nil || !strings.Contains(err.Error(), "listens at") {
		t.Errorf("a second one: %v", err)
	}
	c, err := net.Dial("unix", path)
	must.OK(t, err)
	p := &peer{c, t}
	p.send(append(appendHello(nil, plain), events(0, 10)...))
	p.answer()
	p.send(endFrame(10))
	collect(t, f, 0, 10)
	ended(t, f)
	must.OK(t, f.Close())
	if _, err := os.Lstat(path); err == nil {
		t.Error("the socket is still there")
	}
	must.OK(t, os.WriteFile(path, nil, 0o600))
	if _, err := OpenUnix(t.Context(), settings(path)); err == nil || !strings.Contains(err.Error(), "no socket") {
		t.Errorf("a file: %v", err)
	}
	must.OK(t, p.Close())
}

func TestBadAddresses(t *testing.T) {
	for _, c := range []struct {
		open func(context.Context, live.FeedSettings) (live.Feed, error)
		addr string
	}{
		{OpenTCP, "9000"}, {OpenTCP, "192.0.2.1:9000"}, {OpenUnix, ""}, {OpenUnix, "/nowhere/at/all"}, {OpenExec, " "},
	} {
		if f, err := c.open(t.Context(), settings(c.addr)); err == nil {
			t.Errorf("%q is opened", c.addr)
			must.OK(t, f.Close())
		} else if !strings.Contains(err.Error(), "test:"+c.addr) {
			t.Errorf("%q: %v", c.addr, err)
		}
	}
}
