package frames

import (
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ringlet/source/live"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

const (
	fullAt   = maxQueuedFragments // small events fill a store
	someMore = 200                // events, which the kernel keeps
)

// openAny opens a feed that lets newcomers wait for so long, and returns what dials it.
func openAny(t *testing.T, network string, yield time.Duration) (*feed, func() *peer) {
	t.Helper()
	address, open := "127.0.0.1:0", OpenTCP
	if network == "unix" {
		address, open = filepath.Join(t.TempDir(), "feed"), OpenUnix
	}
	got, err := open(t.Context(), settings(address))
	must.OK(t, err)
	t.Cleanup(func() { must.OK(t, got.Close()) })
	f := got.(*feed)
	f.takeoverTimeout = yield
	return f, func() *peer {
		c, err := net.Dial(network, f.Addr())
		must.OK(t, err)
		t.Cleanup(func() { _ = c.Close() })
		p := &peer{c, t}
		p.send(appendHello(nil, plain))
		return p
	}
}

// full says that the feed has no room.
func full(t *testing.T, f *feed) {
	t.Helper()
	await(t, f, "full", func(s live.Stats) bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return s.Fragments == fullAt && f.session != nil && f.session.storeFull.Load()
	})
}

// TestDeadWhileFull: a front-end that dies while there is no room is let in again, although nothing is taken meanwhile.
// What it has sent in vain comes again. Its kernel has the end of its data behind what cannot be sent, or has it told.
func TestDeadWhileFull(t *testing.T) {
	const n = 200_000 // more than the store, and the kernel's buffers, can have
	for _, c := range []struct {
		network string
		reset   bool
	}{{"tcp", false}, {"tcp", true}, {"unix", false}} {
		name := c.network
		if c.reset {
			name += ", reset"
		}
		t.Run(name, func(t *testing.T) {
			f, dial := openAny(t, c.network, 0)
			p := dial()
			p.answer()
			died := make(chan error, 1)
			go func() {
				_, err := p.Write(events(0, n))
				died <- err
			}()
			full(t, f)
			if c.reset {
				must.OK(t, p.Conn.(*net.TCPConn).SetLinger(0))
			}
			must.OK(t, p.Close())
			if patiently.Receive(t, died, "it writes on") == nil {
				t.Fatal("all was sent: nothing held the front-end up")
			}
			p = dial()
			a := p.answer()
			for until := time.Now().Add(patiently.LongTimeout); a.Code == codeBusy && time.Now().Before(until); a = p.answer() {
				p.closed()
				must.OK(t, p.Close())
				p = dial() // as the clients do
			}
			if a.Code != codeAccepted || a.A != fullAt {
				t.Fatalf("%+v", a)
			}
			go func() {
				_, err := p.Write(append(events(a.A, n), endFrame(n)...))
				died <- err
			}()
			collect(t, f, 0, n)
			ended(t, f)
			must.OK(t, patiently.Receive(t, died, "the second one could not send"))
			if s := f.Stats(); s.Fragments != n || s.Repeated != 0 || s.FrontendsGone != 1 || s.FrontendsAttached != 2 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestAliveWhileFull: a front-end that waits for room, and one that has sent all and waits until it is safe, live. Both
// stay, and lose nothing by one that comes.
func TestAliveWhileFull(t *testing.T) {
	const n = fullAt + someMore
	for _, network := range []string{"tcp", "unix"} {
		for name, closes := range map[string]bool{"open": false, "half": true} {
			t.Run(network+", "+name, func(t *testing.T) {
				f, dial := openAny(t, network, 0)
				p := dial()
				p.answer()
				p.send(append(events(0, n), endFrame(n)...))
				full(t, f)
				if closes {
					must.OK(t, p.Conn.(frontendConn).CloseWrite())
				}
				q := dial()
				if a := q.answer(); a.Code != codeBusy {
					t.Fatalf("%+v", a)
				}
				q.closed()
				if a := p.answer(); a.Code != codeAcknowledged || a.A != 0 {
					t.Errorf("it is asked whether it lives with %+v", a)
				}
				f.SetSafeBelow(n)
				collect(t, f, 0, n)
				ended(t, f)
				a := p.answer()
				if a.Code == codeEndReceived { // which is told before or behind it
					a = p.answer()
				}
				if a.Code != codeAcknowledged || a.A != n {
					t.Errorf("%+v", a)
				}
			})
		}
	}
}

// TestClosedWhileFull: a front-end that has sent all and closes, waiting for nothing, loses nothing; and one that comes
// meanwhile is let in when all is read.
func TestClosedWhileFull(t *testing.T) {
	const n = fullAt + someMore
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			f, dial := openAny(t, network, patiently.LongTimeout)
			p := dial()
			p.answer()
			p.send(events(0, n))
			full(t, f)
			must.OK(t, p.Close())
			q := dial()
			answered := make(chan answer, 1)
			go func() { answered <- q.answer() }()
			collect(t, f, 0, n)
			if a := patiently.Receive(t, answered, "it is not let in"); a.Code != codeAccepted || a.A != n {
				t.Errorf("%+v", a)
			}
			q.send(endFrame(n))
			ended(t, f)
			if s := f.Stats(); s.Fragments != n || s.Repeated != 0 || s.RefusedMessages != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestNewcomerOfAClosedFeed: a feed is closed while newcomers wait for a connection that is dead.
func TestNewcomerOfAClosedFeed(t *testing.T) {
	f, dial := openAny(t, "unix", patiently.LongTimeout)
	p := dial()
	p.answer()
	p.send(events(0, fullAt+someMore))
	full(t, f)
	must.OK(t, p.Close())
	q, r := dial(), dial()
	must.OK(t, f.Close())
	for _, p := range []*peer{q, r} {
		must.OK(t, p.SetReadDeadline(time.Now().Add(patiently.LongTimeout)))
		if b, err := io.ReadAll(p); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%x, %v", b, err)
		}
	}
}
