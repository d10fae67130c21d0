package quic

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"ringlet/shmem"
	"ringlet/testkit/patiently"
	"ringlet/transport"
	"ringlet/transport/link"
)

const bulk = 1 << 20 // bytes exported to the peer

// end is an endpoint with one exported segment.
type end struct {
	net       *Network
	rank      int
	ep        *transport.Endpoint
	table     *shmem.Table
	mem       []byte
	ref       shmem.Ref   // what the peer may write here
	placed    chan uint32 // bytes
	completed chan error
	signals   chan string
	down      chan error
}

func (e *end) PlacedMany(int, []transport.Placement)   {}
func (e *end) Placed(_ int, p transport.Placement)     { e.placed <- p.Length }
func (e *end) Signal(_ int, b []byte)                  { e.signals <- string(b) }
func (e *end) Completed(_ int, _ uint64, err error)    { e.completed <- err }
func (e *end) Refused(int, transport.Placement, error) {}
func (e *end) Malformed(_ int, err error)              { e.down <- err }
func (e *end) LinkDown(_ int, err error)               { e.down <- err }

// endpoints joins two nodes over loopback.
func endpoints(t testing.TB, change func(*Config), drop float64) [2]*end {
	t.Helper()
	return endpointsWith(t, change, func(c *transport.Config) { c.DropShare, c.DropSeed = drop, 1 })
}

// endpointsWith also changes how the endpoints are configured.
func endpointsWith(t testing.TB, change func(*Config), carry func(*transport.Config)) [2]*end {
	t.Helper()
	var ends [2]*end
	var addrs [2]string
	for i := range ends {
		cfg := configOf(issue(t, fmt.Sprintf("n%d", i)))
		if change != nil {
			change(&cfg)
		}
		ends[i] = newEnd(t, cfg, i)
		addrs[i] = ends[i].net.Addr().String()
	}
	var wg sync.WaitGroup
	for _, e := range ends {
		e.open(t, addrs, carry)
		wg.Go(func() { e.connect(t) })
	}
	patiently.Wait(t, wg.Wait)
	if t.Failed() {
		t.FailNow()
	}
	return ends
}

// newEnd makes the end of a rank. Tables are new, so that what the peer is granted here is also what it grants.
func newEnd(t testing.TB, cfg Config, rank int) *end {
	t.Helper()
	e := &end{
		net:       listen(t, cfg),
		rank:      rank,
		mem:       make([]byte, bulk),
		table:     shmem.NewTable(1, shmem.FirstGeneration(1)),
		placed:    make(chan uint32, 4096),
		completed: make(chan error, 4096),
		signals:   make(chan string, 4096),
		down:      make(chan error, 9),
	}
	peer := shmem.Peer(1 - rank)
	rule := shmem.PageRule{PageCount: bulk / shmem.PageSize, Peer: peer, Access: shmem.AccessNwrite}
	seg, err := e.table.Export(e.mem, rule)
	if err != nil {
		t.Fatal(err)
	}
	if e.ref, err = e.table.Grant(peer, seg, 0, bulk, shmem.AccessNwrite); err != nil {
		t.Fatal(err)
	}
	return e
}

// open makes the endpoint, of a view of two nodes.
func (e *end) open(t testing.TB, addrs [2]string, carry func(*transport.Config)) {
	members := []transport.Member{{Name: "n0", Addr: addrs[0]}, {Name: "n1", Addr: addrs[1]}}
	view := transport.View{Number: 1, Members: members}
	cfg := transport.Config{
		Network: e.net,
		Handler: e,
		Table:   e.table,
		View:    view,
		Rank:    e.rank,
	}
	carry(&cfg)
	e.ep = transport.New(cfg)
	t.Cleanup(func() { _ = e.ep.Close() })
}

func (e *end) connect(t testing.TB) {
	if err := e.ep.Connect(within(t), []int{1 - e.rank}); err != nil {
		t.Error(err)
	}
}

// write writes a pattern to the whole of the peer's memory, in eight writes.
func (e *end) write(seed byte) error {
	data := pattern(seed)
	for off := 0; off < bulk; off += bulk / 8 {
		w := link.Write{Ref: e.ref, Offset: uint32(off), Data: data[off : off+bulk/8]}
		if err := e.ep.Write(1-e.rank, w); err != nil {
			return err
		}
	}
	return nil
}

// outcomes waits for n completions.
func (e *end) outcomes(t testing.TB, n int) {
	t.Helper()
	ctx := within(t)
	for range n {
		select {
		case err := <-e.completed:
			if err != nil {
				t.Fatal(err)
			}
		case err := <-e.down:
			t.Fatal(err)
		case <-ctx.Done():
			t.Fatalf("waited in vain for %d outcomes: %+v, %+v", n, e.ep.Stats(), e.net.Stats())
		}
	}
}

func pattern(seed byte) []byte {
	b := make([]byte, bulk)
	for i := range b {
		b[i] = byte(i)*7 + byte(i>>9) + seed
	}
	return b
}

