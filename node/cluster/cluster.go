package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"ringlet/internal/address"
	"ringlet/internal/connlimit"
)

// keySize of the gossip key in bytes: AES-256.
const keySize = 32

// Config describes this node, and how it finds the others.
type Config struct {
	Name          string   // unique in the cluster; never empty
	BindAddr      string   // address to listen on, UDP and TCP; "" = 127.0.0.1
	BindPort      int      // 0 = any free port
	AdvertiseAddr string   // address that other nodes use; "" = the bound one
	Join          []string // host:port of present members; empty = begin a cluster
	Key           []byte   // keySize bytes, the same on all nodes
	Meta          Meta     // metadata for the other nodes
	Timing        Timing   // zero = TimingFor(BindAddr, Join)

	Logger  *slog.Logger // nil = slog.Default
	OnEvent func(Event)  // nil = no events. Must not call Close.

	dial func(addr string, timeout time.Duration) (net.Conn, error) // nil = from this host; for tests with several hosts
}

// Timing decides how fast gossip travels, and how long a silent node still counts as a member.
type Timing struct {
	GossipInterval time.Duration // between two rounds of gossip
	ProbeInterval  time.Duration // between two probes of another node
	ProbeTimeout   time.Duration // for an answer; the 99th percentile of a round trip
	// SuspicionMult: a silent node is failed after SuspicionMult · max(1, log10 N) · ProbeInterval, unless it objects.
	SuspicionMult int
	StreamTimeout time.Duration // for an exchange of all state over a connection
	// DialTimeout bounds the time until a connection is open. While a link is cut, each try to join waits this long. TCP
	// tries again only after 1, 3 and 7 s, so with a longer time-out a node notices later that the link is healed.
	DialTimeout       time.Duration
	ExchangeInterval  time.Duration // between two exchanges of all state with another member
	JoinRetryInterval time.Duration // between two tries to join without an answer
	ReclaimTimeout    time.Duration // how long a node whose name is taken tries again; 0 = not at all
	LeaveTimeout      time.Duration // how long Close waits for acknowledgements, and again for its last gossip
}

// LocalTiming suits processes of one machine whose cores are busy building events: an idle process answers a probe
// within microseconds, a busy one within a few scheduler slices. On two busy cores, a killed process of four was failed
// after 3 to 7 s (November 2026): the wait until another one probes it, 2 s of suspicion, and longer until others
// confirm. A node claims a taken name for twice as long.
func LocalTiming() Timing {
	return Timing{
		GossipInterval:    100 * time.Millisecond,
		ProbeInterval:     500 * time.Millisecond,
		ProbeTimeout:      250 * time.Millisecond,
		SuspicionMult:     4,
		StreamTimeout:     2 * time.Second,
		DialTimeout:       1500 * time.Millisecond,
		ExchangeInterval:  15 * time.Second,
		JoinRetryInterval: 200 * time.Millisecond,
		ReclaimTimeout:    15 * time.Second,
		LeaveTimeout:      500 * time.Millisecond,
	}
}

// lanTiming suits a cluster of machines. It has memberlist's own values for a local network, and takes twice as long as
// LocalTiming until a node is failed.
func lanTiming() Timing {
	return Timing{
		GossipInterval:    200 * time.Millisecond,
		ProbeInterval:     time.Second,
		ProbeTimeout:      500 * time.Millisecond,
		SuspicionMult:     4,
		StreamTimeout:     10 * time.Second,
		DialTimeout:       1500 * time.Millisecond,
		ExchangeInterval:  15 * time.Second,
		JoinRetryInterval: time.Second,
		ReclaimTimeout:    30 * time.Second,
		LeaveTimeout:      2 * time.Second,
	}
}

// TimingFor is LocalTiming if all addresses are loopback addresses, and lanTiming if the node binds or joins beyond
// this machine.
func TimingFor(bind string, join []string) Timing {
	for _, addr := range append([]string{bind}, join...) {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			host = addr
		}
		if host == "" || host == "localhost" {
			continue
		}
		if ip, err := netip.ParseAddr(host); err != nil || !ip.Unmap().IsLoopback() {
			return lanTiming()
		}
	}
	return LocalTiming()
}

// Member is a node of the cluster; this node is one, too.
type Member struct {
	Name string
	Addr netip.AddrPort // where its gossip listens
	Meta Meta
}

// Cluster is this node's membership.
type Cluster struct {
	// Immutable after Open.
	cfg        Config
	log        *slog.Logger
	meta       []byte // wire form of cfg.Meta
	counters   Counters
	logLimiter connlimit.LogLimiter
	wake       chan struct{} // capacity 1: events are queued
	stop       chan struct{} // closed by Close
	ended      chan struct{} // closed when the goroutine that delivers events has ended
	closeOnce  sync.Once

	// mu guards the fields below. memberlist calls this package with its own lock held, so mu must not be held in a call
	// into memberlist.
	mu             sync.Mutex
	list           *memberlist.Memberlist // nil until Open has created it
	members        map[string]Member
	leavingMembers map[string]bool // members that have announced that they leave
	leaveUnacked   map[string]bool // members that have not acknowledged that this node leaves
	leaveAcked     chan struct{}   // closed when leaveUnacked is empty; nil unless Close is waiting
	membersChanged chan struct{}   // closed and replaced when members changes
	eventQueue     []Event         // not yet delivered
	nameConflict   error           // another node has this node's name
	joinConfirmed  bool            // a member lists this node under its name
	mergeErr       error           // last refusal of a peer's state

	background sync.WaitGroup
}

