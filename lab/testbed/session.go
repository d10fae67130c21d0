package testbed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"ringlet/node"
	"ringlet/node/spawn"
)

// A Session is one run in a bed: the commands node and control, started as a user would start them on the hosts of a
// cluster.
type Session struct {
	Bed     *Bed
	Program string   // path of ringlet
	Nodes   []string // names; the nodes are spread over the hosts in turn
	// Node and Control return the arguments of the processes: the address to bind, and the address to join. Control also
	// gets the number of a descriptor to which it writes a line when the run begins.
	Node         func(name, host, join string) []string
	Control      func(host string, port, began int) []string
	SendKeys     func(name string, stdin io.Writer) error // writes the keys of a node, or of node.ControlName
	ControlEnv   []string                                 // added to the control's environment
	Disturbances []Disturbance                            // with times since the beginning of the run
	ControlOut   io.Writer                                // standard output of the control
	ProcessLog   io.Writer                                // standard error of the processes
	Notify       func(string)                             // called with what happens on the way
}

// Report is what the test bed counted during a run.
type Report struct {
	Hosts        int                 `json:"hosts"`
	RateBps      int64               `json:"rate_bps"`    // of ports without a rate of their own
	QueueBytes   int64               `json:"queue_bytes"` // of the switch, in front of each host
	BurstBytes   int64               `json:"burst_bytes"` // that an idle host may send at once, at that rate
	MTU          int                 `json:"mtu"`
	Packets      uint64              `json:"packets"` // of all ports, towards the hosts
	Bytes        uint64              `json:"bytes"`
	Dropped      uint64              `json:"dropped"`       // packets that found a queue of the switch full
	DroppedShare float64             `json:"dropped_share"` // of the packets to hosts
	Ports        []Port              `json:"ports"`
	Links        []TreeLink          `json:"links,omitempty"` // of a fat tree; their drops are part of Dropped
	Disturbances []DisturbanceResult `json:"disturbances"`
}

// joinPort is the control's port for joining; no other process is on its host.
const joinPort = 7946

// joinAddress is the address that nodes join.
func (b *Bed) joinAddress() string { return b.ControlAddress() + ":" + strconv.Itoa(joinPort) }

// HostOf is the host of a node by its index: nodes are spread over the hosts in turn.
func (s *Session) HostOf(node int) int { return node % len(s.Bed.hostNS) }

// sessionRun is a session under way.
type sessionRun struct {
	*Session
	control, nodes *spawn.Processes
	controlCmd     *exec.Cmd
	controlEnded   chan string // how the control ended

	mu         sync.Mutex // guards what follows
	endedNodes []string   // nodes that ended by themselves
	began      bool
}

// Run takes the cluster through one run. It returns the exit code of the control, and the bed's report if the run
// began. The error is about the bed and its processes; the control has reported the run's own problems. When ctx ends,
// Run stops the run in good order.
func (s *Session) Run(ctx context.Context) (code int, report *Report, err error) {
	before, err := s.Bed.counters()
	if err != nil {
		return 0, nil, err
	}
	c := &sessionRun{Session: s, controlEnded: make(chan string, 1)}
	began, startPipe, err := os.Pipe()
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = began.Close() }()
	c.control, c.nodes = c.controlProcesses(startPipe), c.nodeProcesses()
	defer c.nodes.Stop()
	defer c.control.Stop()
	err = c.control.Spawn([]string{node.ControlName}, "", func(_, how string) { c.controlEnded <- how })
	_ = startPipe.Close() // the control has its own copy
	if err != nil {
		return 0, nil, err
	}
	defer context.AfterFunc(ctx, c.interrupt)()
	if err := c.nodes.Spawn(s.Nodes, s.Bed.joinAddress(), c.nodeEnded); err != nil {
		return 0, nil, err
	}
	done := c.startDisturbances(began)
	how := <-c.controlEnded
	report = newReport(s.Bed.spec, done())
	err = errors.Join(report.count(s.Bed, before), c.checkOutcome(report))
	if code = c.controlCmd.ProcessState.ExitCode(); code < 0 {
		err = errors.Join(fmt.Errorf("the control %s", how), err)
	}
	if began, _ := c.state(); !began {
		report = nil
	}
	return code, report, err
}

// controlProcesses starts the process of the control.
func (c *sessionRun) controlProcesses(startPipe *os.File) *spawn.Processes {
	const first = 3 // number of the first extra descriptor, behind the standard ones
	return &spawn.Processes{
		ProgramPath:    c.Program,
		Stderr:         c.ProcessLog,
		WriteKeys:      c.SendKeys,
		Env:            c.ControlEnv,
		Args:           func(string, string) []string { return c.Control(c.Bed.ControlAddress(), joinPort, first) },
		EnterNamespace: func(string) error { return c.Bed.controlNS.Enter() },
		PrepareCommand: func(_ string, cmd *exec.Cmd) {
			cmd.Stdout, cmd.ExtraFiles, c.controlCmd = c.ControlOut, []*os.File{startPipe}, cmd
		},
	}
}

