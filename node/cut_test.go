package node

import (
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"ringlet/node/config"
	"ringlet/tagnet"
	"ringlet/testkit/cases"
	"ringlet/testkit/patiently"
)

// cutter passes connections on, until it is told to reset all there are and to turn away who comes.
type cutter struct {
	lis net.Listener
	to  string

	mu   sync.Mutex // guards the rest
	off  bool
	open map[net.Conn]bool
	cuts int // connections that were reset
	wg   sync.WaitGroup
}

func newCutter(t *testing.T, to string) *cutter {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{lis: lis, to: to, open: map[net.Conn]bool{}}
	c.wg.Go(c.accept)
	t.Cleanup(func() {
		_ = lis.Close()
		c.reset(true)
		patiently.Wait(t, c.wg.Wait)
	})
	return c
}

func (c *cutter) accept() {
	for {
		in, err := c.lis.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", c.to)
		if err != nil || !c.keep(in, out) {
			abort(in)
			if out != nil {
				abort(out)
			}
			continue
		}
		for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
			c.wg.Go(func() {
				_, _ = io.Copy(pair[1], pair[0])
				_ = pair[1].Close()
			})
		}
	}
}

// keep notes a connection, unless there are to be none.
func (c *cutter) keep(ends ...net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, end := range ends {
		c.open[end] = !c.off
	}
	return !c.off
}

// reset ends every connection with an RST, on both sides. With off set there are no new ones.
func (c *cutter) reset(off bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off = off
	for end := range c.open {
		abort(end)
		c.cuts++
	}
	clear(c.open)
}

// abort closes a connection with an RST.
func abort(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// TestSchedulerResetInARun resets every connection to the scheduler for 0.3 s, several times: the units wait, nobody
// is lost, no output goes, and every event counts once.
func TestSchedulerResetInARun(t *testing.T) {
	t.Parallel()
	for name, change := range cases.Select(t, disciplines) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newFarm(t, folded, folded)
			var line *cutter
			p.proxy = func(address string) string {
				line = newCutter(p.t, address)
				return line.lis.Addr().String()
			}
			c := lossConfig(t, func(c *config.Config) {
				c.Nodes, c.RUs, c.BUs, c.BuilderLoss, c.Output = 2, 2, 2, "essential", t.TempDir()+"/"
				change(c)
			})
			s := p.begin(c)
			for range 3 {
				p.moreUnharmed(s, 20)
				line.reset(true)
				time.Sleep(300 * time.Millisecond) // how long it is cut
				line.reset(false)
			}
			p.moreUnharmed(s, 20)
			p.end(s)
			p.checkAccounts(s)
			p.checkComplete(s, s.Registers().Counters.EventsBuilt)
			checkCut(p, s.Registers().Counters.StreamsResumed, line, c)
		})
	}
}

// moreUnharmed is more in a run that loses nobody. A host so busy that a unit does not come back in time is named as
// such: the run would stand still, since nobody here takes the lost unit out of it.
func (p *pair) moreUnharmed(s *tagnet.Server, n uint64) {
	p.t.Helper()
	from := s.Registers().Counters.Built
	p.awaits(fmt.Sprintf("%d more MEPs", n), func() bool {
		select {
		case e := <-p.lost:
			p.t.Fatalf("%v; a unit whose stream breaks has %v to come back", e, tagnet.DefaultResumeTimeout)
		default:
		}
		return s.Registers().Counters.Built >= from+n
	})
}

func checkCut(p *pair, resumed uint64, line *cutter, c config.Config) {
	p.t.Helper()
	var written, built uint64
	for i := range p.nodes {
		r := p.report(i)
		if st := r.GetStatus(); st.GetState() != "Ready" || st.GetDegraded() || st.GetCause() != nil {
			p.t.Errorf("n%d is %v", i, st)
		}
		written += r.GetCounters()["bu.output_events"]
		built += r.GetCounters()["bu.meps_built"] * uint64(c.Packing)
	}
	if written != built || written == 0 {
		p.t.Errorf("%d events built and %d written", built, written)
	}
	// Each of the two nodes has a readout unit and a builder unit, and each was cut three times. On a busy machine a cut
	// may strike a session that has not come back from the one before.
	if resumed < 4 {
		p.t.Errorf("%d conversations resumed, %d connections cut", resumed, line.cuts)
	}
	select {
	case e := <-p.lost:
		p.t.Errorf("told of %v", e)
	default:
	}
}
