package node

import (
	"maps"
	"strings"
	"sync/atomic"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"ringlet/barrier"
	"ringlet/builderunit"
	"ringlet/builderunit/sink"
	"ringlet/builderunit/tap"
	"ringlet/filter/decision"
	"ringlet/filter/external"
	"ringlet/internal/counter"
	histograms "ringlet/internal/histogram"
	"ringlet/node/cluster"
	"ringlet/node/fsm"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/readoutunit"
	"ringlet/shmem"
	"ringlet/tagnet/core"
	"ringlet/transport"
	"ringlet/transport/quic"
)

// Counters that whoever reads reports asks for by name.
const (
	// CounterLinks begins the names of the counters of links by carrier: "link.links_quic".
	CounterLinks = "link.links_"
	// CounterBadInput says that a readout unit's input ended with a bad record; the status says which.
	CounterBadInput = "ru.bad_input"
	// CounterSourcesBroken is how many live sources of a readout unit cannot go on, and CounterInputFailed says that its
	// input ended for that, or for want of a fragment; the status says why.
	CounterSourcesBroken = "ru.sources_broken"
	CounterInputFailed   = "ru.let_down"
	// CounterOutputWritten says how many bytes an output has given to its file so far, those that it wrote once more
	// included: while a run ends it tells a builder unit that still writes from one that is stuck.
	CounterOutputWritten = "bu.output_written"
)

// allCounters has the counters of every package in this process. A package describes its own, see internal/counter:
// what is added to one of these structs is in the report, its sums, the metrics, the manual and the columns of a sweep.
type allCounters struct {
	processCounters
	Calls          callCounters              `count:"node."`
	Readout        *readoutunit.Stats        `count:"ru."` // nil: there is no such unit now, and so below
	DecisionReader *decision.ReaderStats     `count:"ru."`
	Barrier        *barrier.Stats            `count:"barrier."`
	Builder        *builderunit.BuilderStats `count:"bu."`
	Feedback       *feedbackCounters         `count:"bu."`
	Output         *sink.Result              `count:"bu."`
	Segments       *sink.SegmentsStats       `count:"bu."`
	Buffer         *sink.BufferStats         `count:"bu."`
	Datagrams      *sink.DatagramStats       `count:"bu."`
	Streams        *sink.StreamStats         `count:"bu."`
	Filter         *sink.FilterStats         `count:"bu."`
	Backlog        *sink.BacklogStats        `count:"bu."`
	Panel          *external.Stats           `count:"bu."`
	Results        *decision.OutboxStats     `count:"bu."`
	DecisionUnit   *decision.UnitStats       `count:"dec."`
	Outlets        *decision.OutletStats     `count:"dec."`
}

// processCounters has the counters of what stays from run to run. A report has what they counted since the run began.
type processCounters struct {
	Link   transport.Stats   `count:"link."`
	Socket quic.Stats        `count:"socket."`
	Node   nodeCounters      `count:"node."`
	Gossip *cluster.Counters `count:"gossip."`
	Table  shmem.TableStats  `count:"table."`
	States fsm.Stats         `count:"fsm."`
	Tap    tap.Stats         `count:"tap."`
}

type nodeCounters struct {
	*sessionCounters
	ConnectionsRefused uint64 `help:"connections to the node service that were closed: too many were open"`
	GossipRefused      uint64 `help:"packets, connections and announcements of gossip refused, the sum of gossip.*"`
}

// sessionCounters count what peers sent and was not used, by reason.
type sessionCounters struct {
	BadSignals    atomic.Uint64 `help:"signals that no unit here could use"`
	WritesRefused atomic.Uint64 `help:"writes of peers that the export table does not allow"`
	WritesLate    atomic.Uint64 `help:"writes of readout units that had been taken for gone"`
	Malformed     atomic.Uint64 `help:"datagrams that were not understood, as logged"`
	LinksDown     atomic.Uint64 `help:"links that failed or were closed by the peer"`
}

// callCounters count the refused calls, of the node service and of the host, since the process began.
type callCounters struct {
	CallsRefused uint64 `help:"calls whose certificate does not allow them, since the process began"`
	CallsFenced  uint64 `help:"calls of a control whose term is over, since the process began"`
}

var (
	counterLayout       = counter.StructOf(allCounters{})
	counterDescriptions = counterLayout.List()
)

// Counters describes the counters that the report of a node may have.
func Counters() counter.List { return counterDescriptions }

// figures are what components report: counters, and, where a message is made of them, what else they tell.
type figures struct {
	allCounters

	message *nodev1.Report // nil: counters are all that is wanted
	steps   int            // of a timeline at most
}

// histogram adds a histogram, if there is one and it is wanted.
func (f *figures) histogram(name string, h *hdr.Histogram) {
	if h != nil && f.message != nil {
		f.message.Histograms[name] = histograms.Encode(h)
	}
}

// collect reads the figures of everything that there is now.
func (s *session) collect(f *figures) {
	f.processCounters, f.Calls = s.collectProcessCounters(), s.node.countCalls()
	for _, c := range s.components {
		c.report(f)
	}
}

// collectProcessCounters counts since links, memory and process are there.
func (s *session) collectProcessCounters() processCounters {
	c := processCounters{
		Link:   s.endpoint.Stats(),
		Socket: s.node.network.Stats(),
		Node:   nodeCounters{sessionCounters: &s.counters, ConnectionsRefused: s.node.serviceListener.TurnedAway()},
		Table:  s.table.Stats(),
		States: s.node.runner.Stats(),
		Tap:    s.node.tap.Stats(),
	}
	if members := s.node.members.Load(); members != nil {
		c.Gossip = members.Counters()
		c.Node.GossipRefused = c.Gossip.Sum()
	}
	return c
}

func (n *process) countCalls() callCounters {
	c := callCounters{CallsRefused: n.access.notControl.Load(), CallsFenced: n.access.fenced.Load()}
	for why, times := range n.schedulerHost.RefusalCounts() {
		if why == core.RefusedTerm {
			c.CallsFenced += times
		} else {
			c.CallsRefused += times
		}
	}
	return c
}

// beginCounting makes the counters of what lasts begin with a run.
func (s *session) beginCounting() {
	before := map[string]uint64{}
	counterLayout.Read(before, &allCounters{processCounters: s.collectProcessCounters()})
	maps.DeleteFunc(before, func(name string, _ uint64) bool {
		c, _ := counterDescriptions.Find(name)
		return c.Kind != counter.Count || strings.HasPrefix(name, CounterLinks) // the links of a run are older than it
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.baseline = before
}

// readCounters puts counters into a report: of what lasts, since the run began.
func (s *session) readCounters(to map[string]uint64, f *figures) {
	counterLayout.Read(to, &f.allCounters)
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, before := range s.baseline {
		to[name] -= min(before, to[name])
	}
}