func TestEndpointsExchangeWrites(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Config)
		drop   float64
		by     transport.Carrier
	}{
		"as it comes":        {},
		"without GRO":        {change: func(c *Config) { c.NoGRO = true }},
		"small packets":      {change: func(c *Config) { c.PacketSize = 1252 }},
		"with losses":        {drop: 0.02},
		"quic":               {by: transport.CarrierQUIC},
		"quic without GRO":   {by: transport.CarrierQUIC, change: func(c *Config) { c.NoGRO = true }},
		"quic with losses":   {by: transport.CarrierQUIC, drop: 0.02},
		"stream":             {by: transport.CarrierStream},
		"stream with losses": {by: transport.CarrierStream, drop: 0.25}, // of few: 32 records carry all
		"quic, spread":       {by: transport.CarrierQUIC, change: func(c *Config) { c.GoroutinePerLink = true }, drop: 0.01},
	} {
		t.Run(name, func(t *testing.T) {
			ends := endpointsWith(t, tc.change,
				func(c *transport.Config) { c.DropShare, c.DropSeed, c.Carrier = tc.drop, 1, tc.by })
			for i, e := range ends {
				go func() {
					if err := e.write(byte(i)); err != nil {
						t.Error(err)
					}
					if err := e.ep.Signal(1-i, []byte("written")); err != nil {
						t.Error(err)
					}
				}()
			}
			for _, e := range ends {
				e.outcomes(t, 8)
				patiently.Receive(t, e.signals)
				for range 8 { // only its own word for it lets a node look at memory that a peer writes
					patiently.Receive(t, e.placed)
				}
			}
			var dropped, resent uint64 // by both: one end may have lost nothing but feedback, which nobody sends again
			for i, e := range ends {
				if !bytes.Equal(e.mem, pattern(byte(1-i))) {
					t.Errorf("what %d received differs", i)
				}
				s := e.ep.Stats()
				if s.DatagramsMalformed+s.DatagramsBeyondCredit+s.ChunksRefused+s.TransactionsUsed != 0 {
					t.Errorf("end %d: %+v", i, s)
				}
				dropped, resent = dropped+s.DatagramsDropped, resent+s.DatagramsResent
			}
			if tc.drop > 0 && (dropped == 0 || resent == 0) {
				t.Errorf("%d dropped, %d sent again", dropped, resent)
			}
			if name == "without GRO" {
				if s := ends[1].net.Stats(); s.RecvCalls < s.RecvPackets {
					t.Errorf("%d packets in %d calls without GRO", s.RecvPackets, s.RecvCalls)
				}
			}
		})
	}
}

// udpOption reports whether the kernel has a UDP option.
func udpOption(t *testing.T, opt, value int) bool {
	t.Helper()
	raw, err := udp(t).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	ok := false
	if err := raw.Control(
		func(fd uintptr) { ok = unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, opt, value) == nil }); err != nil {
		t.Fatal(err)
	}
	return ok
}

// TestBulkLeavesManyPacketsToACall: on a VM of two cores one system call per packet costs ten times the throughput.
func TestBulkLeavesManyPacketsToACall(t *testing.T) {
	ends := endpoints(t, nil, 0)
	data := pattern(1)
	from, to := ends[0], ends[1]
	before, beforeRecv := from.net.Stats(), to.net.Stats()
	const rounds = 24
	for range rounds {
		if err := from.ep.Write(1, link.Write{Ref: to.ref, Data: data}); err != nil {
			t.Fatal(err)
		}
	}
	from.outcomes(t, rounds)
	sent, recv := from.net.Stats(), to.net.Stats()
	perSend := float64(sent.SentPackets-before.SentPackets) / float64(sent.SendCalls-before.SendCalls)
	perRecv := float64(recv.RecvPackets-beforeRecv.RecvPackets) / float64(recv.RecvCalls-beforeRecv.RecvCalls)
	t.Logf("%.1f packets per send call, %.1f per receive call, %d of %d datagrams sent again",
		perSend, perRecv, from.ep.Stats().DatagramsResent, from.ep.Stats().DatagramsSent)
	if !udpOption(t, unix.UDP_SEGMENT, 0) {
		t.Skip("SKIPPED: this kernel has no UDP_SEGMENT, so each packet is a system call of its own")
	}
	if perSend <= 4 {
		t.Errorf("%.1f packets per send call, want more than 4: are packets of full size still?", perSend)
	}
	if !udpOption(t, unix.UDP_GRO, 1) {
		t.Skip("SKIPPED: this kernel has no UDP_GRO, so each packet is received by itself")
	}
	if perRecv <= 4 {
		t.Errorf("%.1f packets per receive call, want more than 4", perRecv)
	}
}

// TestManySmallOnes: signals and small writes share packets.
func TestManySmallOnes(t *testing.T) {
	ends := endpoints(t, nil, 0)
	const n = 3000
	go func() {
		for i := range n {
			if err := ends[0].ep.Signal(1, fmt.Append(nil, i)); err != nil {
				t.Error(err)
			}
		}
	}()
	for i := range n {
		if got := patiently.Receive(t, ends[1].signals); got != fmt.Sprint(i) {
			t.Fatalf("signal %d is %q", i, got)
		}
	}
}

// TestOneSocketForAll: a node's connections, dialled and accepted, share its socket.
func TestOneSocketForAll(t *testing.T) {
	a, b, c := listen(t, configOf(issue(t, "a"))), listen(t, configOf(issue(t, "b"))), listen(t, configOf(issue(t, "c")))
	connectPair(t, a, b, "b")
	bc, _ := connectPair(t, a, c, "c")
	for _, n := range []*Network{b, c} {
		n.mu.Lock()
		for l := range n.conns {
			if l.qc.RemoteAddr().String() != a.Addr().String() {
				t.Errorf("%v was dialled from %v, want %v", n.Addr(), l.qc.RemoteAddr(), a.Addr())
			}
		}
		n.mu.Unlock()
	}
	if s := a.Stats(); s.SentPackets == 0 || s.RecvPackets == 0 || bc.Peer() != "c" {
		t.Errorf("%+v", s)
	}
}
