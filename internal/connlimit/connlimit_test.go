package connlimit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ringlet/testkit/patiently"
)

// countInside is how many are inside.
func (g *Gate) countInside() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.insideCount
}

// TestLogLimiterBoundsLines: of one kind one line in an interval, then how many there were meanwhile.
func TestLogLimiterBoundsLines(t *testing.T) {
	var l LogLimiter
	at := time.Unix(0, 0)
	for i, step := range []struct {
		what       string
		after      time.Duration
		unreported int
		yes        bool
	}{
		{"a", 0, 0, true},
		{"a", time.Second, 0, false},
		{"b", 0, 0, true}, // something else
		{"a", logInterval - 2*time.Second, 0, false},
		{"a", time.Second, 2, true},
		{"a", logInterval, 0, true}, // nothing was kept back
		{"a", 0, 0, false},
	} {
		at = at.Add(step.after)
		if unreported, yes := l.Allow(step.what, at); unreported != step.unreported || yes != step.yes {
			t.Errorf("step %d: %d, %v", i, unreported, yes)
		}
	}
	if rest := l.takeUnreported(); len(rest) != 1 || rest["a"] != 1 || len(l.takeUnreported()) != 0 {
		t.Errorf("the rest is %v", rest)
	}
}

// TestLogLosesNoCount: whatever comes and when, what is logged and what is unreported is all there was, and no minute
// has more than it may.
func TestLogLosesNoCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := LogLimiter{Burst: rapid.IntRange(0, 5).Draw(t, "burst")}
		at, logged, unreported, n := time.Unix(0, 0), 0, 0, rapid.IntRange(0, 600).Draw(t, "lines")
		kinds := rapid.IntRange(1, 2*maxKinds).Draw(t, "kinds")
		var when []time.Time
		for i := range n {
			at = at.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond)
			before, yes := l.Allow(fmt.Sprint(i%kinds), at)
			unreported += before
			if yes {
				logged++
				if i%kinds == 0 {
					when = append(when, at)
				}
			}
		}
		for _, rest := range l.takeUnreported() {
			unreported += rest
		}
		if logged+unreported != n {
			t.Fatalf("%d logged and %d unreported of %d", logged, unreported, n)
		}
		if most := 2 * max(l.Burst, 1); len(when) > most && when[most].Sub(when[0]) < logInterval {
			t.Fatalf("%d lines of one kind in less than %v", most+1, logInterval)
		}
		if len(l.periods) > maxKinds+1 {
			t.Fatalf("%d kinds are remembered", len(l.periods))
		}
	})
}

// TestGateKeepsItsBounds: never more inside than may be, in all and of a host, and nobody is turned away while there is
// room.
func TestGateKeepsItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := Gate{MaxTotal: rapid.IntRange(0, 12).Draw(t, "total"), MaxPerHost: rapid.IntRange(0, 6).Draw(t, "host")}
		inside, all, places := map[netip.Addr]int{}, 0, map[netip.Addr][]*Place{}
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			host := netip.AddrFrom4([4]byte{127, 0, 0, byte(rapid.IntRange(1, 5).Draw(t, "of"))})
			if rapid.Bool().Draw(t, "leaves") {
				if inside[host] > 0 {
					places[host][0].Leave()
					places[host] = places[host][1:]
					inside[host]--
					all--
				}
				continue
			}
			p, err := g.Enter(host, nil)
			free := all < g.MaxTotal && inside[host] < g.MaxPerHost
			var full *fullError
			if (err == nil) != free || err != nil && !errors.As(err, &full) {
				t.Fatalf("%d in all and %d of %v inside: %v", all, inside[host], host, err)
			}
			if err == nil {
				inside[host]++
				all++
				places[host] = append(places[host], p)
			}
		}
		if g.countInside() != all {
			t.Fatalf("%d inside, want %d", g.countInside(), all)
		}
	})
}

