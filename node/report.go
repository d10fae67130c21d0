package node

import (
	"syscall"
	"time"

	"google.golang.org/protobuf/proto"

	nodev1 "ringlet/proto/ringlet/node/v1"
)

// HistogramBarrier is the name of the histogram of the time in the barrier, µs per epoch.
const HistogramBarrier = "barrier_us"

// Names of the histograms that the readout unit with index 0 alone has: the time from the first to enter a barrier to
// the last, µs per epoch, and, with the index of a readout unit behind it, how much later than the last but one that
// was, µs per epoch it held.
const (
	HistogramSkew = "phase_skew_us"
	HistogramHeld = "held_us."
)

// Names of the histograms of the decision unit, µs per event: from when an event was known to be triggered to its
// decision; and the parts of that, where there was a result that says how long the builder unit took: until its last
// byte was in place, with the result's way; from then to the builder unit's verdict, where 65535 stands for all that is
// longer; and from when the result came to the decision.
const (
	HistogramDecision = "decision_us"
	HistogramBuilding = "building_us"
	HistogramJudged   = "judged_us"
	HistogramOrdering = "ordering_us"
)

// Names of the histograms of a builder unit with a filter, µs per event: from the last byte until the filter had it,
// and in the filter.
const (
	HistogramFilterWait = "filter_wait_us"
	HistogramFilter     = "filter_us"
)

// HistogramKernelDelay is the name of the histogram of a node's packets, µs, where the kernel's times of them were
// asked for: from when the kernel had them until they were taken in.
const HistogramKernelDelay = "host_us"

// report tells everything the node knows of itself: of the present run, with so many of its last steps at most, or of
// the last one when that is over.
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
		r.CpuSeconds = float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
		r.MaxRssBytes = uint64(u.Maxrss) * 1024
	}
	return r
}

// report collects what links and components have counted, with so many of the last steps at most.
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

// linkReports tells of every link of the view, given what the readout unit has written to each builder unit.
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
