package quic

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	quicgo "github.com/quic-go/quic-go"

	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
	"ringlet/transport"
)

// TestEndErrorsInOurWords: whatever carries a link, who is told of its end is told by whom and why, and in words that
// need no knowledge of QUIC.
func TestEndErrorsInOurWords(t *testing.T) {
	for _, carrier := range []transport.Carrier{transport.CarrierQUIC, transport.CarrierQUICGo, transport.CarrierStream} {
		t.Run(carrier.String(), func(t *testing.T) {
			ends := endpointsWith(t, nil, withCarrier(carrier))
			must.OK(t, ends[0].ep.Close())
			err := patiently.Receive(t, ends[1].down, "the link is not down")
			var end *endError
			if !errors.As(err, &end) || !end.Remote || !ClosedByPeer(err) ||
				err.Error() != "link to n0 (rank 0) is down: its other end has closed it: done" {
				t.Errorf("told %v", err)
			}
		})
	}
}

// TestWordsSayWhoseEndClosed: a reader never takes the wrong end for the one that closed.
func TestWordsSayWhoseEndClosed(t *testing.T) {
	for want, err := range map[string]error{
		"its other end has closed it: done":                &quicgo.ApplicationError{Remote: true, ErrorMessage: "done"},
		"this end has closed it: the node is closed":       &quicgo.ApplicationError{ErrorMessage: "the node is closed"},
		"its other end has closed it: no reason was given": &quicgo.ApplicationError{Remote: true},
		"nothing has been heard of it for 4s":              &quicgo.ApplicationError{ErrorMessage: silentForPrefix + "4s"},
		"nothing has been heard of it for too long":        &quicgo.IdleTimeoutError{},
		"its other end has closed it, which had heard nothing of this node for 4s": &quicgo.ApplicationError{
			Remote: true, ErrorMessage: silentForPrefix + "4s",
		},
	} {
		if got := translateError(err); got.Error() != want || !errors.Is(got, err) {
			t.Errorf("%v is told as %q, not as %q", err, got, want)
		}
	}
	if other := errors.New("other"); translateError(other).Error() != "other" || translateError(nil) != nil {
		t.Error("what is no end has become one")
	}
	if n := testing.AllocsPerRun(100, func() { _ = translateError(nil) }); n != 0 {
		t.Errorf("%v allocations without an error", n)
	}
}

// TestNobodyAnswersLargePackets: a path that swallows large packets lets no handshake through, and is named.
func TestNobodyAnswersLargePackets(t *testing.T) {
	t.Parallel()
	cfg := configOf(issue(t, "a"))
	cfg.IdleTimeout = 200 * time.Millisecond
	n, b := listen(t, cfg), listen(t, configOf(issue(t, "b")))
	r := newRelay(t, b.Addr().String())
	r.setLimit(1272) // of UDP payload, as an MTU of 1300 has
	_, _, err := n.Dial(within(t), "b", r.front.LocalAddr().String(), []byte("hello"))
	if err == nil || !strings.Contains(err.Error(), "if large packets do not pass between the two hosts") {
		t.Errorf("told %v", err)
	}
}

// TestNobodyAnswers: a port that takes packets and says nothing, and a network that is closed.
func TestNobodyAnswers(t *testing.T) {
	t.Parallel()
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	must.OK(t, err)
	defer silent.Close()
	cfg := configOf(issue(t, "a"))
	cfg.IdleTimeout = 200 * time.Millisecond
	n := listen(t, cfg)
	at := silent.LocalAddr().String()
	if _, _, err := n.Dial(within(t), "b", at, []byte("hello")); err == nil ||
		err.Error() != "no answer from "+at+": check whether b runs, and whether UDP packets reach it there; if large "+
			"packets do not pass between the two hosts while small ones do, ringlet doctor --peer tells which sizes pass" {
		t.Errorf("told %v", err)
	}
	must.OK(t, n.Close())
	if _, _, err := n.Dial(within(t), "b", at, []byte("hello")); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("a closed network says %v", err)
	}
}
