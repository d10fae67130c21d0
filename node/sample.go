package node

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"ringlet/internal/counter"
	"ringlet/node/sampling"
	nodev1 "ringlet/proto/ringlet/node/v1"
	samplev1 "ringlet/proto/ringlet/sample/v1"
	"ringlet/transport/link"
)

const (
	// sampleSendInterval is how often samples are sent and slow counters are read.
	sampleSendInterval = 100 * time.Millisecond
	// maxSamplers bounds the calls of Sample at a time: each uses up to 4 MiB, and a share of a processor.
	maxSamplers = 8
	// linkCounterPrefix and segmentBytesCounter begin the names of the counters that are read for each sample.
	linkCounterPrefix   = "link."
	segmentBytesCounter = "segment.bytes"
)

// defaultSampleCounters are sampled if a request names no counters.
var defaultSampleCounters = []string{"link.bytes_sent", "link.bytes_placed", "link.datagrams_resent",
	"link.stalls_queue",
	"link.stalls_tx", "link.stalls_credit", "link.stalls_congestion", segmentBytesCounter}

// linkCounterList are the counters of a link in the order of link.Stats.Word.
var linkCounterList = counter.StructOf(link.Stats{}).List()

// probe reads the values of a column.
type probe struct {
	read      func() uint64 // called for each sample; nil: the counter is slow
	name      string        // of the counter
	slowValue atomic.Uint64 // as last read
}

// sampler samples the columns of one request.
type sampler struct {
	// immutable
	session      *session
	runNumber    uint32
	columns      []*samplev1.Column
	probes       []*probe
	stopCounting func() // ends the counting of bytes by segment

	// owned by the goroutine that reads
	linkStats      []link.Stats // by rank; the last element is their sum
	bytesBySegment []uint64     // by segment
	slowCounters   map[string]uint64

	mu   sync.Mutex // guards the fields below
	ring *sampling.Ring
}

// Sample streams samples of counters to the control. The stream ends with the run.
func (s *service) Sample(req *samplev1.Question, out nodev1.Node_SampleServer) error {
	if err := s.node.access.admitAnyTerm(out.Context(), "Sample"); err != nil {
		return err
	}
	if s.node.samplers.Add(1) > maxSamplers {
		s.node.samplers.Add(-1)
		return status.Errorf(codes.ResourceExhausted, "%d clients sample this node already: wait until one of them has ended",
			maxSamplers)
	}
	defer s.node.samplers.Add(-1)
	m, err := s.node.newSampler(req)
	if err != nil {
		return err
	}
	defer m.stopCounting()
	if err := out.SendHeader(nil); err != nil {
		return err
	}
	over := make(chan struct{})
	var reading sync.WaitGroup
	defer reading.Wait()
	defer close(over)
	m.readSlow()
	reading.Go(func() { m.sampleLoop(over) })
	return m.send(s.node, out)
}

// newSampler makes the sampler of a request.
func (n *process) newSampler(req *samplev1.Question) (*sampler, error) {
	n.mu.Lock()
	s, run, over := n.session, n.run.Load(), n.lastReport != nil
	n.mu.Unlock()
	if s == nil || run == 0 || over {
		return nil, status.Errorf(codes.FailedPrecondition, "%s is in no run, so there is nothing to sample: start one",
			n.cfg.Name)
	}
	m := &sampler{session: s, runNumber: run, slowCounters: map[string]uint64{}}
	m.linkStats = make([]link.Stats, len(s.view.GetMembers())+1)
	names := req.GetCounters()
	if len(names) == 0 {
		names = defaultSampleCounters
	}
	for _, name := range names {
		if err := m.addCounter(name, req.GetEach()); err != nil {
			return nil, err
		}
	}
	interval := time.Duration(req.GetIntervalUs()) * time.Microsecond
	if interval == 0 {
		interval = sampling.MinInterval
	}
	if err := sampling.CheckRequest(interval, int(min(req.GetSamples(), 1<<20)), len(m.probes)); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	m.ring = sampling.New(interval, int(req.GetSamples()), len(m.probes))
	m.stopCounting = s.table.CountWritten()
	return m, nil
}

// addCounter adds the columns of a counter.
func (m *sampler) addCounter(name string, each bool) error {
	var of []string // names of links or segments
	if name == segmentBytesCounter {
		for _, segment := range m.session.table.SegmentNames() {
			of = append(of, strings.TrimPrefix(strings.TrimPrefix(segment, m.session.segmentPrefix), "-"))
		}
		m.bytesBySegment = make([]uint64, len(of))
		m.addFast(name, of, each, counter.Counter{Unit: "bytes", Kind: counter.Count}, func(i int) (n uint64) {
			if i < len(of) {
				return m.bytesBySegment[i]
			}
			for _, bytes := range m.bytesBySegment {
				n += bytes
			}
			return n
		})
		return nil
	}
	word := slices.IndexFunc(linkCounterList, func(c counter.Counter) bool { return linkCounterPrefix+c.Name == name })
	if word < 0 {
		return m.addSlow(name)
	}
	for _, member := range m.session.view.GetMembers() {
		of = append(of, member.GetName())
	}
	m.addFast(name, of, each, linkCounterList[word], func(i int) uint64 { return m.linkStats[i].Word(word) })
	return nil
}

