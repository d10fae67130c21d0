package tagnet

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"ringlet/tagnet/core"
	"ringlet/testkit/patiently"
)

// Each datagram is one trigger, whatever it holds, also an empty one.
func TestDatagramsAreTriggers(t *testing.T) {
	for name, trigger := range map[string]Trigger{
		"udp":  {Kind: TriggerUDP, Address: "127.0.0.1:0"},
		"unix": {Kind: TriggerUnix, Address: filepath.Join(t.TempDir(), "t")},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := listenTriggers(trigger)
			must(t, err)
			woken, ended := make(chan struct{}, 1), make(chan struct{})
			go func() {
				defer close(ended)
				s.receive(func() { notify(woken) })
			}()
			at := s.conn.(net.Conn).LocalAddr()
			from, err := net.Dial(at.Network(), at.String())
			must(t, err)
			for _, datagram := range []string{"", "x", "a longer one"} {
				_, err := from.Write([]byte(datagram))
				must(t, err)
			}
			var got core.Triggered
			for got.Count < 3 {
				patiently.Receive(t, woken)
				now := s.claim()
				got.Count, got.Lost = got.Count+now.Count, got.Lost+now.Lost
			}
			if got != (core.Triggered{Count: 3}) {
				t.Errorf("received %v", got)
			}
			must(t, from.Close())
			s.close()
			patiently.Receive(t, ended)
			if _, err := os.Lstat(trigger.Address); err == nil {
				t.Error("the socket is still there")
			}
		})
	}
}

// A socket that nobody reads any more is replaced; one that somebody reads, and a file, stay.
func TestTriggerPathInUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t")
	at := Trigger{Kind: TriggerUnix, Address: path}
	left, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	must(t, err)
	if s, err := listenTriggers(at); err == nil {
		s.close()
		t.Fatal("a socket in use is taken")
	}
	must(t, left.Close())
	if _, err := os.Lstat(path); err != nil {
		t.Skip("the socket is gone with its listener")
	}
	s, err := listenTriggers(at)
	must(t, err)
	if info, err := os.Lstat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket is %v, %v", info, err)
	}
	s.close()
	must(t, os.WriteFile(path, nil, 0o600))
	if _, err := listenTriggers(at); err == nil {
		t.Error("a file is replaced")
	}
}
