package partition

import (
	"slices"
	"time"

	"ringlet/ecs/figures"
	"ringlet/ecs/partition/nodes"
	ecsrun "ringlet/ecs/run"
	"ringlet/event"
	"ringlet/event/drift"
	"ringlet/event/selection"
	"ringlet/node"
	tapv1 "ringlet/proto/ringlet/tap/v1"
)

// Bounds of what the comparison of live sources costs.
const (
	// driftFragments is how many fragments a second are compared at most.
	driftFragments = 20_000
	// driftBlock is how many consecutive events are looked at together, so that slips by several events can be seen.
	driftBlock = 8 * drift.BlockEvents
	// driftSweepInterval is after how long blocks are compared that are not whole. Samples come twice in that time.
	driftSweepInterval = time.Second
)

// watchDrift compares the sizes of a run's live sources, in a sample of the built events, until the run is over.
func (c *conductor) watchDrift(run *nodes.Run) {
	w := newDriftWatch(run)
	if w == nil {
		return
	}
	req := &tapv1.Selection{Block: driftBlock, Rate: max(1000, min(10_000, driftFragments/float64(len(w.sizes))))}
	sel, err := selection.Parse(node.SpecOf(req))
	if err != nil {
		c.log.Error("the sources are not compared", "err", err)
		return
	}
	v, leave := c.taps.join(c.control, req, sel)
	defer leave()
	tick := time.NewTicker(driftSweepInterval)
	defer tick.Stop()
	for run.State().Phase < ecsrun.Closing {
		select {
		case <-c.ctx.Done():
			return
		case <-tick.C:
			w.monitor.Sweep()
		case m := <-v.queue:
			v.release(m.size)
			w.addSamples(m.samples)
		}
		before, now := run.Drift(), w.findings(nodes.ListSourceNames(run))
		run.NoteDrift(now)
		if before.Slips != now.Slips || len(before.Findings) != len(now.Findings) {
			c.saveState()
		}
	}
}

// driftWatch feeds a monitor with samples of a run.
type driftWatch struct {
	run     uint32
	monitor *drift.Monitor
	sizes   []int32       // scratch, by source
	earlier figures.Drift // of a control before this one
}

// newDriftWatch makes the watch of a run; nil if the run has no two live sources.
func newDriftWatch(run *nodes.Run) *driftWatch {
	var names []string
	for _, s := range nodes.LiveSources(run.Configuration()) {
		names = append(names, s.Name)
	}
	if len(names) < 2 {
		return nil
	}
	names = names[:min(len(names), drift.MaxSources)]
	return &driftWatch{run: run.Number(), monitor: drift.New(names), sizes: make([]int32, len(names)),
		earlier: endFindings(run.Drift())}
}

// endFindings is what a control found that is gone: it knows that a source was apart until it looked last. If the
// source still is, its successor finds it again.
func endFindings(d figures.Drift) figures.Drift {
	d.Findings = slices.Clone(d.Findings[:min(len(d.Findings), drift.MaxFindings)])
	for i := range d.Findings {
		if f := &d.Findings[i]; f.Until == 0 {
			f.Until = f.Reported + 1
		}
	}
	return d
}

// addSamples compares the events of a message.
func (w *driftWatch) addSamples(m *tapv1.Samples) {
	for _, e := range m.GetEvents() {
		if e.GetRun() != w.run {
			continue
		}
		for i := range w.sizes {
			w.sizes[i] = drift.Missing
		}
		for _, f := range e.GetFragments() {
			if id := int(f.GetSource()); id < len(w.sizes) && event.BankType(f.GetType()) != event.FragmentMissing {
				w.sizes[id] = int32(f.GetSize())
			}
		}
		w.monitor.Add(e.GetEvent(), w.sizes)
	}
}

// findings are what was found, with the names that sources have now, by id: front-ends may name them after the run
// began.
func (w *driftWatch) findings(names []string) figures.Drift {
	found := w.monitor.Findings()
	for i := range found {
		f := &found[i]
		if f.SourceID < len(names) && f.ReferenceID < len(names) {
			f.Source, f.Reference = names[f.SourceID], names[f.ReferenceID]
		}
	}
	return figures.Drift{
		Findings: slices.Concat(w.earlier.Findings, found),
		Slips:    w.earlier.Slips + w.monitor.Slips(),
		Compared: w.earlier.Compared + w.monitor.Compared(),
	}
}
