package bench

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"ringlet/shmem"
	"ringlet/transport"
)

// stationsConfig describes stations that write to each other.
type stationsConfig struct {
	nodes       *NodesConfig
	view        uint64
	pairs       map[int][]int                        // by sender: the receivers
	size, batch int                                  // bytes of a write; writes of a batch
	windows     int                                  // of a flow; 0: as many as may be under way
	polled      bool                                 // an eventPoller, not the handler, checks the memory
	timestamps  bool                                 // the kernel time-stamps packets that are sent and received
	follow      func(rank int) func(transport.Stage) // trace function of each node; may be nil
	onWrite     func(rank int)                       // called when a write is seen, before it is checked; may be nil
	onSignal    func()                               // called for each signal to a node that sends nothing; may be nil
	// relayAddr returns the address that others dial for the node with the highest rank; nil: its own.
	relayAddr func(addr string) (string, error)
}

// count is the number of stations.
func (m *stationsConfig) count() int {
	most := 0
	for from, to := range m.pairs {
		most = max(most, from, slices.Max(to))
	}
	return most + 1
}

// with opens stations with a flow for each pair, calls work, and closes them. All links end before memory is freed.
func (m *stationsConfig) with(ctx context.Context, work func(all []*station) error) (err error) {
	all, err := openNodes(ctx, m.nodes, m.view, m.count(), m.open)
	all = slices.DeleteFunc(all, func(s *station) bool { return s == nil })
	defer func() {
		for _, s := range all {
			err = errors.Join(err, s.endpoint.Close())
		}
		for _, s := range all {
			err = errors.Join(err, s.close())
		}
	}()
	if err != nil {
		return err
	}
	for from, to := range m.pairs {
		for _, t := range to {
			all[from].outFlows[t] = all[t].inFlows[from]
		}
	}
	return work(all)
}

// open makes a station, with memory that all nodes may write, and in it a flow for each sender.
func (m *stationsConfig) open(c linkConfig) (_ *station, err error) {
	var senders []int
	for from, to := range m.pairs {
		if slices.Contains(to, c.rank) {
			senders = append(senders, from)
		}
	}
	each := flowMemory(m.size, m.batch)
	s := &station{
		outFlows: make([]*flow, m.count()),
		inFlows:  make([]*flow, m.count()),
		polled:   m.polled,
		onSignal: m.onSignal,
		onWrite:  m.onWrite,
	}
	if s.segment, err = shmem.Create(segmentName("node"), max(1, len(senders))*each); err != nil {
		return nil, err
	}
	table, err := newTable(c.carrier, max(1, len(senders)*each/m.size))
	if err != nil {
		return nil, errors.Join(err, s.segment.Close())
	}
	c.timestamps, c.wrap = m.timestamps, func(e *end) transport.Handler { s.end = e; return s }
	if m.follow != nil {
		c.trace = m.follow(c.rank)
	}
	if s.end, err = openEnd(c, table); err != nil {
		return nil, errors.Join(err, s.segment.Close())
	}
	if m.relayAddr != nil && c.rank == m.count()-1 {
		s.relayedAddr, err = m.relayAddr(s.end.address())
	}
	if err == nil {
		err = m.openFlows(s, table, senders)
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// openFlows exports the memory of a station to all nodes, and makes in it a flow for each sender.
func (m *stationsConfig) openFlows(s *station, table *shmem.Table, senders []int) error {
	memory := s.segment.Bytes()
	pages := (len(memory) + shmem.PageSize - 1) / shmem.PageSize
	seg, err := table.ExportSegment(s.segment,
		shmem.PageRule{PageCount: pages, Peer: shmem.AnyPeer, Access: shmem.AccessNwrite})
	if err != nil {
		return err
	}
	each := flowMemory(m.size, m.batch)
	for i, from := range senders {
		l := newFlow(from, s.rank, m.size, m.batch, memory[i*each:(i+1)*each])
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

// address is the address that the others dial.
func (s *station) address() string {
	return cmp.Or(s.relayedAddr, s.end.address())
}

// close ends the links of a station, and frees its memory.
func (s *station) close() error { return errors.Join(s.end.close(), s.segment.Close()) }
