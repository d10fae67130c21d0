package testbed

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ringlet/testkit/patiently"
)

// newBed makes a bed of slow ports: what is tested must not depend on how fast this machine is.
func newBed(t *testing.T, s Spec) *Bed {
	t.Helper()
	if err := CheckPossible(); err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	if err := s.Complete(); err != nil {
		t.Fatal(err)
	}
	b, err := New(s)
	if err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// eventually waits for something that must come, however busy the machine is.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patiently.LongTimeout); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// socket is a UDP socket on a host.
func socket(t *testing.T, b *Bed, host int) *net.UDPConn {
	t.Helper()
	var c *net.UDPConn
	if err := b.hostNS[host].Do(func() (err error) {
		c, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP(b.Address(host)), Port: 9})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func ports(t *testing.T, b *Bed) []Port {
	t.Helper()
	return counted(t, b).ports
}

func counted(t *testing.T, b *Bed) counters {
	t.Helper()
	c, err := b.counters()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// flood sends from each of the sockets as fast as they take it, until the test ends it.
func flood(t *testing.T, to *net.UDPConn, size int, from ...*net.UDPConn) (end func()) {
	t.Helper()
	var ends []chan struct{}
	for _, c := range from {
		ended := make(chan struct{})
		ends = append(ends, ended)
		go func() {
			defer close(ended)
			for packet := make([]byte, size); ; {
				if _, err := c.WriteTo(packet, to.LocalAddr()); err != nil {
					return
				}
			}
		}()
	}
	end = func() {
		for i, c := range from {
			_ = c.SetWriteDeadline(time.Now())
			patiently.Receive(t, ends[i])
		}
	}
	t.Cleanup(end)
	return end
}

// TestIncastHurts: where two send to one, its port drops; where one sends, the sender waits and nothing is lost.
func TestIncastHurts(t *testing.T) {
	b := newBed(t, Spec{Hosts: 4, Rate: 10e6, Queue: 8 << 10})
	c := []*net.UDPConn{socket(t, b, 0), socket(t, b, 1), socket(t, b, 2), socket(t, b, 3)}
	endAlone := flood(t, c[3], 1000, c[2])
	end := flood(t, c[0], 1000, c[1])
	eventually(t, "packets pass",
		func() bool { return ports(t, b)[0].ToHost.Packets > 200 && ports(t, b)[3].ToHost.Packets > 200 })
	endAlone()
	before := ports(t, b)
	if before[0].ToHost.Dropped != 0 || before[3].ToHost.Dropped != 0 {
		t.Errorf("the port of a lone flow dropped: %+v", before)
	}
	_ = c[2].SetWriteDeadline(time.Time{})
	flood(t, c[0], 1000, c[2])
	eventually(t, "the port drops", func() bool { return ports(t, b)[0].ToHost.Dropped > 0 })
	end()
	for _, p := range ports(t, b) {
		if p.FromHost.Dropped != 0 || p.Host != "n0" && p.ToHost.Dropped != 0 {
			t.Errorf("%+v dropped", p)
		}
	}
}

// TestBatchesAreCut: what a sender hands over in one call as a batch crosses the switch as packets.
func TestBatchesAreCut(t *testing.T) {
	b := newBed(t, Spec{Hosts: 2, Rate: 10e9, Queue: 1 << 20}) // buckets of which a whole batch takes a part
	from, to := socket(t, b, 0), socket(t, b, 1)
	raw, err := from.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if e := raw.Control(
		func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_UDP, unix.UDP_SEGMENT, 1472) }); e != nil ||
		err != nil {
		t.Skipf("SKIPPED: no UDP GSO here: %v, %v", e, err)
	}
	const segments = 40
	if _, err := from.WriteTo(make([]byte, segments*1472), to.LocalAddr()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all packets pass", func() bool { return ports(t, b)[1].ToHost.Packets >= segments })
	out, err := b.switchNS.Run("", "ip", "-s", "-j", "link", "show", "dev", "n0")
	if err != nil {
		t.Fatal(err)
	}
	var seen []struct {
		Stats struct {
			RX struct{ Packets int } `json:"rx"`
		} `json:"stats64"`
	}
	if err := json.Unmarshal(out, &seen); err != nil || len(seen) != 1 || seen[0].Stats.RX.Packets < segments {
		t.Errorf("the switch took in %+v, %v: not %d packets", seen, err, segments)
	}
}

// TestSlowedPortMovesOn: batches that wait in a port when it is slowed, larger than the bucket of its new rate, do not
// block it for ever.
func TestSlowedPortMovesOn(t *testing.T) {
	b := newBed(t, Spec{Hosts: 2, Rate: 50e6})
	from, to := socket(t, b, 1), socket(t, b, 0)
	raw, err := from.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	const segment, batch = 1472, 10
	if e := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_UDP, unix.UDP_SEGMENT, segment)
	}); e != nil || err != nil {
		t.Skipf("SKIPPED: no UDP GSO here: %v, %v", e, err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for err := error(nil); err == nil; {
			_, err = from.WriteTo(make([]byte, batch*segment), to.LocalAddr())
		}
	}()
	defer func() { _ = from.SetWriteDeadline(time.Now()); patiently.Receive(t, ended) }()
	eventually(t, "batches wait in the port", func() bool { return ports(t, b)[0].ToHost.Packets > 5*batch })
	if err := b.Disturb(Disturbance{Host: "n1", Action: actSlow, Rate: 5e6}); err != nil {
		t.Fatal(err)
	}
	before := ports(t, b)[0].ToHost.Packets
	eventually(t, "packets pass", func() bool { return ports(t, b)[0].ToHost.Packets > before+5*batch })
}

