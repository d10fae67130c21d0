package quic

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	quicgo "github.com/quic-go/quic-go"
	"go.uber.org/goleak"

	"ringlet/node/certs"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
	"ringlet/transport"
)

func TestMain(m *testing.M) {
	must.LimitParallel(4, 2)
	goleak.VerifyTestMain(m)
}

// testTimeout is how long a test waits for what must come.
var testTimeout = patiently.LongTimeout

var authority = sync.OnceValues(func() (*certs.CA, error) { return certs.NewCA(time.Hour) })

func issue(t testing.TB, name string) *certs.Identity {
	t.Helper()
	ca, err := authority()
	if err != nil {
		t.Fatal(err)
	}
	id, err := ca.Issue(name, []string{"127.0.0.1"}, certs.RoleNode, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func peerName(s tls.ConnectionState) (string, error) {
	p, err := certs.PeerIdentity(s)
	return p.Name, err
}

func configOf(id *certs.Identity) Config {
	return Config{
		Addr:      "127.0.0.1:0",
		ServerTLS: id.Server(),
		ClientTLS: id.Client,
		PeerName:  peerName,
	}
}

func listen(t testing.TB, cfg Config) *Network {
	t.Helper()
	n, err := Listen(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	t.Cleanup(cancel)
	return ctx
}

// connectPair makes a connection from a to b.
func connectPair(t testing.TB, a, b *Network, name string) (atA, atB transport.Conn) {
	t.Helper()
	ctx := within(t)
	accepted := make(chan transport.Conn, 1)
	go func() {
		defer close(accepted)
		in, err := b.Accept(ctx)
		if err != nil {
			t.Error(err)
			return
		}
		if string(in.Hello()) != "hello of "+in.Peer() {
			t.Errorf("%s says %q", in.Peer(), in.Hello())
		}
		c, err := in.Answer([]byte("answer"))
		if err != nil {
			t.Error(err)
			return
		}
		accepted <- c
	}()
	atA, answer, err := a.Dial(ctx, name, b.Addr().String(), []byte("hello of a"))
	if err != nil || string(answer) != "answer" {
		t.Fatalf("answer %q, %v", answer, err)
	}
	if atB = patiently.Receive(t, accepted); atB == nil {
		t.FailNow()
	}
	return atA, atB
}

// eventually waits for what a counter must come to.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(testTimeout); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func TestDatagramsGoBothWays(t *testing.T) {
	a, b := listen(t, configOf(issue(t, "a"))), listen(t, configOf(issue(t, "b")))
	ca, cb := connectPair(t, a, b, "b")
	if ca.Peer() != "b" || cb.Peer() != "a" || ca.MaxDatagram() != cb.MaxDatagram() || ca.MaxDatagram() < 1200 {
		t.Errorf("%q and %q, %d and %d bytes", ca.Peer(), cb.Peer(), ca.MaxDatagram(), cb.MaxDatagram())
	}
	full := bytes.Repeat([]byte("x"), ca.MaxDatagram())
	for _, direction := range [][2]transport.Conn{{ca, cb}, {cb, ca}} {
		if err := direction[0].Send(full); err != nil {
			t.Fatal(err)
		}
		batch := make([][]byte, 4)
		if n, err := direction[1].Recv(batch); err != nil || n != 1 || !bytes.Equal(batch[0], full) {
			t.Errorf("%d datagrams, %v", n, err)
		}
	}
	if err := ca.Send(append(full, 'x')); err == nil {
		t.Error("a datagram that does not fit was taken")
	}
	if err := cb.Close("enough"); err != nil {
		t.Error(err)
	}
	var app *quicgo.ApplicationError
	if _, err := ca.Recv(make([][]byte, 1)); !errors.As(err, &app) || app.ErrorMessage != "enough" {
		t.Errorf("the peer learnt %v", err)
	}
}

// TestTakingWithoutWaiting holds what conn.Recv relies on in this version of quic-go: a context that is done, but has
// no error, takes a datagram that is there and returns nothing when none is, again and again.
func TestTakingWithoutWaiting(t *testing.T) {
	a, b := listen(t, configOf(issue(t, "a"))), listen(t, configOf(issue(t, "b")))
	ca, cb := connectPair(t, a, b, "b")
	qc := cb.(*conn).qc
	const total = 20
	for i := range byte(total) {
		if err := ca.Send([]byte{i}); err != nil {
			t.Fatal(err)
		}
	}
	got := 0
	eventually(t, "all datagrams", func() bool {
		for range 3 {
			d, err := qc.ReceiveDatagram(doneContext{})
			if err != nil {
				t.Fatalf("taking without waiting: %v", err)
			}
			if d != nil {
				got++
			}
		}
		return got == total
	})
	done := make(chan error, 1)
	go func() { _, err := qc.ReceiveDatagram(context.Background()); done <- err }()
	if err := ca.Send([]byte("last")); err != nil {
		t.Fatal(err)
	}
	if err := patiently.Receive(t, done); err != nil {
		t.Errorf("waiting after it: %v", err)
	}
	_ = ca.Close("done")
	patiently.Receive(t, qc.Context().Done())
	if d, err := qc.ReceiveDatagram(doneContext{}); d != nil || err == nil && qc.Context().Err() == nil {
		t.Errorf("after the end: %q, %v", d, err)
	}
	if _, err := cb.Recv(make([][]byte, 2)); err == nil {
		t.Error("Recv did not see the end")
	}
}

// TestRefusalsAreTyped: the code and words of Refuse reach the dialler.
func TestRefusalsAreTyped(t *testing.T) {
	a, b := listen(t, configOf(issue(t, "a"))), listen(t, configOf(issue(t, "b")))
	go func() {
		if in, err := b.Accept(within(t)); err == nil {
			in.Refuse(transport.RefuseView, "another view")
		}
	}()
	_, _, err := a.Dial(within(t), "b", b.Addr().String(), []byte("hello of a"))
	var refused *transport.PeerRefusedError
	if !errors.As(err, &refused) || *refused != (transport.PeerRefusedError{Peer: "b", Code: transport.RefuseView,
		Reason: "another view"}) {
		t.Errorf("%v", err)
	}
}

func TestLongHelloIsRefused(t *testing.T) {
	a, b := listen(t, configOf(issue(t, "a"))), listen(t, configOf(issue(t, "b")))
	_, _, err := a.Dial(within(t), "b", b.Addr().String(), make([]byte, maxHello+1))
	var refused *transport.PeerRefusedError
	if !errors.As(err, &refused) || refused.Code != transport.RefuseHello ||
		!strings.Contains(refused.Reason, "1025 bytes long") {
		t.Errorf("%v", err)
	}
	if s := b.Stats(); s.HellosRefused != 1 || s.HandshakesRefused != 0 {
		t.Errorf("%+v", s)
	}
}

// TestSilentPeersHoldUpNobody: as many as are greeted at once but one never say hello, and another peer gets in at
// once.
func TestSilentPeersHoldUpNobody(t *testing.T) {
	cfg := configOf(issue(t, "b"))
	cfg.IdleTimeout = time.Hour // until the end of the test
	a, b := listen(t, configOf(issue(t, "a"))), listen(t, cfg)
	for range maxGreeters - 1 {
		client := issue(t, "silent").Client("b")
		client.NextProtos = []string{protocolName}
		qc, err := a.tr.Dial(within(t), b.Addr(), client, a.quicConfig())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = qc.CloseWithError(0, "") })
	}
	connectPair(t, a, b, "b")
}

