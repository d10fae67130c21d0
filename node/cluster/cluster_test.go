package cluster

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/memberlist"
	"go.uber.org/goleak"

	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
	"ringlet/testkit/ports"
)

func TestMain(m *testing.M) {
	must.LimitParallel(8, 4)
	goleak.VerifyTestMain(m)
}

var testKey = bytes.Repeat([]byte{7}, keySize)

// relaxedTiming never suspects anybody within a test; gossip is fast all the same.
func relaxedTiming() Timing {
	return Timing{
		GossipInterval:    5 * time.Millisecond,
		ProbeInterval:     time.Minute,
		ProbeTimeout:      30 * time.Second,
		SuspicionMult:     4,
		StreamTimeout:     10 * time.Second,
		JoinRetryInterval: 5 * time.Millisecond,
		LeaveTimeout:      10 * time.Second,
	}
}

// limit bounds what would otherwise hang; no test waits for it.
func limit(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patiently.LongTimeout)
	t.Cleanup(cancel)
	return ctx
}

func config(name string, first *Cluster) Config {
	c := Config{
		Name:   name,
		Key:    testKey,
		Timing: relaxedTiming(),
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Meta: Meta{
			Roles:    Readout | Builder,
			GRPCAddr: "127.0.0.1:1",
			QUICAddr: "127.0.0.1:2",
			Version:  "v-" + name,
		},
	}
	if first != nil {
		c.Join = []string{first.Addr().String()}
	}
	return c
}