// TestNobodyAsks: hosts and switch know where everybody is, also after a cut, so that no packet is flooded and none
// waits for an answer.
func TestNobodyAsks(t *testing.T) {
	b := newBed(t, Spec{Hosts: 3})
	if err := errors.Join(b.Disturb(Disturbance{Action: actCut, Host: "n1"}),
		b.Disturb(Disturbance{Action: actRestore, Host: "n1"})); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Goodput(t.Context(), 50*time.Millisecond, Flow{0, 1}, Flow{1, 0}); err != nil {
		t.Error(err)
	}
	if p := ports(t, b)[2]; p.ToHost.Packets != 0 || p.FromHost.Packets != 0 {
		t.Errorf("who has nothing to do with it saw %+v", p)
	}
	for _, n := range b.namespaces()[1:] {
		out, err := n.Run("", "ip", "neigh", "show")
		if err != nil || strings.Count(string(out), "PERMANENT") != 4 || strings.Count(string(out), "\n") != 4 {
			t.Errorf("%s, %v", out, err)
		}
	}
}

// TestPortsObey: no port is faster than it should be, and one that is cut lets nothing through.
func TestPortsObey(t *testing.T) {
	b := newBed(t, Spec{Hosts: 3, Rate: 20e6, Ports: Rates{"n2": 5e6}})
	const d = 300 * time.Millisecond
	measure := func(most float64, f Flow) {
		t.Helper()
		got, err := b.Goodput(t.Context(), d, f)
		for n := 0; err == nil && got[0] == 0 && n < 20; n++ { // nobody had a processor in that time
			got, err = b.Goodput(t.Context(), d, f)
		}
		// what the buckets hold is on top
		if err != nil || got[0] <= 0 || got[0] > most*1.1+8*float64(2*b.spec.hostBurst(Rate(most)))/d.Seconds() {
			t.Errorf("%v: %v, %v where %v are the most", f, got, err, most)
		}
	}
	do := func(text string) {
		t.Helper()
		var dist Disturbance
		err := dist.UnmarshalText([]byte(text))
		if err == nil {
			err = b.Disturb(dist)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	measure(20e6, Flow{0, 1})
	measure(5e6, Flow{0, 2})
	measure(5e6, Flow{2, 0})
	do("0s:slow:n1:2Mbit")
	measure(2e6, Flow{0, 1})
	measure(2e6, Flow{1, 0})
	do("0s:restore:n1")
	measure(20e6, Flow{0, 1})

	from, to := socket(t, b, 0), socket(t, b, 1)
	arrives := func() bool {
		_, _ = from.WriteTo([]byte("x"), to.LocalAddr())
		_ = to.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		_, _, err := to.ReadFrom(make([]byte, 9))
		return err == nil
	}
	eventually(t, "a packet arrives", arrives)
	do("0s:cut:n1")
	for arrives() { // what was on its way
	}
	if arrives() {
		t.Error("a packet arrives through a cut cable")
	}
	do("0s:slow:n1:5Mbit") // what is cut stays cut
	if arrives() {
		t.Error("a packet arrives through a cut cable that was slowed")
	}
	do("0s:restore:n1")
	eventually(t, "a packet arrives again", arrives)
	if _, err := b.Goodput(t.Context(), d, Flow{0, 3}); err == nil {
		t.Error("a flow to a host that there is not")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Goodput(ctx, time.Hour, b.ShiftFlows(1)...); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestHold: another process finds the bed by its name, and takes it down.
func TestHold(t *testing.T) {
	if err := CheckPossible(); err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	name := strings.ToLower(t.Name()) + time.Now().Format("150405.000000000")
	var none *NotUpError
	if _, err := Attach(name); !errors.As(err, &none) {
		t.Errorf("%v", err)
	}
	if err := TakeDown(name); !errors.As(err, &none) {
		t.Errorf("%v", err)
	}
	bed := newBed(t, Spec{Hosts: 2, Rate: 7e6, Ports: Rates{"n1": 3e6}})
	h, err := ClaimName(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ClaimName(name); err == nil || !strings.Contains(err.Error(), "is up already") {
		t.Errorf("%v", err)
	}
	over, said := make(chan error, 1), make(chan string, 9)
	go func() { over <- h.Hold(t.Context(), bed, func(s string) { said <- s }) }()
	c, err := query(name, "who are you")
	if err != nil {
		t.Fatal(err)
	}
	if s := patiently.Receive(t, said); !strings.Contains(s, `the request "who are you" is unknown`) {
		t.Error(s)
	}
	_ = c.Close()
	b, err := Attach(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Disturb(Disturbance{Action: actSlow, Host: "n0", Rate: 5e6}); err != nil {
		t.Error(err)
	}
	if p := ports(t, b); len(p) != 2 || p[1].RateBps != 3e6 || p[0].RateBps != 7e6 || b.Spec().MTU != 1500 {
		t.Errorf("%+v, %+v", p, b.Spec())
	}
	out, err := bed.switchNS.Run("", "tc", "qdisc", "show", "dev", "n0")
	if err != nil || !strings.Contains(string(out), "rate 5Mbit") {
		t.Errorf("%s, %v", out, err)
	}
	if err := errors.Join(b.Close(), TakeDown(name), patiently.Receive(t, over)); err != nil {
		t.Error(err)
	}
	_ = h.Close()
	if err := TakeDown(name); !errors.As(err, &none) {
		t.Errorf("%v", err)
	}
}

func TestNames(t *testing.T) {
	for _, bad := range []string{"", "a b", "a/b", "ä", strings.Repeat("x", 65)} {
		if CheckName(bad) == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	if err := CheckName(DefaultName); err != nil {
		t.Error(err)
	}
}

func TestDisturbances(t *testing.T) {
	for text, want := range map[string]string{
		"2s:cut:n3":              "2s:cut:n3",
		"0s:restore:n0":          "0s:restore:n0",
		"1500ms:slow:n2:5e1Mbit": "1.5s:slow:n2:50Mbit",
		"cut:n3":                 "!does not begin with a time",
		"-1s:cut:n3":             "!does not begin with a time",
		"1s:cut":                 "!is not TIME:cut:HOST",
		"1s:cut:n3:1Mbit":        "!cut has no rate",
		"1s:slow:n3":             "!slow needs the rate",
		"1s:slow:n3:fast":        `!rate "fast"`,
		"1s:bend:n3":             `!"bend" is no action`,
		"1s:slow:n3:1Mbit:x":     "!is not TIME:cut:HOST",
	} {
		var d Disturbance
		err := d.UnmarshalText([]byte(text))
		if why, bad := strings.CutPrefix(want, "!"); bad != (err != nil) || bad && !strings.Contains(err.Error(), why) ||
			!bad && d.String() != want {
			t.Errorf("%q: %v, %v", text, d, err)
		}
	}
	s := Spec{Hosts: 2}
	var none *hostError
	if err := s.Check(Disturbance{Action: actCut, Host: "n2"}); !errors.As(err, &none) {
		t.Errorf("%v", err)
	}
	if err := s.Check(Disturbance{Action: actSlow, Host: "n1", Rate: 1}); err == nil {
		t.Error("a rate of 1 bit/s is taken")
	}
}

// TestDisturbAll: in the order of time, until the run is over; what comes later is not done, and said.
func TestDisturbAll(t *testing.T) {
	b := newBed(t, Spec{Hosts: 1})
	ctx, cancel := context.WithCancel(t.Context())
	var messages []string
	done := b.disturbAll(ctx, time.Now(), []Disturbance{
		{At: time.Hour, Action: actCut, Host: "n0"},
		{At: 2 * time.Millisecond, Action: actRestore, Host: "n0"},
		{At: time.Millisecond, Action: actSlow, Host: "n0", Rate: 5e6},
	}, func(s string) {
		if messages = append(messages, s); len(messages) == 2 {
			cancel()
		}
	})
	cancel()
	whats := []string{done[0].Disturbance.Action, done[1].Disturbance.Action, done[2].Disturbance.Action}
	if !slices.Equal(whats, []string{actSlow, actRestore, actCut}) || !done[0].TookEffect || !done[1].TookEffect ||
		done[2].TookEffect || done[0].AtS <= 0 || done[2].AtS != 0 {
		t.Errorf("%+v", done)
	}
	if len(messages) != 2 || !strings.Contains(messages[0], "slow n0") {
		t.Errorf("%q", messages)
	}
}

// FuzzDisturbance: what is read is written as something that is read the same.
func FuzzDisturbance(f *testing.F) {
	f.Add("1s:slow:n2:50Mbit")
	f.Add("3s:restore:n3")
	f.Fuzz(func(t *testing.T, text string) {
		var d, back Disturbance
		if d.UnmarshalText([]byte(text)) != nil {
			return
		}
		if err := back.UnmarshalText([]byte(d.String())); err != nil || back != d {
			t.Errorf("%q is %v, and that %v, %v", text, d, back, err)
		}
	})
}

// FuzzQueues: what tc prints is read or refused.
func FuzzQueues(f *testing.F) {
	f.Add([]byte(`[{"kind":"tbf","dev":"n0","packets":3,"bytes":4,"drops":5}]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if q, err := parseQueues(text); err == nil && q == nil {
			t.Error("neither")
		}
	})
}