func TestPeerThatNeverSaysHelloIsPutOut(t *testing.T) {
	t.Parallel()
	cfg := configOf(issue(t, "b"))
	cfg.IdleTimeout = briefIdle
	a, b := listen(t, configOf(issue(t, "a"))), listen(t, cfg)
	client := issue(t, "silent").Client("b")
	client.NextProtos = []string{protocolName}
	qc, err := a.tr.Dial(within(t), b.Addr(), client, a.quicConfig())
	if err != nil {
		t.Fatal(err)
	}
	patiently.Receive(t, qc.Context().Done())
	var app *quicgo.ApplicationError
	if err := context.Cause(qc.Context()); !errors.As(err, &app) ||
		transport.RefuseCode(app.ErrorCode) != transport.RefuseHello {
		t.Errorf("put out with %v", err)
	}
	eventually(t, "the count", func() bool { return b.Stats().HellosRefused == 1 })
}

func TestAcceptEnds(t *testing.T) {
	n := listen(t, configOf(issue(t, "a")))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := n.Accept(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	done := make(chan error, 1)
	go func() { _, err := n.Accept(context.Background()); done <- err }()
	if err := n.Close(); err != nil {
		t.Error(err)
	}
	if err := patiently.Receive(t, done); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	if _, _, err := n.Dial(within(t), "b", "127.0.0.1:1", nil); err == nil {
		t.Error("dialled from a closed network")
	}
}

func TestBadAddressesAreNamed(t *testing.T) {
	for _, addr := range []string{"nowhere", "127.0.0.1:x", "192.0.2.1:0"} {
		cfg := configOf(issue(t, "a"))
		cfg.Addr = addr
		if n, err := Listen(cfg); err == nil {
			_ = n.Close()
			t.Errorf("listening on %q", addr)
		} else if !strings.Contains(err.Error(), addr) {
			t.Errorf("%q: %v", addr, err)
		}
	}
}

// briefIdle is a short time for which the silent are believed to live. In a sixth of it somebody who lives is heard of,
// and that must be so where both cores are busy.
const briefIdle = 2 * time.Second

// dyingPair are the ends of a connection whose second end can die as a process does: it says nothing any more. The
// first one is told its idle time-out before it dials, the second one when it has accepted.
func dyingPair(t *testing.T) (ca, cb transport.Conn, die func()) {
	t.Helper()
	a := listen(t, configOf(issue(t, "a")))
	b, err := Listen(configOf(issue(t, "b")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() }) // complains that its socket is closed
	a.SetIdleTimeout(briefIdle)
	ca, cb = connectPair(t, a, b, "b")
	b.SetIdleTimeout(briefIdle)
	return ca, cb, func() { _ = b.sock.Close() } // all that b has left to say is lost
}

// isSilenceError tells that a connection has ended since nothing was heard of its peer.
func isSilenceError(err error) bool {
	var end *endError
	return errors.As(err, &end) && !end.Remote && strings.HasPrefix(end.Error(), silentForPrefix)
}

// TestDeadPeerIsNoticed: a process that dies says nothing; its silence ends the connection.
func TestDeadPeerIsNoticed(t *testing.T) {
	t.Parallel()
	ca, cb, die := dyingPair(t)
	time.Sleep(5 * briefIdle / 4) // more than the time-out without a datagram: the living are not taken for dead
	if err := ca.Send([]byte("alive")); err != nil {
		t.Fatal(err)
	}
	if _, err := cb.Recv(make([][]byte, 1)); err != nil {
		t.Fatal(err)
	}
	die()
	if _, err := ca.Recv(make([][]byte, 1)); !isSilenceError(err) {
		t.Errorf("the peer's death shows as %v", err)
	}
}
