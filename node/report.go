package node

import (
	"syscall"
	"time"

	"google.golang.org/protobuf/proto"

	nodev1 "ringlet/proto/ringlet/node/v1"
)

// HistogramBarrier is the name of the histogram of the time in the barrier, µs per epoch.
const HistogramBarrier = "barrier_us"

// Histograms that only the readout unit with index 0 has: the time from the first readout unit to enter a barrier to
// the last, µs per epoch; and, with the index of a readout unit appended, by how much this unit was later than the last
// but one, µs per epoch that it held up.
const (
	HistogramSkew = "phase_skew_us"
	HistogramHeld = "held_us."
)

// Histograms of the decision unit, µs per event: from when it learns that an event is triggered to its decision; and
// the parts of that time, if a result says how long the builder unit took: until the event's last byte was in place,
// including the result's way; from then to the builder unit's verdict, where 65535 stands for all longer times; and
// from the arrival of the result to the decision.
const (
	HistogramDecision = "decision_us"
	HistogramBuilding = "building_us"
	HistogramJudged   = "judged_us"
	HistogramOrdering = "ordering_us"
)

// Histograms of a builder unit with a filter, µs per event: from the event's last byte until the filter begins, and in
// the filter.
const (
	HistogramFilterWait = "filter_wait_us"
	HistogramFilter     = "filter_us"
)

// Histograms of a live source, with its id appended: the sizes of the fragments that came, bytes; the time from one to
// the next, µs, of fragments that were read together their mean; and how many banks a container has.
const (
	HistogramSourceSizes     = "source_bytes."
	HistogramSourceIntervals = "source_interval_us."
	HistogramSourceBanks     = "source_banks."
)

// HistogramKernelDelay is the histogram of a node's packets, µs, if the kernel's time stamps are enabled: from the
// kernel's time stamp until the node reads the packet.
const HistogramKernelDelay = "host_us"

// report reports the state and the figures of the node: of the present run, with at most steps of its last steps, or of
// the last run once it is over. Processor time and memory are its share of what its process took.
func (n *process) report(steps int) *nodev1.Report {
	n.mu.Lock()
	s, last, req, began := n.session, n.lastReport, n.currentRequest, n.runBegan
	n.mu.Unlock()
	r := &nodev1.Report{}
	switch {
	case last != nil:
		r = proto.CloneOf(last)
	case s != nil:
		r = s.report(steps)
	}
	if s != nil {
		r.View, r.Seat, r.ConfigurationHash = s.view.GetNumber(), s.self, s.configHash
	}
	r.Leaving, r.Stopped = n.leaving.requested.Load(), n.orphaned.endedBy()
	r.RunKey, r.TagnetName, r.TagnetAddress = req.GetRunKey(), req.GetTagnetName(), req.GetTagnetAddress()
	if !began.IsZero() {
		r.StartedAtUs = began.UnixMicro()
	}
	r.Name, r.Status, r.Version, r.AtUs, r.Machine = n.cfg.Name, n.status(), n.cfg.Version, time.Now().UnixMicro(),
		n.machineReport(s)
	n.access.addTerm(r)
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) == nil {
		r.CpuSeconds = float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9 / float64(max(1, n.cfg.Nodes))
		r.MaxRssBytes = uint64(u.Maxrss) * 1024 / uint64(max(1, n.cfg.Nodes))
	}
	return r
}

// report collects the figures of links and components, with at most steps of the last steps.
func (s *session) report(steps int) *nodev1.Report {
	r := &nodev1.Report{
		Run:               s.node.run.Load(),
		View:              s.view.GetNumber(),
		Seat:              s.self,
		ConfigurationHash: s.configHash,
		Counters:          map[string]uint64{},
		Histograms:        map[string][]byte{},
	}
	f := figures{message: r, steps: steps}
	s.collect(&f)
	s.losses.report(r, s.view.GetMembers())
	f.histogram(HistogramKernelDelay, s.node.network.QueueDelays())
	s.readCounters(r.Counters, &f)
	var written []uint64
	if f.Readout != nil {
		written = f.Readout.BytesByBU
	}
	r.Links = s.linkReports(written)
	return r
}

// linkReports reports every link of the view; to has the bytes that the readout unit has written, by builder unit.
func (s *session) linkReports(to []uint64) []*nodev1.Link {
	out := make([]*nodev1.Link, len(s.view.GetMembers()))
	for rank, m := range s.view.GetMembers() {
		c := s.endpoint.LinkStats(rank)
		out[rank] = &nodev1.Link{
			Rank:            uint32(rank),
			Peer:            m.GetName(),
			ChunksSent:      c.ChunksSent,
			ChunksResent:    c.ChunksResent,
			ChunksPlaced:    c.ChunksPlaced,
			ChunksDuplicate: c.ChunksDuplicate,
		}
		if bu := int(m.GetBuIndex()); m.GetBuilder() && bu < len(to) {
			out[rank].BytesWritten = to[bu]
		}
	}
	return out
}
