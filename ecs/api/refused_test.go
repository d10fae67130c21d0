package api

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"ringlet/internal/connlimit"
	"ringlet/testkit/patiently"
)

// Connections that are turned away are counted for each service; where there is no page, there is no count of it.
func TestRefusedConnectionsAreCounted(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{apiListener: connlimit.ListenWith(lis, &connlimit.Gate{MaxTotal: 1, MaxPerHost: 1},
		slog.New(slog.DiscardHandler))}
	var open []net.Conn
	for range 3 {
		c, err := net.Dial("tcp", lis.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, c)
	}
	first, err := s.apiListener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan struct{})
	go func() {
		defer close(accepted)
		_, _ = s.apiListener.Accept() // until the listener is closed
	}()
	for _, c := range open[1:] { // both are closed by the other side
		_ = c.SetReadDeadline(time.Now().Add(patiently.LongTimeout))
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("more are served than may be")
		}
	}
	if err := lis.Close(); err != nil {
		t.Error(err)
	}
	patiently.Receive(t, accepted)
	if got := s.Refused(); len(got) != 1 || got[serviceAPI] != 2 {
		t.Errorf("refused: %v", got)
	}
	for _, c := range append(open, first) {
		_ = c.Close()
	}
}
