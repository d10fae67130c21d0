package backlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"ringlet/builderunit/sink"
	"ringlet/internal/registry"
	"ringlet/recording"
)

// runDrain is the run that the Drainer works on.
type runDrain struct {
	d           *Drainer
	dir         string
	m           *recording.Manifest
	ledger      *recording.Ledger
	outputDirs  []string    // directories of the run in the outputs
	outputLocks []io.Closer // locks of outputDirs
	filter      *sink.FilterSink
	filterReady func() bool // a filter process is there

	// owned by the goroutine that drains
	judged          *recording.MEPSet // MEPs that are drained, or were judged by this process; marked
	inOutputsBefore *recording.MEPSet // MEPs that were in the outputs before this process; marked
}

// openRun opens a run: its ledger, its outputs, and its filter.
func (d *Drainer) openRun(ctx context.Context, s *observedRun) (_ *runDrain, err error) {
	if err := d.checkRun(s.m, s.dir); err != nil {
		return nil, err
	}
	o := &runDrain{
		d:      d,
		dir:    s.dir,
		m:      s.m,
		ledger: recording.NewLedger(s.dir, s.m),
	}
	o.judged, o.inOutputsBefore = recording.NewMEPSet(s.m.Packing), recording.NewMEPSet(s.m.Packing)
	if err := o.ledger.Open(); err != nil {
		return nil, err
	}
	if aside := o.ledger.CutOffFile(); aside != "" {
		d.c.Log.Warn("the end of the ledger had no right checksum: it was cut off and is kept; a segment that it names "+
			"is drained again if its files are there; if they are not, look into the kept file", "run", s.dir, "kept", aside)
	}
	var sinks []sink.Sink
	defer func() {
		if err == nil {
			return
		}
		for _, to := range sinks {
			err = errors.Join(err, to.Abort())
		}
		err = errors.Join(err, o.release())
	}()
	if sinks, err = o.openOutputs(ctx); err != nil {
		return nil, err
	}
	if err := o.ledger.MarkMEPsIn(o.judged); err != nil {
		return nil, err
	}
	judges, err := d.c.NewFilter(s.m, maxMEPBytes(s.m))
	if err != nil {
		return nil, err
	}
	route, err := registry.Find("rule", sink.Routes, "decision")
	if err != nil {
		return nil, err
	}
	o.filterReady = judges.Ready
	o.filter = sink.NewFilterSink(sink.NewStreams(route, sinks), sink.FilterConfig{
		Filters:       judges.Filters,
		External:      judges.External,
		EventDeadline: d.c.EventDeadline,
		MaxMEPBytes:   maxMEPBytes(s.m),
		Log:           d.c.Log,
	})
	return o, nil
}

// release closes the ledger and unlocks the outputs.
func (o *runDrain) release() error {
	for _, h := range o.outputLocks {
		_ = h.Close() // nothing was written
	}
	return o.ledger.Close()
}

// maxMEPBytes returns an upper bound of the size of a MEP, from the closed segments: no MEP is larger than its
// segment.
func maxMEPBytes(m *recording.Manifest) int {
	largest := int64(0)
	for s := range m.AllSegments {
		if s.MEPs > 0 {
			largest = max(largest, s.Bytes-int64(s.MEPs-1)) // each other MEP has at least one byte
		}
	}
	return int(largest)
}

// checkRun says why a run cannot be drained.
func (d *Drainer) checkRun(m *recording.Manifest, dir string) error {
	switch {
	case m.Format != recording.FormatMEP:
		return &Error{dir, fmt.Sprintf("it has %s, and a filter needs events as they were built: record the run with "+
			"--output mep:DIR/", m.Format)}
	case m.Merged != nil:
		return &Error{dir, "it was merged into " + m.Merged.Path + ": only segments can be drained"}
	case m.SourceBacklog != "":
		return &Error{dir, "a second filter wrote it: it is no backlog"}
	case m.BacklogBytes > 0 && d.c.RejectedOutput == nil && !d.c.DiscardsRejected:
		return &Error{dir, "it is a backlog, of which segments are removed when they are drained, and what the filter " +
			"rejects would be gone: confirm this with discard: as the last output, or give an output for rejected events"}
	}
	return nil
}

