package address

import (
	"context"
	"net/netip"
	"strings"
	"testing"
)

func TestAddressesAreChecked(t *testing.T) {
	for text, good := range map[string]bool{
		"127.0.0.1:1": true, ":7000": true, "[::1]:0": true, "host-1.lan:65535": true, "0.0.0.0:7": true,
		"127.0.0.1": false, "127.0.0.1:": false, "127.0.0.1:99999": false, "127.0.0.1:010": false, "h:0x10": false,
		"h:http": false, "::1:7": false, " h:1": false, "h:1 ": false, "10.0.0.256:1": false, "010.0.0.1:1": false,
		"h_st..x:1": false, "h/x:1": false, "0:1": false,
	} {
		if err := CheckListen(text); (err == nil) != good {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{":1", "0.0.0.0:1", "[::]:1", "h:0", "[::ffff:0.0.0.0]:1"} {
		if CheckDial(text) == nil {
			t.Errorf("%q could be called", text)
		}
	}
	if err := CheckHost("[::1]"); err == nil || !strings.Contains(err.Error(), "brackets") {
		t.Errorf("a host in brackets: %v", err)
	}
}

func TestClaims(t *testing.T) {
	for _, c := range []struct {
		a, b  string
		clash bool
	}{
		{"127.0.0.1:1", "127.0.0.1:1", true}, {"0.0.0.0:1", "127.0.0.1:1", true}, {":1", "[::1]:1", true},
		{"[::]:1", "127.0.0.1:1", false}, {"127.0.0.1:1", "127.0.0.2:1", false}, {"h:1", "h:2", false},
		{"h:0", "h:0", false},
	} {
		if got := ListenerClaim("tcp", c.a).ConflictsWith(ListenerClaim("tcp", c.b)); got != c.clash {
			t.Errorf("%s and %s: %v", c.a, c.b, got)
		}
	}
}

func TestNoMoreIsBoundThanNamed(t *testing.T) {
	before := lookup
	defer func() { lookup = before }()
	lookup = func(_ context.Context, host string) ([]netip.Addr, error) {
		return map[string][]netip.Addr{
			"all":  {netip.MustParseAddr("0.0.0.0")},
			"own":  {netip.MustParseAddr("127.0.1.1")},
			"two":  {netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("10.1.2.3")},
			"here": nil,
		}[host], nil
	}
	for text, want := range map[string]string{
		"0.0.0.0:7": "tcp4 0.0.0.0:7", "[::]:7": "tcp6 [::]:7", ":7": "tcp :7", "two:7": "tcp 10.1.2.3:7", "all:7": "",
		"here:7": "",
	} {
		network, at, err := bindAddress(t.Context(), "tcp", text)
		if got := network + " " + at; (err != nil) != (want == "") || err == nil && got != want {
			t.Errorf("%s binds %s, %v", text, got, err)
		}
	}
	for host, want := range map[string]string{"two": "10.1.2.3", "10.0.0.1": "10.0.0.1", "own": "", "all": "", "": "",
		"0.0.0.0": "", "::": ""} {
		if got, err := ResolveLocal(t.Context(), host); (err != nil) != (want == "") || got != want {
			t.Errorf("the host %q is %q, %v", host, got, err)
		}
	}
}
