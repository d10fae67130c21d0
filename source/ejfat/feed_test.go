package ejfat

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"ringlet/event/ejfat"
	"ringlet/source/live"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// opened is a feed on a port of its own, and a socket that sends to it.
func opened(t *testing.T, id string) (*feed, net.Conn) {
	t.Helper()
	got, err := Open(t.Context(), live.FeedSettings{Address: "127.0.0.1:0" + id, Name: "udp:test"})
	must.OK(t, err)
	f := got.(*feed)
	t.Cleanup(func() { must.OK(t, errors.Join(f.Close(), f.Close())) })
	conn, err := net.Dial("udp", f.socket.LocalAddr().String())
	must.OK(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return f, conn
}

func send(t *testing.T, conn net.Conn, packets ...[]byte) {
	t.Helper()
	for _, p := range packets {
		_, err := conn.Write(p)
		must.OK(t, err)
	}
}

// want takes the fragments of the events in that order.
func (f *feed) want(t *testing.T, sizes map[uint64]int, numbers ...uint64) {
	t.Helper()
	dst := make([]live.Fragment, 2)
	for len(numbers) > 0 {
		n, err := f.Next(t.Context(), dst)
		must.OK(t, err)
		for _, got := range dst[:n] {
			if got.Event != numbers[0] || !bytes.Equal(got.Data, content(got.Event, sizes[got.Event])) {
				t.Fatalf("event %d of %d bytes, want %d", got.Event, len(got.Data), numbers[0])
			}
			numbers = numbers[1:]
		}
		f.ReleaseFragments(n)
	}
}

func TestFeed(t *testing.T) {
	f, conn := opened(t, "/3")
	sizes := map[uint64]int{0: 3000, 1: 5, 2: 0, 3: 1000}
	segments := func(number uint64, most int) (out [][]byte) {
		for _, s := range cut(number, content(number, sizes[number]), most) {
			out = append(out, ejfat.AppendSegment(nil, s))
		}
		return out
	}
	zero := segments(0, 1000)
	send(t, conn, zero[2], zero[0])
	send(t, conn, segments(1, 100)...)
	send(t, conn, segments(2, 100)...)
	f.want(t, sizes, 1, 2)
	send(t, conn, ejfat.AppendSync(nil, ejfat.Sync{}), zero[0], zero[1])
	f.want(t, sizes, 0)
	balanced := ejfat.AppendSegment(ejfat.AppendBalancer(nil, 3, 9), cut(3, content(3, 1000), 1000)[0])
	other := cut(4, content(4, 10), 10)[0]
	other.DataID = 4
	send(t, conn, []byte("junk"), ejfat.AppendSegment(nil, other), zero[1], balanced)
	f.want(t, sizes, 3)
	got := f.Stats()
	want := live.Stats{
		Fragments:       4,
		Bytes:           4005,
		RefusedMessages: 2,
		Repeated:        2,
	}
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestTickOfTheLoadBalancer takes the number of the segment: E2SAR's default has the load balancer's header count
// microseconds. And a buffer that is too large is refused with the limit.
func TestTickOfTheLoadBalancer(t *testing.T) {
	f, conn := opened(t, "/3")
	for e := range uint64(3) {
		s := cut(e, content(e, 10), 10)[0]
		send(t, conn, ejfat.AppendSegment(ejfat.AppendBalancer(nil, 1_764_288_000_000_000+e, 9), s))
	}
	f.want(t, map[uint64]int{0: 10, 1: 10, 2: 10}, 0, 1, 2)
	if got := f.Explain(); got != "" {
		t.Error(got)
	}
	send(t, conn, ejfat.AppendSegment(nil, ejfat.Segment{
		DataID: 3,
		Length: 1 << 20,
		Event:  3,
		Data:   []byte("x"),
	}))
	send(t, conn, ejfat.AppendSegment(nil, cut(4, content(4, 10), 10)[0]))
	f.want(t, map[uint64]int{4: 10}, 4)
	if got := f.Explain(); !strings.Contains(got, "1048576 bytes, and 65535 are the most: put ?max=1048576") {
		t.Error(got)
	}
}

// TestFirstDataID takes the id of the first segment where none is configured.
func TestFirstDataID(t *testing.T) {
	f, conn := opened(t, "")
	first, second := cut(0, content(0, 9), 9)[0], cut(1, content(1, 9), 9)[0]
	first.DataID, second.DataID = 7, 8
	third := cut(2, content(2, 9), 9)[0]
	third.DataID = 7
	for _, s := range []ejfat.Segment{first, second, third} {
		send(t, conn, ejfat.AppendSegment(nil, s))
	}
	f.want(t, map[uint64]int{0: 9, 2: 9}, 0, 2)
	if got := f.Stats(); got.RefusedMessages != 1 || got.FrontendsAttached != 1 {
		t.Errorf("%+v", got)
	}
}

// TestRestThatDoesNotCome loses a segment: nothing but time tells that.
func TestRestThatDoesNotCome(t *testing.T) {
	f, conn := opened(t, "")
	send(t, conn, ejfat.AppendSegment(nil, cut(0, content(0, 20), 10)[0]))
	f.untilLost(t.Context(), t, 1)
}

// untilLost has the feed go on, and give nothing out, until so many fragments are lost.
func (f *feed) untilLost(ctx context.Context, t *testing.T, lost uint64) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		for f.Stats().LostFragments < lost && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	if n, err := f.Next(ctx, make([]live.Fragment, 1)); n > 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d fragments, %v; %d of %d are lost", n, err, f.Stats().LostFragments, lost)
	}
}