// TestGateEvictsWhoYields: whoever comes, yields and leaves, one is turned away only where nobody yields who could make
// room; else the one makes room that came first, of the same host where that has too many.
func TestGateEvictsWhoYields(t *testing.T) {
	type one struct {
		*Place
		host   netip.Addr
		yields bool
	}
	rapid.Check(t, func(t *rapid.T) {
		g := Gate{MaxTotal: rapid.IntRange(0, 8).Draw(t, "total"), MaxPerHost: rapid.IntRange(0, 4).Draw(t, "host")}
		var in []*one // as they came
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			if i := rapid.IntRange(0, 20).Draw(t, "who"); i < len(in) {
				in[i].yields = rapid.Bool().Draw(t, "yields")
				in[i].SetYielding(in[i].yields)
				if rapid.Bool().Draw(t, "leaves") {
					in[i].Leave()
					in = slices.Delete(in, i, i+1)
				}
				continue
			}
			host := netip.Addr{} // has none
			if n := rapid.IntRange(0, 3).Draw(t, "of"); n > 0 {
				host = netip.AddrFrom4([4]byte{127, 0, 0, byte(n)})
			}
			of := func(o *one) bool { return o.host == host }
			same := len(slices.DeleteFunc(slices.Clone(in), func(o *one) bool { return !of(o) }))
			crowded := host.IsValid() && same >= g.MaxPerHost
			full := crowded || len(in) >= g.MaxTotal
			first := slices.IndexFunc(in, func(o *one) bool { return o.yields && (!crowded || of(o)) })
			var out *one
			next := &one{host: host}
			p, err := g.Enter(host, func() { out = next })
			if (err != nil) != (full && first < 0) {
				t.Fatalf("%d inside, %d of %v, %d could make room: %v", len(in), same, host, first, err)
			}
			if err != nil {
				continue
			}
			next.Place = p
			if full {
				if in[first].SetYielding(true) {
					t.Fatalf("the first that yields is still inside")
				}
				in[first].Leave() // changes nothing
				in = slices.Delete(in, first, first+1)
			}
			in = append(in, next)
			if out != nil || g.countInside() != len(in) {
				t.Fatalf("%d inside, want %d; the newcomer is out: %v", g.countInside(), len(in), out != nil)
			}
		}
	})
}

// TestListenerClosesWhatIsTooMuch: connections beyond the bound are closed at once, counted and told seldom; when one
// ends there is room again.
func TestListenerClosesWhatIsTooMuch(t *testing.T) {
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var logged bytes.Buffer
	lis := ListenWith(raw, &Gate{MaxTotal: 8, MaxPerHost: 2}, slog.New(slog.NewTextHandler(&logged, nil)))
	defer lis.Close()
	served := make(chan struct{})
	go func() { // says one letter to each, and ends with it
		defer close(served)
		for {
			c, err := lis.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = c.Write([]byte("x"))
				_, _ = io.Copy(io.Discard, c)
				_ = c.Close()
				_ = c.Close() // counts once
			}()
		}
	}()
	dial := func() (net.Conn, bool) {
		c, err := net.Dial("tcp", raw.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetReadDeadline(time.Now().Add(patiently.LongTimeout))
		_, err = io.ReadFull(c, make([]byte, 1))
		return c, err == nil
	}
	a, in := dial()
	if _, second := dial(); !in || !second {
		t.Fatal("two were not let in")
	}
	for range 20 {
		if _, in := dial(); in {
			t.Fatal("a third was let in")
		}
	}
	_ = a.Close()
	for end := time.Now().Add(patiently.LongTimeout); lis.gate.countInside() > 1 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if _, in := dial(); !in || lis.gate.countInside() != 2 {
		t.Errorf("after one has gone %d are inside, let in: %v", lis.gate.countInside(), in)
	}
	_ = lis.Close()
	patiently.Receive(t, served)
	if n := strings.Count(logged.String(), "msg=\"a connection was closed"); lis.TurnedAway() != 20 || n != 1 {
		t.Errorf("%d turned away, told %d times:\n%s", lis.TurnedAway(), n, logged.String())
	}
}
