package nodes

import (
	"context"
	"errors"
	"io"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"ringlet/ecs/partition/fault"
	"ringlet/internal/stopwatch"
	"ringlet/node/certs"
	"ringlet/node/fsm"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/tagnet"
)

// progressEvery is how often nodes report and the live line moves.
const progressEvery = 500 * time.Millisecond

// awakeEvery is how often the control notes that it is at work itself, see fault.Core.Awake.
const awakeEvery = 200 * time.Millisecond

// How the control bears that it is cut off from a node. What builds does not need it, so a cut must not end a run of
// its own: where the node is lost to others, too, their links find out in 5 s, before this does. A connection that has
// lost its other end finds out by the keepalive, whose time gRPC lets be no shorter.
const (
	bears        = 10 * time.Second
	retryEvery   = 100 * time.Millisecond
	aliveEvery   = 10 * time.Second
	aliveAnswer  = 5 * time.Second
	connectTime  = 5 * time.Second // with the handshake, on a busy machine
	connectPause = time.Second     // at most, between two tries
)

// lasting are the options of connections that are to outlive a cut.
func (o *Options) lasting() []grpc.DialOption {
	pause := backoff.DefaultConfig
	pause.BaseDelay, pause.MaxDelay = retryEvery, connectPause
	return []grpc.DialOption{
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: aliveEvery, Timeout: o.within(aliveAnswer)}),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: pause, MinConnectTimeout: o.within(connectTime)}),
	}
}

// watch follows every node's reports; a node in Error, or one that falls silent, is a fault.
func (c *Crew) watch() {
	for _, n := range c.nodes {
		c.watchOne(n)
	}
	untick := stopwatch.Every(awakeEvery, func() { c.faults.awake(time.Now()) })
	c.unwatch = func() {
		untick()
		for _, n := range c.nodes {
			n.mu.Lock()
			n.released = true
			n.mu.Unlock()
			n.watched(nil)
		}
	}
}

// watchOne follows one node, in place of who followed it before.
func (c *Crew) watchOne(n *member) {
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	n.watched(func() { cancel(); <-over })
	go func() {
		defer close(over)
		err := c.attend(ctx, n, bears)
		if fenced := tagnet.Fenced(err); fenced != nil {
			c.faults.see(fencedOff(n.name, fenced))
			return
		}
		lost := c.lostSight(n, err)
		switch {
		case ctx.Err() != nil:
		case c.faults.done(n.latest()): // it had done what it has to, and may have been told to end since
			c.faults.tell(func(core *fault.Core) { core.Over(n.name, lost.What) })
		default:
			c.faults.see(lost)
		}
	}()
}

// watched notes how the watch of a node ends, and ends the one before.
func (m *member) watched(end func()) {
	m.mu.Lock()
	before, released := m.unwatch, m.released
	if m.unwatch = end; released {
		m.unwatch = nil
	}
	m.mu.Unlock()
	if before != nil {
		before()
	}
	if released && end != nil {
		end()
	}
}

// lostSight is what the end of a watch tells of a node.
func (c *Crew) lostSight(n *member, err error) fault.Sight {
	x := fault.Sight{Kind: fault.Missing, Fault: fault.Seen(n.name, fault.PartService,
		"the control hears nothing of it any more: "+status.Convert(err).Message())}
	switch why := untrusted(err); {
	case why != nil:
		x.Kind, x.Part, x.What = fault.Own, fault.PartCertificate,
			"it and the control do not trust each other any more: "+why.Error()
	case errors.Is(err, errAnew):
		x.Kind, x.Part, x.What = fault.Vanished, fault.PartProcess, "its process has ended, and "+errAnew.Error()
	case refused(err):
		x.Kind, x.Part, x.What = fault.Vanished, fault.PartProcess,
			"its process has ended: nobody listens at "+n.seat().GetGrpcAddress()+" any more"
	}
	return x
}

// untrusted is why one side refuses the other's certificate; nil if that is not what an error says.
func untrusted(err error) *certs.RefusedError {
	var refused *certs.RefusedError
	if errors.As(certs.Explain(errors.New(status.Convert(err).Message())), &refused) {
		return refused
	}
	return nil
}

// refused says that nobody listens where a node did.
func refused(err error) bool { return strings.Contains(err.Error(), syscall.ECONNREFUSED.Error()) }

// attend follows a node until ctx ends or the node is gone, and returns why: never nil. It is gone when it was silent
// for so long, or when its process is known to have ended.
func (c *Crew) attend(ctx context.Context, n *member, bears time.Duration) error {
	var cut time.Time // since when it is silent while this process is awake; zero while it is heard
	for {
		err := n.follow(ctx, func(rep *nodev1.Report) error {
			if !cut.IsZero() {
				if anew(n.latest(), rep) {
					return errAnew
				}
				c.log.Info("a node is heard again", "node", n.name, "silent", c.faults.awake(time.Now()).Sub(cut))
				cut = time.Time{}
			}
			c.heard(n, rep)
			return nil
		})
		if ctx.Err() != nil || !passing(err) {
			return err
		}
		if now := c.faults.awake(time.Now()); cut.IsZero() {
			cut = now
			c.log.Info("a node is silent: trying to hear it again", "node", n.name, "err", err)
		} else if now.Sub(cut) >= bears {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(retryEvery):
		}
	}
}

// heard takes a report.
func (c *Crew) heard(n *member, rep *nodev1.Report) {
	n.keep(rep)
	// In an earlier view it is where that left it, which the steps undo.
	c.faults.report(n.name, rep, rep.GetView() == c.View().GetNumber())
	goesOn := rep.GetStatus().GetState() == fsm.Running.String() && rep.GetRun() == c.faults.run.Load()
	if goesOn && ask(c.faults, func(core *fault.Core) bool { return core.Strays(n.name) }) {
		go c.retire(n)
	}
}

// retire has a node drop a run that has lost it: it does not know, and others cannot read what it holds open.
func (c *Crew) retire(n *member) {
	ctx, cancel := context.WithTimeout(context.Background(), c.opts.within(restTime))
	defer cancel()
	stop := &nodev1.CommandRequest{Command: nodev1.Command_COMMAND_STOP, Run: c.faults.run.Load(), Abandon: true}
	if err := n.command(ctx, stop); err != nil {
		c.log.Info("a node that the run has lost could not be told to drop it", "node", n.name, "err", err)
	}
}

// passing says whether a watch may have ended by a cut that heals. Where nobody listens any more, the process has
// ended.
func passing(err error) bool {
	if errors.Is(err, io.EOF) {
		return true
	}
	return status.Code(err) == codes.Unavailable && !refused(err) && untrusted(err) == nil
}

// anew says whether a node that was cut off is now a process that knows nothing of what it was told.
func anew(was, is *nodev1.Report) bool {
	return is.GetView() == 0 && was.GetView() != 0 && is.GetStatus().GetState() == "Offline"
}

var errAnew = errors.New("a new process answers in its place")

// liveSteps is how many of the last steps of a readout unit a watched report carries: a page shows no more.
const liveSteps = 48

// follow passes on every report until that is not wanted or the stream ends, and returns why it did: never nil.
func (m *member) follow(ctx context.Context, each func(*nodev1.Report) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := m.client.Watch(ctx, &nodev1.WatchRequest{IntervalMs: uint32(progressEvery.Milliseconds()),
		Timeline: liveSteps, Term: m.term})
	if err != nil {
		return err
	}
	for {
		rep, err := stream.Recv()
		if err == nil {
			err = each(rep)
		}
		if err != nil {
			return err
		}
	}
}