// outputs returns the outputs in the order of streams.
func (c *Config) outputs() []Output {
	outputs := slices.Clone(c.AcceptedOutputs)
	if c.RejectedOutput != nil {
		outputs = append(outputs, *c.RejectedOutput)
	}
	return outputs
}

// openOutputs opens the outputs, and finds out which MEPs they have.
func (o *runDrain) openOutputs(ctx context.Context) (sinks []sink.Sink, err error) {
	outputs := o.d.c.outputs()
	if err := o.checkOutputs(outputs); err != nil {
		return nil, err
	}
	var places []recording.Destination
	for range outputs {
		place, err := o.openOutput(ctx, outputs, places)
		if err != nil {
			return nil, err
		}
		places = append(places, place)
	}
	if o.ledger.Destinations() == nil {
		if err := o.ledger.SetDestinations(places); err != nil {
			return nil, err
		}
	}
	for i := range outputs {
		to, err := sink.NewSegments(sink.SegmentsConfig{
			Dir:        o.outputDirs[i],
			Run:        o.m.Run,
			Key:        o.m.Key,
			Format:     outputs[i].Format,
			Node:       o.d.c.Node,
			Host:       o.d.c.Host,
			Program:    o.d.c.Program,
			Durability: recording.DurabilityDisk,
		})
		if err != nil {
			return sinks, err
		}
		sinks = append(sinks, to)
	}
	if o.d.c.RejectedOutput == nil {
		sinks = append(sinks, &sink.Discard{})
	}
	return sinks, nil
}

// checkOutputs refuses outputs other than those that have events of the run already, before anything is made in them.
func (o *runDrain) checkOutputs(outputs []Output) error {
	before := o.ledger.Destinations()
	if before == nil {
		return nil
	}
	same := len(before) == len(outputs)
	for i := 0; same && i < len(outputs); i++ {
		m, err := recording.Load(recording.RunDir(outputs[i].Dir, o.m.Run))
		same = err == nil && m.ID == before[i].Directory
	}
	if same {
		return nil
	}
	var paths []string
	for _, p := range before {
		paths = append(paths, p.Path)
	}
	return &Error{o.dir,
		fmt.Sprintf("some of its events are in %q already: give the outputs that were given first", paths)}
}

// openOutput opens the directory of the run in the output after those before, closes what a killed process left in it,
// and notes the MEPs that it has.
func (o *runDrain) openOutput(ctx context.Context, outputs []Output, before []recording.Destination) (
	p recording.Destination, err error) {
	out := outputs[len(before)]
	about := *o.m
	about.Format, about.Program, about.Created = out.Format, o.d.c.Program, time.Time{}
	about.SourceBacklog, about.BacklogBytes, about.Stream = o.m.ID, 0, nil
	if len(outputs) > 1 {
		about.Stream = &recording.Stream{Number: len(before), Count: len(outputs), Rule: "decision"}
	}
	dir, err := recording.OpenRun(out.Dir, about, false)
	if err != nil {
		return p, err
	}
	m, err := recording.Load(dir)
	if err != nil {
		return p, err
	}
	if m.SourceBacklog != o.m.ID {
		return p, &Error{dir, "it is of the same run, and not what a second filter wrote: give another output"}
	}
	if slices.ContainsFunc(before, func(p recording.Destination) bool { return p.Directory == m.ID }) {
		return p, &Error{dir, "two outputs are this same directory: give each a directory of its own"}
	}
	held, err := recording.LockRunDir(dir)
	if err != nil {
		return p, err
	}
	o.outputLocks = append(o.outputLocks, held)
	if _, err := recording.Recover(ctx, dir); err != nil {
		return p, err
	}
	c, err := recording.Read(ctx, dir)
	if err != nil {
		return p, err
	}
	for problem := range c.AllProblems {
		return p, &Error{dir, fmt.Sprintf("it cannot be continued: %v", problem)}
	}
	o.inOutputsBefore.MarkSet(c.MEPSet)
	o.outputDirs = append(o.outputDirs, dir)
	path, err := filepath.Abs(dir)
	return recording.Destination{Directory: m.ID, Path: path}, err
}