// Open enters the cluster. If no member answers, or members do not list this node, it tries again until ctx ends; if
// the name is taken, for Timing.ReclaimTimeout, since the holder may be this node's former process, which was killed
// and is not failed yet. Any other refusal ends it at once. A node that is among its own Join addresses begins the
// cluster if need be. The error is a *joinError, or says what is wrong with cfg.
func Open(ctx context.Context, cfg Config) (*Cluster, error) {
	// memberlist would bind every network of this host for a name, and advertise none of them.
	bindAddr, err := address.ResolveLocal(ctx, cmp.Or(cfg.BindAddr, "127.0.0.1"))
	if err != nil {
		return nil, fmt.Errorf("open membership of %s: the host %w", cfg.Name, err)
	}
	cfg.BindAddr = bindAddr
	c, err := newCluster(cfg)
	if err != nil {
		return nil, err
	}
	gossip := c.gossipConfig()
	bounded, err := c.bind(gossip)
	if err != nil {
		return nil, fmt.Errorf("open membership of %s on %s port %d: %w", cfg.Name, c.cfg.BindAddr, cfg.BindPort, err)
	}
	gossip.Transport, gossip.BindPort, gossip.AdvertisePort = bounded, bounded.GetAutoBindPort(), bounded.GetAutoBindPort()
	list, err := memberlist.Create(gossip)
	if err != nil {
		_ = bounded.Shutdown()
		return nil, fmt.Errorf("open membership of %s on %s port %d: %w", cfg.Name, c.cfg.BindAddr, cfg.BindPort, err)
	}
	c.mu.Lock()
	c.list = list
	c.mu.Unlock()
	go c.deliverEvents()
	if err := c.join(ctx); err != nil {
		// Not Leave: if the name is taken, Leave would remove the other node.
		c.shutdown()
		return nil, err
	}
	if len(cfg.Join) > 0 {
		c.background.Go(c.rejoinLoop)
	}
	return c, nil
}

func newCluster(cfg Config) (*Cluster, error) {
	switch {
	case cfg.Name == "":
		return nil, errors.New("open membership: a node needs a name")
	case len(cfg.Key) != keySize:
		return nil, fmt.Errorf("open membership of %s: a gossip key has %d bytes, not %d", cfg.Name, keySize, len(cfg.Key))
	}
	if cfg.BindAddr == "" {
		cfg.BindAddr = "127.0.0.1"
	}
	if cfg.Timing == (Timing{}) {
		cfg.Timing = TimingFor(cfg.BindAddr, cfg.Join)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Meta.Protocol == 0 {
		cfg.Meta.Protocol = protocolVersion
	}
	meta, err := cfg.Meta.appendTo(nil)
	if err != nil {
		return nil, fmt.Errorf("open membership of %s: %w", cfg.Name, err)
	}
	return &Cluster{
		cfg:            cfg,
		meta:           meta,
		log:            cfg.Logger.With("node", cfg.Name),
		wake:           make(chan struct{}, 1),
		stop:           make(chan struct{}),
		ended:          make(chan struct{}),
		members:        map[string]Member{},
		leavingMembers: map[string]bool{},
		membersChanged: make(chan struct{}),
	}, nil
}

func (c *Cluster) gossipConfig() *memberlist.Config {
	t, g := c.cfg.Timing, memberlist.DefaultLocalConfig()
	g.Name, g.BindAddr, g.BindPort = c.cfg.Name, c.cfg.BindAddr, c.cfg.BindPort
	g.AdvertiseAddr, g.AdvertisePort = c.cfg.AdvertiseAddr, c.cfg.BindPort
	g.SecretKey = c.cfg.Key
	g.GossipInterval, g.ProbeInterval, g.ProbeTimeout, g.TCPTimeout = t.GossipInterval, t.ProbeInterval,
		t.ProbeTimeout, t.StreamTimeout
	g.SuspicionMult, g.PushPullInterval = t.SuspicionMult, t.ExchangeInterval
	g.EnableCompression = false // compression is not worth it for 100 bytes of metadata
	// A failed node that comes back has another port. Its name is free once it is failed, not before.
	g.DeadNodeReclaimTime = time.Millisecond
	d := (*delegate)(c)
	g.Delegate, g.Events, g.Alive, g.Merge, g.Conflict = d, d, d, d, d
	handler := gossipHandler{Handler: c.log.Handler(), counters: &c.counters, logLimiter: &c.logLimiter}
	g.Logger = slog.NewLogLogger(handler, slog.LevelError)
	return g
}

// confirmRetry is how soon a node first asks again whether it is listed, since a member lists it only after its answer.
const confirmRetry = 5 * time.Millisecond

// unreachableNotice is how often a node says that it cannot reach the cluster.
const unreachableNotice = 10 * time.Second

// join contacts the members in the configuration until one of them lists this node. An answer alone says only that the
// key is right: if two nodes came under one name at once, both would get one.
func (c *Cluster) join(ctx context.Context) error {
	if len(c.cfg.Join) == 0 {
		return nil
	}
	began, warned, confirm := time.Now(), time.Now(), confirmRetry/2
	for {
		why := c.tryJoin()
		if why == nil {
			return nil
		}
		pause := c.cfg.Timing.JoinRetryInterval
		switch {
		case why.Why == joinUnconfirmed:
			confirm = min(2*confirm, pause) // the member may never list this node
			pause = confirm
		case why.Why == nameTaken && time.Since(began) < c.cfg.Timing.ReclaimTimeout:
			if _, first := c.logLimiter.Allow("taken", time.Now()); first {
				c.log.Info("the name is taken: trying again, its holder may be a former process of this node", "for",
					c.cfg.Timing.ReclaimTimeout,
					"err", why.Cause)
			}
		case why.Why != joinUnreachable:
			return why
		case time.Since(warned) >= unreachableNotice:
			warned = time.Now()
			c.log.Warn("nobody answers there yet, and this node goes on trying: look whether --join names the control's "+
				"address and whether the control runs", "join", c.cfg.Join, "for", time.Since(began).Round(time.Second),
				"err", why.Cause)
		}
		select {
		case <-ctx.Done():
			return why
		case <-time.After(pause):
		}
	}
}

// tryJoin joins once; nil means that the node is a member.
func (c *Cluster) tryJoin() *joinError {
	c.mu.Lock()
	c.nameConflict, c.joinConfirmed = nil, false
	c.mu.Unlock()
	_, err := c.list.Join(c.cfg.Join)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.joinOutcome(err)
}

// Name is this node's name.
func (c *Cluster) Name() string { return c.cfg.Name }

// Addr is the address of this node's gossip, for others to join.
func (c *Cluster) Addr() netip.AddrPort {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.members[c.cfg.Name].Addr
}

// Members lists the members, this node included, in order of rank.
func (c *Cluster) Members() []Member {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]Member, 0, len(c.members))
	for _, m := range c.members {
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b Member) int { return CompareNames(a.Name, b.Name) })
	return out
}