// addFast adds the columns of a counter that is read for each sample. If each is true, there is one column for each
// name in of, and read(i) returns the value for name i. Otherwise there is one column with the sum, and read(len(of))
// returns the sum.
func (m *sampler) addFast(name string, of []string, each bool, c counter.Counter, read func(i int) uint64) {
	if !each {
		m.addColumn(name, "", c, &probe{read: func() uint64 { return read(len(of)) }})
		return
	}
	for i := range of {
		m.addColumn(name, of[i], c, &probe{read: func() uint64 { return read(i) }})
	}
}

// addSlow adds the column of a counter in the report.
func (m *sampler) addSlow(name string) error {
	c, ok := counterDescriptions.Find(name)
	if !ok {
		return status.Error(codes.InvalidArgument, (&sampling.Error{Field: "counters", Why: "there is no counter " + name +
			": docs/reference/metrics.md lists them, and there is " + segmentBytesCounter}).Error())
	}
	m.addColumn(name, "", c, &probe{name: name})
	return nil
}

func (m *sampler) addColumn(name, of string, c counter.Counter, p *probe) {
	m.columns = append(m.columns, &samplev1.Column{
		Name: name,
		Of:   of,
		Unit: c.Unit,
		Kind: string(c.Kind),
		Slow: p.read == nil,
	})
	m.probes = append(m.probes, p)
}

// sampleLoop takes samples when they are due, until over is closed or the request has all its samples.
func (m *sampler) sampleLoop(over <-chan struct{}) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-over:
			return
		case <-timer.C:
		}
		m.readFast()
		now := time.Now()
		m.mu.Lock()
		if row := m.ring.BeginSample(int64(now.Sub(sampleClockStart)), now.UnixMicro()); row != nil {
			m.fillRow(row)
		}
		next, enough := m.ring.NextDue(), m.ring.Done()
		m.mu.Unlock()
		if enough {
			return
		}
		timer.Reset(time.Duration(next) - time.Since(sampleClockStart))
	}
}

// sampleClockStart is the zero of the ring's times, which are monotonic.
var sampleClockStart = time.Now().Add(-time.Second)

// readFast reads the values for the fast columns. It allocates nothing.
func (m *sampler) readFast() {
	sum := &m.linkStats[len(m.linkStats)-1]
	*sum = link.Stats{}
	for rank := range m.linkStats[:len(m.linkStats)-1] {
		m.linkStats[rank] = m.session.endpoint.LinkStats(rank)
		sum.Add(&m.linkStats[rank])
	}
	if len(m.bytesBySegment) > 0 {
		m.session.table.Written(m.bytesBySegment)
	}
}

// fillRow writes the values of a sample into a row.
func (m *sampler) fillRow(row []uint64) {
	for i, p := range m.probes {
		if p.read != nil {
			row[i] = p.read()
		} else {
			row[i] = p.slowValue.Load()
		}
	}
}

// readSlow reads the slow counters.
func (m *sampler) readSlow() {
	if !slices.ContainsFunc(m.probes, func(p *probe) bool { return p.read == nil }) {
		return
	}
	clear(m.slowCounters)
	var f figures
	m.session.collect(&f)
	m.session.readCounters(m.slowCounters, &f)
	for _, p := range m.probes {
		if p.read == nil {
			p.slowValue.Store(m.slowCounters[p.name])
		}
	}
}

// send sends samples until the request has all of them, the run is over, or the client has gone.
func (m *sampler) send(n *process, out nodev1.Node_SampleServer) error {
	tick := time.NewTicker(sampleSendInterval)
	defer tick.Stop()
	columns := m.columns
	for {
		select {
		case <-out.Context().Done():
			return nil
		case <-tick.C:
		}
		m.readSlow()
		gone := !n.isInRun(m)
		r := &samplev1.Samples{Columns: columns, Run: m.runNumber}
		m.mu.Lock()
		r.AtUs, r.Values = m.ring.Drain(nil, nil, sampling.MaxSamples)
		r.Missed, r.Late = m.ring.Lost()
		enough := m.ring.Done()
		m.mu.Unlock()
		if len(r.GetAtUs()) > 0 || columns != nil {
			if err := out.Send(r); err != nil {
				return err
			}
			columns = nil
		}
		if enough || gone {
			return nil
		}
	}
}

// isInRun tells that the sampled run goes on.
func (n *process) isInRun(m *sampler) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.session == m.session && n.run.Load() == m.runNumber && n.lastReport == nil
}