// drainSegment judges all MEPs of a segment and writes the segment's line of the ledger.
func (o *runDrain) drainSegment(ctx context.Context, listed recording.Segment) error {
	meps, decided, before := o.m.NewMEPSet(), recording.Decisions{}, o.filter.Stats()
	err := recording.EachMEP(ctx, o.dir, o.m, listed, func(p *recording.RecordedMEP) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if p.Err == nil { // of a damaged MEP another copy may be good
			meps.Add(p.Entry)
		}
		return o.judgeMEP(ctx, p, &decided)
	})
	if flushErr := o.filter.Flush(); flushErr != nil {
		return flushErr
	}
	if err != nil {
		return err
	}
	now := o.filter.Stats() // Flush has waited for all decisions
	decided.Accepted, decided.Rejected = now.AcceptedEvents-before.AcceptedEvents, now.RejectedEvents-before.RejectedEvents
	decided.RejectedKept = now.RejectedKept - before.RejectedKept
	decided.TimedOut, decided.Failed = now.TimedOutEvents-before.TimedOutEvents, now.FailedEvents-before.FailedEvents
	return o.ledger.AppendSegment(recording.DrainedSegment{
		Segment:   listed.Name,
		CRC:       listed.CRC,
		MEPs:      listed.MEPs,
		Decisions: decided,
		DrainedAt: time.Now().UTC(),
	}, meps)
}

// judgeMEP has the filter judge one MEP, unless it was judged before.
func (o *runDrain) judgeMEP(ctx context.Context, p *recording.RecordedMEP, beside *recording.Decisions) error {
	n := uint64(p.Events)
	switch {
	case o.judged.Contains(p.MEP):
		beside.Copies += n
		return nil
	case o.inOutputsBefore.Contains(p.MEP):
		beside.FoundInOutput += n
		o.judged.MarkMEP(p.MEP)
		return nil
	case p.Err != nil:
		beside.Damaged += n
		o.d.c.Log.Error("a MEP of the backlog cannot be judged; its segment stays", "err", p.Err)
		return nil //nolint:nilerr // the MEP is logged and counted, and the others are drained
	}
	if err := o.waitForFilter(ctx); err != nil {
		return err
	}
	o.judged.MarkMEP(p.MEP)
	// A write is finished even if ctx ends: each wait in it is bounded.
	return o.filter.Write(context.WithoutCancel(ctx), sink.Meta{
		Run:        o.m.Run,
		MEP:        p.MEP,
		FirstEvent: p.FirstEvent,
		Events:     int(p.Events),
		Attempt:    p.Attempt,
	}, p.Data)
}

// waitForFilter waits until a filter process is there.
func (o *runDrain) waitForFilter(ctx context.Context) error {
	for said := false; o.filterReady != nil && !o.filterReady(); said = true {
		if !said {
			o.d.c.Log.Warn("no filter process is there: the backlog waits until one is started")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(scanInterval):
		}
	}
	return nil
}

// finish closes the outputs' segments.
func (o *runDrain) finish() error {
	_, err := o.filter.Finish()
	return errors.Join(err, o.filter.Abort())
}

// conclude writes the verdict of the run to its outputs when the whole run is drained: the verdict says how many
// events each output has.
func (d *Drainer) conclude(o *runDrain) error {
	m, err := recording.Load(o.dir)
	if err != nil || m.Verdict == nil {
		return err
	}
	for s := range m.AllSegments {
		if _, ok := o.ledger.Lookup(*s); !ok {
			return nil
		}
	}
	for _, dir := range o.outputDirs {
		c, err := recording.Read(context.Background(), dir)
		if err != nil {
			return err
		}
		err = recording.UpdateManifest(dir, func(out *recording.Manifest) error {
			v := *m.Verdict
			v.EventsInDirectory = c.Events()
			out.Verdict = &v
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