// ByName is Members by name.
func (c *Cluster) ByName() map[string]Member {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.members)
}

// UnitNames are the names of the members that can hold a unit, in order of rank.
func UnitNames(members map[string]Member) []string {
	var names []string
	for name, m := range members {
		if m.Meta.Roles.HoldsUnit() {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, CompareNames)
	return names
}

// WaitUntil waits until wanted is true of the members, or ctx ends, or the cluster is closed, and returns the members
// as last checked.
func (c *Cluster) WaitUntil(ctx context.Context, wanted func(map[string]Member) bool) map[string]Member {
	for {
		changed := c.MembersChanged()
		members := c.ByName()
		if wanted(members) {
			return members
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return members
		case <-c.stop:
			return members
		}
	}
}

// MembersChanged is closed when the members change. Call it before Members, so that no change is missed.
func (c *Cluster) MembersChanged() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.membersChanged
}

// WaitForMembers returns when all of names are members. The error is a *missingError if ctx ends first, or
// net.ErrClosed after Close.
func (c *Cluster) WaitForMembers(ctx context.Context, names ...string) error {
	var missing []string
	c.WaitUntil(ctx, func(members map[string]Member) bool {
		missing = missing[:0]
		for _, n := range names {
			if _, ok := members[n]; !ok {
				missing = append(missing, n)
			}
		}
		return len(missing) == 0
	})
	switch {
	case len(missing) == 0:
		return nil
	case ctx.Err() == nil:
		return net.ErrClosed
	}
	sortByRank(missing)
	return &missingError{Names: missing, Cause: context.Cause(ctx)}
}

// Counters counts what was refused so far.
func (c *Cluster) Counters() *Counters { return &c.counters }

// Close leaves the cluster: it announces that to the other members, and stops everything that Open started. It takes
// milliseconds, or Timing.StreamTimeout and Timing.LeaveTimeout together if members do not answer. A second call does
// nothing.
func (c *Cluster) Close() error {
	c.closeOnce.Do(func() {
		c.announceLeave()
		if err := c.list.Leave(c.cfg.Timing.LeaveTimeout); err != nil {
			c.log.Info("left the cluster before the other members acknowledged it", "err", err)
		}
		c.shutdown()
	})
	return nil
}

// shutdown stops memberlist and the delivery of events.
func (c *Cluster) shutdown() {
	if err := c.list.Shutdown(); err != nil {
		c.log.Warn("shut membership down", "err", err)
	}
	close(c.stop)
	<-c.ended
	c.background.Wait()
}