func TestEndOfContextInterrupts(t *testing.T) {
	f, _ := opened(t, "")
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		if _, err := f.Next(ctx, make([]live.Fragment, 1)); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	}
}

func TestAddresses(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1:1/x":     `the data id "x" is not a number`,
		"127.0.0.1:1/65536": `the data id "65536" is not a number`,
		"127.0.0.1":         "has no port",
		"127.0.0.1:port":    `the port "port"`,
	} {
		_, err := Open(t.Context(), live.FeedSettings{Address: address, Name: "udp:" + address})
		var typed *addressError
		if !errors.As(err, &typed) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", address, err)
		}
	}
	f, _ := opened(t, "")
	if _, err := Open(t.Context(), live.FeedSettings{Address: f.socket.LocalAddr().String()}); err == nil {
		t.Error("two feeds listen at one address")
	}
}

// TestWhoMaySend: datagrams of others are counted as refused, and give nothing; in IPv6 a sender of IPv4 is the same.
func TestWhoMaySend(t *testing.T) {
	one := ejfat.AppendSegment(nil, cut(0, content(0, 10), 10)[0])
	sizes := map[uint64]int{0: 10}
	for query, allowed := range map[string]bool{
		"?allow=10.0.0.0/8,127.0.0.1": true, "/3?allow=127.0.0.0/8": true, "?allow=10.0.0.0/8,::1": false,
	} {
		f, conn := opened(t, query)
		send(t, conn, one)
		if allowed {
			f.want(t, sizes, 0)
			continue
		}
		ctx, cancel := context.WithTimeout(t.Context(), patiently.LongTimeout)
		go func() {
			defer cancel()
			for f.Stats().RefusedMessages == 0 && ctx.Err() == nil {
				time.Sleep(time.Millisecond)
			}
		}()
		if n, err := f.Next(ctx, make([]live.Fragment, 1)); n != 0 || err == nil || f.Stats().RefusedMessages != 1 ||
			!strings.Contains(f.Explain(), "127.0.0.1 may not send") {
			t.Errorf("%s: %d, %v, %+v, %s", query, n, err, f.Stats(), f.Explain())
		}
	}
	for _, bad := range []string{"?allow=", "?allow=10.0.0.0/33", "?deny=10.0.0.0/8", "?allow=host", "?allow=fe80::1%lo"} {
		if Check("127.0.0.1:0"+bad) == nil {
			t.Errorf("%s is taken", bad)
		}
	}
	if at := HostPort("127.0.0.1:7/3?allow=10.0.0.0/8"); at != "127.0.0.1:7" {
		t.Error(at)
	}
}
