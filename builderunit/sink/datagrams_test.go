package sink

import (
	"bytes"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"ringlet/event"
	"ringlet/event/ejfat"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// listening is a UDP socket on a port of its own.
func listening(t *testing.T) *net.UDPConn {
	t.Helper()
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must.OK(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func received(t *testing.T, conn *net.UDPConn) []byte {
	t.Helper()
	must.OK(t, conn.SetReadDeadline(time.Now().Add(patiently.LongTimeout)))
	b := make([]byte, 1<<16)
	n, err := conn.Read(b)
	must.OK(t, err)
	return b[:n]
}

// TestDatagrams puts what was sent together again: each event is the MDF record that a file would have.
func TestDatagrams(t *testing.T) {
	at, sync := listening(t), listening(t)
	s, err := openDatagrams(Settings{
		Segments: SegmentsConfig{Builder: 5},
		Output:   "udp:" + at.LocalAddr().String() + "?mtu=600&sync=" + sync.LocalAddr().String(),
	})
	must.OK(t, err)
	d := s.(*Datagrams)
	p := testPattern(t)
	var want bytes.Buffer
	var file stream
	var segments int
	for k := range uint64(3) {
		m, mep := buildMEP(t, p, k, testPacking, int(k))
		must.OK(t, d.Write(t.Context(), m, mep))
		var e encoder
		must.OK(t, e.parse(m, mep))
		e.beginEvents()
		for i := range m.Events {
			id := m.FirstEvent + uint64(i)
			file.buf = file.buf[:0]
			_, err := e.appendRecord(&file, m, id)
			must.OK(t, err)
			must.OK(t, event.SealRecords(file.buf))
			want.Write(file.buf)
			got := make([]byte, len(file.buf))
			for have := 0; have < len(got); segments++ {
				packet := received(t, at)
				s, err := ejfat.ParseSegment(packet)
				must.OK(t, err)
				if s.DataID != 5 || s.Event != id || int(s.Length) != len(got) || len(packet) > 600-48 {
					t.Fatalf("packet of %d bytes: %+v", len(packet), s)
				}
				have += copy(got[s.Offset:], s.Data)
			}
			if !bytes.Equal(got, file.buf) {
				t.Fatalf("event %d is another one", id)
			}
		}
	}
	message, err := ejfat.ParseSync(received(t, sync))
	if must.OK(t, err); message.Source != 5 || message.Event != testPacking-1 || message.Time == 0 {
		t.Errorf("%+v", message)
	}
	result, err := s.Finish()
	must.OK(t, err)
	if result.MEPs != 3 || result.Events != 3*testPacking || result.Bytes != uint64(want.Len()) {
		t.Errorf("%+v, and %d bytes were sent", result, want.Len())
	}
	if got := d.Stats(); got != (DatagramStats{SentSegments: uint64(segments), SentSyncs: 1}) {
		t.Errorf("%+v, %d segments came", got, segments)
	}
	_, err = s.Finish()
	if must.OK(t, s.Abort()); !errors.Is(err, errClosed) || !errors.Is(s.Write(t.Context(), Meta{}, nil), errClosed) {
		t.Errorf("after the end: %v", err)
	}
}

// TestNobodyListens goes on where no process has the port: UDP promises nothing.
func TestNobodyListens(t *testing.T) {
	at := listening(t)
	s, err := openDatagrams(Settings{Output: "udp:" + at.LocalAddr().String()})
	must.OK(t, err)
	defer func() { must.OK(t, s.Abort()) }()
	must.OK(t, at.Close())
	p := testPattern(t)
	for k := uint64(0); s.(*Datagrams).Stats().ConnRefusals == 0; k++ {
		m, mep := buildMEP(t, p, k, testPacking, 0)
		must.OK(t, s.Write(t.Context(), m, mep))
	}
}

func TestDestinations(t *testing.T) {
	for output, want := range map[string]string{
		"udp:host":                "has no port",
		"udp:h:1?mtu=100":         `mtu "100" is not a number from 576 to 65535`,
		"udp:h:1?mtu=x":           `mtu "x" is not`,
		"udp:h:1?sync=h":          "sync: ",
		"udp:h:1?speed=1":         `"speed" is unknown`,
		"udp:h:1?mtu=1500;sync=x": "semicolon",
	} {
		err := checkDestination(output)
		var typed *destinationError
		if !errors.As(err, &typed) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", output, err)
		}
	}
	must.OK(t, checkDestination("udp:[::1]:19522?mtu=9000&sync=host:19523"))
}
