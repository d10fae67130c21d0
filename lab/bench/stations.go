package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"ringlet/lab/page"
	"ringlet/node/certs"
	"ringlet/shmem"
	"ringlet/transport"
)

// NodesConfig is what measurements between nodes of one process have in common.
type NodesConfig struct {
	Version, Command string
	Carrier          string
	Spin             time.Duration // how long who waits for the network looks before it sleeps
	Host             string        // address to bind
	// Identity makes the identity of a node of that name.
	Identity func(name string) (*certs.Identity, error)
}

// valid checks them, and how long each measurement takes.
func (c *NodesConfig) valid(d time.Duration) error {
	if _, ok := carrierOf(c.Carrier); !ok {
		return usageErrorf("carrier", "%q is not one of %s", c.Carrier, strings.Join(carrierNames(), ", "))
	}
	if d < minDuration || d > 24*time.Hour {
		return usageErrorf("duration", "%s is not between %s and 24h", d, minDuration)
	}
	if c.Spin < 0 || c.Spin > time.Second {
		return usageErrorf("spin", "%s is not between 0s and 1s", c.Spin)
	}
	return nil
}

// stationsConfig is that of so many nodes.
func (c *NodesConfig) stationsConfig(view uint64, nodes int) stationsConfig {
	carrier, _ := carrierOf(c.Carrier)
	return stationsConfig{
		carrier:  carrier,
		spin:     c.Spin,
		host:     c.Host,
		identity: c.Identity,
		view:     view,
		nodes:    nodes,
	}
}

// nodesReport begins the report of such a measurement.
type nodesReport struct {
	Version     string       `json:"version"`
	Started     string       `json:"started"` // RFC 3339
	Command     string       `json:"command,omitempty"`
	Machine     page.Machine `json:"machine"`
	Carrier     string       `json:"carrier"`
	Cores       int          `json:"cores"`
	Interrupted bool         `json:"interrupted"`
}

func (c *NodesConfig) report() nodesReport {
	return nodesReport{
		Version: c.Version,
		Started: time.Now().UTC().Format(time.RFC3339),
		Command: c.Command,
		Machine: page.ThisMachine(c.Version),
		Carrier: c.Carrier,
		Cores:   runtime.NumCPU(),
	}
}

// stationsConfig is what nodes of one process need to link to each other.
type stationsConfig struct {
	carrier    transport.CarrierKind
	spin       time.Duration
	host       string
	identity   func(name string) (*certs.Identity, error)
	view       uint64
	nodes      int
	windows    int                                  // of a flow; 0: as many as may be under way
	polled     bool                                 // who looks at the memory is not the handler
	follow     func(rank int) func(transport.Stage) // who follows a write; nil: nobody
	timestamps bool                                 // the kernel notes when packets are sent and received
	onWrite    func(rank int)                       // told when a write is seen, before it is checked; nil: nobody
	onSignal   func()                               // told of each signal to a node that sends nothing; nil: nobody
	// relayAddr gives the address under which others see the node with the highest rank; nil: its own.
	relayAddr func(addr string) (string, error)
}

// openStations makes nodes that are linked to each other, with a flow for each pair. What there is must be closed, also
// where it fails.
func openStations(ctx context.Context, m stationsConfig, pairs map[int][]int, size, batch int) ([]*station, error) {
	all := make([]*station, m.nodes)
	members := make([]transport.Member, m.nodes)
	for r := range members {
		members[r].Name = fmt.Sprintf("n%d", r)
	}
	for rank := range slices.Backward(all) { // who dials must know where to: the higher ranks come first
		s, err := m.open(rank, members, pairs, size, batch)
		if err != nil {
			return all, err
		}
		all[rank] = s
		if m.relayAddr != nil && rank == m.nodes-1 {
			members = slices.Clone(members) // the node itself knows its own
			if members[rank].Addr, err = m.relayAddr(members[rank].Addr); err != nil {
				return all, err
			}
		}
	}
	for from, to := range pairs {
		for _, t := range to {
			all[from].outFlows[t] = all[t].inFlows[from]
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, s := range all {
		if len(s.otherRanks) > 0 {
			g.Go(func() error { return s.connect(ctx) })
		}
	}
	return all, g.Wait()
}

// open makes one node.
func (m *stationsConfig) open(rank int, members []transport.Member, pairs map[int][]int, size,
	batch int) (*station, error) {
	id, err := m.identity(members[rank].Name)
	if err != nil {
		return nil, err
	}
	var senders []int
	for from, to := range pairs {
		if slices.Contains(to, rank) {
			senders = append(senders, from)
		}
	}
	each := flowMemory(size, batch)
	segment, err := shmem.Create(segmentName("node"), max(1, len(senders))*each)
	if err != nil {
		return nil, err
	}
	s := &station{
		segment:  segment,
		outFlows: make([]*flow, m.nodes),
		inFlows:  make([]*flow, m.nodes),
		polled:   m.polled,
		onSignal: m.onSignal,
		onWrite:  m.onWrite,
	}
	table, err := newTable(m.carrier, max(1, len(senders)*each/size))
	if err != nil {
		return nil, errors.Join(err, segment.Close())
	}
	if s.end, err = openEnd(m.link(s, id, rank, members), table); err != nil {
		return nil, errors.Join(err, segment.Close())
	}
	if err := m.openFlows(s, table, rank, senders, size, batch); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// link is how the station of a node has its links.
func (m *stationsConfig) link(s *station, id *certs.Identity, rank int, members []transport.Member) linkConfig {
	c := linkConfig{
		id:         id,
		host:       m.host,
		spin:       m.spin,
		carrier:    m.carrier,
		view:       m.view,
		rank:       rank,
		members:    members,
		timestamps: m.timestamps,
		wrap: func(e *end) transport.Handler {
			s.end = e
			return s
		},
	}
	if m.follow != nil {
		c.trace = m.follow(rank)
	}
	return c
}

// openFlows opens the memory of a station to all nodes, and makes in it a flow for each sender.
func (m *stationsConfig) openFlows(s *station, table *shmem.Table, rank int, senders []int, size, batch int) error {
	memory := s.segment.Bytes()
	pages := (len(memory) + shmem.PageSize - 1) / shmem.PageSize
	seg, err := table.ExportSegment(s.segment,
		shmem.PageRule{PageCount: pages, Peer: shmem.AnyPeer, Access: shmem.AccessNwrite})
	if err != nil {
		return err
	}
	each := flowMemory(size, batch)
	for i, from := range senders {
		l := newFlow(from, rank, size, batch, memory[i*each:(i+1)*each])
		if m.windows > 0 {
			l.limitWindows(m.windows)
		}
		s.inFlows[from] = l
		if err := s.grant(l, seg, i*each); err != nil {
			return err
		}
	}
	return nil
}

// writeSize of the writes that this node sends or receives.
func (s *station) writeSize() int {
	for _, l := range append(slices.Clone(s.outFlows), s.inFlows...) {
		if l != nil {
			return l.size
		}
	}
	return wordSize
}

// close ends a node's links and gives its memory back.
func (s *station) close() error { return errors.Join(s.end.close(), s.segment.Close()) }

// closeStations closes those that there are. Links end everywhere before memory goes.
func closeStations(all []*station) error {
	var errs []error
	for _, s := range all {
		if s != nil {
			errs = append(errs, s.endpoint.Close())
		}
	}
	for _, s := range all {
		if s != nil {
			errs = append(errs, s.close())
		}
	}
	return errors.Join(errs...)
}