func open(t *testing.T, cfg Config) *Cluster {
	t.Helper()
	c, err := Open(limit(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// watch delivers events into a channel with room for all that a test can cause.
func watch(cfg *Config) <-chan Event {
	events := make(chan Event, 100)
	cfg.OnEvent = func(e Event) { events <- e }
	return events
}

// expect waits for the next event.
func expect(t *testing.T, events <-chan Event, kind EventKind, name string) Event {
	t.Helper()
	select {
	case e := <-events:
		if e.Kind != kind || e.Member.Name != name {
			t.Fatalf("event %v of %s, want %v of %s", e.Kind, e.Member.Name, kind, name)
		}
		return e
	case <-limit(t).Done():
		t.Fatalf("no event %v of %s", kind, name)
	}
	return Event{}
}

func TestMembersFindEachOther(t *testing.T) {
	n0 := open(t, config("n0", nil))
	all := []*Cluster{n0}
	for _, name := range []string{"n10", "n2", "control"} {
		all = append(all, open(t, config(name, n0)))
	}
	for _, c := range all {
		if err := c.WaitForMembers(limit(t), "n0", "n2", "n10", "control"); err != nil {
			t.Fatalf("%s: %v", c.Name(), err)
		}
		var names []string
		for _, m := range c.Members() {
			names = append(names, m.Name)
			want := Meta{
				Protocol: protocolVersion,
				Roles:    Readout | Builder,
				GRPCAddr: "127.0.0.1:1",
				QUICAddr: "127.0.0.1:2",
				Version:  "v-" + m.Name,
			}
			if d := cmp.Diff(want, m.Meta); d != "" {
				t.Errorf("%s sees of %s: %s", c.Name(), m.Name, d)
			}
			if !m.Addr.IsValid() || m.Addr.Port() == 0 {
				t.Errorf("%s sees %s at %v", c.Name(), m.Name, m.Addr)
			}
		}
		if d := cmp.Diff([]string{"control", "n0", "n2", "n10"}, names); d != "" {
			t.Errorf("ranks at %s: %s", c.Name(), d)
		}
		if got := c.Counters(); got.Sum() != 0 {
			t.Errorf("%s refused something: %+v", c.Name(), got)
		}
	}
}

func TestLeavingIsNotFailing(t *testing.T) {
	cfg := config("n0", nil)
	events := watch(&cfg)
	n0 := open(t, cfg)
	n1 := open(t, config("n1", n0))
	expect(t, events, memberJoined, "n1")
	n2 := open(t, config("n2", n0))
	expect(t, events, memberJoined, "n2")
	if err := n2.WaitForMembers(limit(t), "n1"); err != nil {
		t.Fatal(err)
	}
	if err := n1.Close(); err != nil {
		t.Fatal(err)
	}
	e := expect(t, events, memberWithdrawn, "n1")
	if e.Member.Meta.Version != "v-n1" {
		t.Errorf("the event says of the member %+v", e.Member)
	}
	if got := n0.Members(); len(got) != 2 {
		t.Errorf("still members: %v", got)
	}
	if err := n1.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
	if err := n1.WaitForMembers(limit(t), "n9"); !errors.Is(err, net.ErrClosed) {
		t.Errorf("waiting after close: %v", err)
	}
}

// killed is a cluster of n0 and of n1, which ends as if killed: nobody is told.
func killed(t *testing.T) (n0, n1 *Cluster, ofN1 Config, events <-chan Event) {
	t.Helper()
	cfg := config("n0", nil)
	cfg.Timing.ProbeInterval, cfg.Timing.ProbeTimeout = 20*time.Millisecond, 15*time.Millisecond
	events = watch(&cfg)
	n0 = open(t, cfg)
	ofN1 = config("n1", n0)
	n1, err := Open(limit(t), ofN1)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, events, memberJoined, "n1")
	n1.shutdown()
	return n0, n1, ofN1, events
}

func TestSilentMemberFailsAndMayComeBack(t *testing.T) {
	n0, _, silent, events := killed(t)
	for e := range patiently.All(t, events) {
		// On a busy machine n1 may have been suspected, found failed and taken back before it fell silent.
		if e.Kind == memberFailed && len(n0.Members()) == 1 {
			break
		}
	}
	again, err := Open(limit(t), silent) // another port
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if err := n0.WaitForMembers(limit(t), "n1"); err != nil {
		t.Error(err)
	}
}

// A killed node that is started again at another address, as a pod is, gets its name back as soon as its former self is
// missed.
func TestTakenNameIsClaimed(t *testing.T) {
	n0, n1, again, _ := killed(t)
	before := n1.Addr()
	again.Timing.ReclaimTimeout, again.Timing.LeaveTimeout = time.Minute, 100*time.Millisecond
	back := open(t, again)
	for end := limit(t); end.Err() == nil; time.Sleep(time.Millisecond) {
		if m := n0.Members(); len(m) == 2 && m[1].Addr == back.Addr() && m[1].Addr != before {
			return
		}
	}
	t.Errorf("n0 sees %v, and n1 is at %v", n0.Members(), back.Addr())
}

func TestWrongKeyIsRefusedAndCounted(t *testing.T) {
	n0 := open(t, config("n0", nil))
	stranger := config("n1", n0)
	stranger.Key = bytes.Repeat([]byte{8}, keySize)
	_, err := Open(limit(t), stranger)
	var refused *joinError
	if !errors.As(err, &refused) || refused.Why != wrongKey {
		t.Fatalf("error %v, want a wrong key", err)
	}
	if !strings.Contains(err.Error(), "n1 cannot join the cluster at 127.0.0.1:") {
		t.Errorf("the sentence is %q", err)
	}
	if got := n0.Counters(); got.WrongKey.Load() == 0 || len(n0.Members()) != 1 {
		t.Errorf("counters %+v, members %v", got, n0.Members())
	}
}

func TestWrongKeyPacketsAreCounted(t *testing.T) {
	n0 := open(t, config("n0", nil))
	conn, err := net.Dial("udp", n0.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for end := limit(t); n0.Counters().WrongKey.Load() == 0 && end.Err() == nil; time.Sleep(time.Millisecond) {
		if _, err := conn.Write(bytes.Repeat([]byte{1}, 100)); err != nil {
			t.Fatal(err)
		}
	}
	if n0.Counters().WrongKey.Load() == 0 {
		t.Error("garbage was not counted")
	}
}

func TestOtherProtocolIsRefusedAndCounted(t *testing.T) {
	n0 := open(t, config("n0", nil))
	newer := config("n1", n0)
	newer.Meta.Protocol = protocolVersion + 1
	_, err := Open(limit(t), newer)
	var refused *joinError
	if !errors.As(err, &refused) || refused.Why != otherProtocol || !errors.Is(err, errProtocol) {
		t.Fatalf("error %v, want another protocol", err)
	}
	for end := limit(t); n0.Counters().OtherProtocol.Load() == 0 && end.Err() == nil; {
		time.Sleep(time.Millisecond) // n0 judges n1's state after it has sent its own
	}
	if n0.Counters().OtherProtocol.Load() == 0 || len(n0.Members()) != 1 {
		t.Errorf("counters %+v, members %v", n0.Counters(), n0.Members())
	}
}

func TestTakenNameIsRefused(t *testing.T) {
	n0 := open(t, config("n0", nil))
	open(t, config("n1", n0))
	_, err := Open(limit(t), config("n1", n0))
	var refused *joinError
	if !errors.As(err, &refused) || refused.Why != nameTaken {
		t.Fatalf("error %v, want a taken name", err)
	}
	if err := n0.WaitForMembers(limit(t), "n1"); err != nil {
		t.Errorf("the rightful n1 was sent off: %v", err)
	}
}

func TestJoinGoesOnUntilSomebodyAnswers(t *testing.T) {
	cfg := config("n1", nil)
	cfg.Join = []string{net.JoinHostPort("127.0.0.1", strconv.Itoa(ports.Reserve(t)))} // nobody listens there
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	var refused *joinError
	if _, err := Open(ctx, cfg); !errors.As(err, &refused) || refused.Why != joinUnreachable {
		t.Errorf("error %v, want unreachable", err)
	}
}

func TestWaitNamesWhoIsMissing(t *testing.T) {
	n0 := open(t, config("n0", nil))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var missing *missingError
	if err := n0.WaitForMembers(ctx, "n10", "n0", "n2"); !errors.As(err, &missing) || !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
	if d := cmp.Diff([]string{"n2", "n10"}, missing.Names); d != "" {
		t.Error(d)
	}
}

func TestOpenRefuses(t *testing.T) {
	for name, spoil := range map[string]func(*Config){
		"no name":      func(c *Config) { c.Name = "" },
		"no key":       func(c *Config) { c.Key = nil },
		"short key":    func(c *Config) { c.Key = testKey[:16] },
		"long meta":    func(c *Config) { c.Meta.Version = strings.Repeat("v", 256) },
		"too much":     func(c *Config) { c.Meta.Version, c.Meta.GRPCAddr, c.Meta.QUICAddr = long, long, long },
		"not our host": func(c *Config) { c.BindAddr = "192.0.2.1" },
	} {
		cfg := config("n0", nil)
		spoil(&cfg)
		if c, err := Open(limit(t), cfg); err == nil {
			c.Close()
			t.Errorf("%s: accepted", name)
		}
	}
}

var long = strings.Repeat("x", 200)

// A control comes and goes between runs, at the same address; its nodes stay and find it again.
func TestNodesFindAControlThatComesBack(t *testing.T) {
	control := config("control", nil)
	control.BindPort = ports.Reserve(t)
	first := open(t, control)
	remaining := config("n0", first)
	remaining.Timing.LeaveTimeout = 100 * time.Millisecond // in the end there may be nobody to take note
	open(t, remaining)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	control.Timing.LeaveTimeout = remaining.Timing.LeaveTimeout
	if err := open(t, control).WaitForMembers(limit(t), "n0"); err != nil {
		t.Fatal(err)
	}
}

// TestWhoIsLetIn goes through what a peer may answer about the name under which a node joins.
func TestWhoIsLetIn(t *testing.T) {
	joining := open(t, config("n1", nil))
	here, there := joining.Addr(), netip.MustParseAddrPort("192.0.2.7:1")
	type entry struct {
		at    netip.AddrPort
		state memberlist.NodeStateType
	}
	for name, tc := range map[string]struct {
		peers []entry
		want  joinReason
	}{
		"not listed yet":           {nil, joinUnconfirmed},
		"listed":                   {[]entry{{here, memberlist.StateAlive}}, ""},
		"listed and suspected":     {[]entry{{here, memberlist.StateSuspect}}, ""},
		"another":                  {[]entry{{there, memberlist.StateAlive}}, nameTaken},
		"another, not missed yet":  {[]entry{{there, memberlist.StateSuspect}}, nameTaken},
		"another, failed":          {[]entry{{there, memberlist.StateDead}}, joinUnconfirmed},
		"another, gone":            {[]entry{{there, memberlist.StateLeft}}, joinUnconfirmed},
		"members disagree":         {[]entry{{here, memberlist.StateAlive}, {there, memberlist.StateAlive}}, nameTaken},
		"the former self, and now": {[]entry{{there, memberlist.StateDead}, {here, memberlist.StateAlive}}, ""},
	} {
		joining.nameConflict, joining.joinConfirmed = nil, false
		for _, p := range tc.peers {
			n := &memberlist.Node{
				Name:  "n1",
				Addr:  p.at.Addr().AsSlice(),
				Port:  p.at.Port(),
				State: p.state,
			}
			if err := (*delegate)(joining).NotifyMerge([]*memberlist.Node{n}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		var why joinReason
		if err := joining.joinOutcome(nil); err != nil {
			why = err.Why
		}
		if why != tc.want {
			t.Errorf("%s: %q, want %q", name, why, tc.want)
		}
	}
}
