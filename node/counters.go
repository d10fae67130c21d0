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

// Counters that readers of reports look up by name.
const (
	// CounterLinks is the prefix of the counters of links by carrier: "link.links_quic".
	CounterLinks = "link.links_"
	// CounterBadInput is 1 if a readout unit's input ended with a bad record; the status says which.
	CounterBadInput = "ru.bad_input"
	// CounterSourcesBroken is how many live sources of a readout unit cannot go on. CounterInputFailed is 1 if the input
	// ended because of that, or because a fragment is missing; the status says why.
	CounterSourcesBroken = "ru.sources_broken"
	CounterInputFailed   = "ru.let_down"
	// CounterOutputWritten is how many bytes an output has written to its file so far, including those written again.
	// While a run ends it tells a builder unit that still writes from one that is stuck.
	CounterOutputWritten = "bu.output_written"
)

// allCounters has the counters of every package in this process. Each package describes its own (see internal/counter):
// a field added to one of these structs is in the report, its sums, the metrics, the manual and the columns of a sweep.
type allCounters struct {
	processCounters
	Calls          callCounters              `count:"node."`
	Readout        *readoutunit.Stats        `count:"ru."` // nil: there is no such unit now; the same below
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

// processCounters has the counters that last longer than a run. A report has their increase since the run began.
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
	ConnectionsRefused uint64 `help:"connections to the node service closed: too many were open"`
	GossipRefused      uint64 `help:"packets, connections and announcements of gossip refused, the sum of gossip.*"`
}

// sessionCounters count, by reason, messages of peers that were not used.
type sessionCounters struct {
	BadSignals    atomic.Uint64 `help:"signals that no unit here could use"`
	WritesRefused atomic.Uint64 `help:"writes of peers that the export table does not allow"`
	WritesLate    atomic.Uint64 `help:"writes of readout units that were gone"`
	Malformed     atomic.Uint64 `help:"datagrams that could not be decoded, as logged"`
	LinksDown     atomic.Uint64 `help:"links that failed or were closed by the peer"`
}

// callCounters count the calls that the node service and the scheduler's host refused since the process began.
type callCounters struct {
	CallsRefused uint64 `help:"calls that their certificate does not allow, since the process began"`
	CallsFenced  uint64 `help:"calls of a control that another one has replaced, since the process began"`
}

var (
	counterLayout       = counter.StructOf(allCounters{})
	counterDescriptions = counterLayout.List()
)

// Counters describes the counters that the report of a node may have.
func Counters() counter.List { return counterDescriptions }

// figures are what components report: counters, and for a report message everything else.
type figures struct {
	allCounters

	message *nodev1.Report // nil: only counters are wanted
	steps   int            // how many steps of a timeline are wanted at most
}

// histogram adds a histogram to the message, if both exist.
func (f *figures) histogram(name string, h *hdr.Histogram) {
	if h != nil && f.message != nil {
		f.message.Histograms[name] = histograms.Encode(h)
	}
}

// collect reads all present figures.
func (s *session) collect(f *figures) {
	f.processCounters, f.Calls = s.collectProcessCounters(), s.node.countCalls()
	for _, c := range s.components {
		c.report(f)
	}
}

// collectProcessCounters reads the counters that last longer than a run.
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

// beginCounting records the lasting counters as the baseline of a run.
func (s *session) beginCounting() {
	before := map[string]uint64{}
	counterLayout.Read(before, &allCounters{processCounters: s.collectProcessCounters()})
	maps.DeleteFunc(before, func(name string, _ uint64) bool {
		c, _ := counterDescriptions.Find(name)
		return c.Kind != counter.Count || strings.HasPrefix(name, CounterLinks) // links are older than the run
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.baseline = before
}

// readCounters writes counters to a map; lasting counters as their increase since the run began.
func (s *session) readCounters(to map[string]uint64, f *figures) {
	counterLayout.Read(to, &f.allCounters)
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, before := range s.baseline {
		to[name] -= min(before, to[name])
	}
}