// nodeProcesses starts the processes of the nodes, spread over the hosts in turn.
func (c *sessionRun) nodeProcesses() *spawn.Processes {
	host := map[string]int{}
	for i, name := range c.Nodes {
		host[name] = c.HostOf(i)
	}
	return &spawn.Processes{
		ProgramPath:    c.Program,
		Stderr:         c.ProcessLog,
		WriteKeys:      c.SendKeys,
		Args:           func(name, join string) []string { return c.Node(name, c.Bed.Address(host[name]), join) },
		EnterNamespace: func(name string) error { return c.Bed.hostNS[host[name]].Enter() },
	}
}

// interrupt ends the run in good order.
func (c *sessionRun) interrupt() { _ = c.controlCmd.Process.Signal(syscall.SIGTERM) } // it may have ended meanwhile

// nodeEnded records a node that has ended by itself. Before the run has begun that ends the session, since the run
// needs the node; later the control finds out.
func (c *sessionRun) nodeEnded(name, how string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.endedNodes = append(c.endedNodes, name+" "+how)
	c.Notify(name + " " + how)
	if !c.began {
		c.interrupt()
	}
}

// startDisturbances carries out the disturbances, in the time since the control says that the run begins. The function
// it returns stops that, restores the ports, and returns the outcomes.
func (c *sessionRun) startDisturbances(began *os.File) (end func() []DisturbanceResult) {
	ctx, cancel := context.WithCancel(context.Background())
	out := make(chan []DisturbanceResult, 1)
	go func() {
		if n, _ := began.Read(make([]byte, 1)); n > 0 {
			c.mu.Lock()
			c.began = true
			c.mu.Unlock()
		} else {
			<-ctx.Done() // it never begins
		}
		out <- c.Bed.disturbAll(ctx, time.Now(), c.Disturbances, c.Notify)
	}()
	return func() []DisturbanceResult {
		cancel()
		done := <-out
		for _, d := range done {
			if !d.TookEffect {
				continue
			}
			if err := c.Bed.Disturb(Disturbance{Action: actRestore, Host: d.Disturbance.Host}); err != nil {
				c.Notify(fmt.Sprintf("%s could not be restored: %v", d.Disturbance.Host, err))
			}
		}
		return done
	}
}

// state says whether the run has begun, and which nodes have ended by themselves.
func (c *sessionRun) state() (began bool, lost []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.began, slices.Clone(c.endedNodes)
}

// checkOutcome returns the errors that the exit code does not show.
func (c *sessionRun) checkOutcome(r *Report) error {
	var errs []error
	for _, d := range r.Disturbances {
		if d.Error != "" {
			errs = append(errs, errors.New(d.Error))
		}
	}
	if began, lost := c.state(); !began && len(lost) > 0 {
		errs = append(errs, errors.New("before the run began: "+strings.Join(lost, ", ")))
	}
	return errors.Join(errs...)
}

func newReport(s Spec, done []DisturbanceResult) *Report {
	return &Report{
		Hosts:        s.Hosts,
		RateBps:      int64(s.Rate),
		QueueBytes:   int64(s.Queue),
		BurstBytes:   s.hostBurst(s.Rate),
		MTU:          s.MTU,
		Disturbances: done,
	}
}

// count counts the traffic of the ports since before.
func (r *Report) count(b *Bed, before counters) error {
	now, err := b.counters()
	if err != nil {
		return err
	}
	for i := range now.links {
		l := &now.links[i]
		l.ToSpine, l.ToLeaf = l.ToSpine.since(before.links[i].ToSpine), l.ToLeaf.since(before.links[i].ToLeaf)
		r.Dropped += l.ToSpine.Dropped + l.ToLeaf.Dropped
	}
	for i := range now.ports {
		p := &now.ports[i]
		p.ToHost, p.FromHost = p.ToHost.since(before.ports[i].ToHost), p.FromHost.since(before.ports[i].FromHost)
		r.Packets += p.ToHost.Packets
		r.Bytes += p.ToHost.Bytes
		// Only these count: in front of a host's own port senders wait, and packets lost there by a cut are no drops of the
		// switch.
		r.Dropped += p.ToHost.Dropped
	}
	r.Ports, r.Links = now.ports, now.links
	if all := r.Packets + r.Dropped; all > 0 {
		r.DroppedShare = float64(r.Dropped) / float64(all)
	}
	return nil
}
