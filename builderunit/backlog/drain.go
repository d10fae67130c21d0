package backlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"ringlet/builderunit/recording"
	"ringlet/builderunit/sink"
	"ringlet/filter"
	"ringlet/internal/registry"
)

// drain is a run in hand.
type drain struct {
	d       *Drainer
	dir     string
	m       *recording.Manifest
	ledger  *recording.Ledger
	outputs []string    // directories of the run in the outputs
	held    []io.Closer // these, for this process alone
	filter  *sink.Filtered
	ready   func() bool // somebody is there to judge

	// owned by the goroutine that drains
	done  *recording.Set // MEPs that are drained, or were judged by this process; marked
	found *recording.Set // MEPs that were in the outputs before this process; marked

	mu    sync.Mutex
	tally recording.Decided // of the segment in hand
}

// open takes a run in hand: its ledger, its outputs, and what judges.
func (d *Drainer) open(ctx context.Context, s *seen) (_ *drain, err error) {
	if err := d.check(s.m, s.dir); err != nil {
		return nil, err
	}
	o := &drain{
		d:      d,
		dir:    s.dir,
		m:      s.m,
		ledger: recording.NewLedger(s.dir, s.m),
	}
	o.done, o.found = recording.NewSet(s.m.Packing), recording.NewSet(s.m.Packing)
	if err := o.ledger.Open(); err != nil {
		return nil, err
	}
	if aside := o.ledger.Aside(); aside != "" {
		d.c.Log.Warn("the end of the ledger had no right checksum: it was cut off and is kept; a segment that it names "+
			"is drained again if its files are there, else look into it", "run", s.dir, "kept", aside)
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
	if err := o.ledger.Mark(o.done); err != nil {
		return nil, err
	}
	judges, err := d.c.Filter(s.m, most(s.m))
	if err != nil {
		return nil, err
	}
	route, err := registry.Find("rule", sink.Routes, "decision")
	if err != nil {
		return nil, err
	}
	o.ready = judges.Attended
	o.filter = sink.NewFiltered(sink.NewStreams(route, sinks), sink.FilterConfig{
		Filters:  judges.Filters,
		Panel:    judges.Panel,
		Deadline: d.c.Deadline,
		MostMEP:  most(s.m),
		Decided:  o.decided,
		Log:      d.c.Log,
	})
	return o, nil
}

// release gives ledger and outputs to others.
func (o *drain) release() error {
	for _, h := range o.held {
		_ = h.Close() // nothing was written
	}
	return o.ledger.Close()
}

// most is the largest MEP that there may be, as far as the closed segments tell: none is larger than its segment.
func most(m *recording.Manifest) int {
	most := int64(0)
	for i := range m.Builders {
		for _, s := range m.Builders[i].Segments {
			if s.MEPs > 0 {
				most = max(most, s.Bytes-int64(s.MEPs-1)) // the others have a byte at least
			}
		}
	}
	return int(most)
}

func newSet(m *recording.Manifest) *recording.Set {
	if m.Live {
		return recording.NewLiveSet(m.Packing)
	}
	return recording.NewSet(m.Packing)
}

// check says why a run cannot be drained.
func (d *Drainer) check(m *recording.Manifest, dir string) error {
	switch {
	case m.Format != recording.MEP.String():
		return &Error{dir, fmt.Sprintf("it has %s, and a filter needs events as they were built: record the run with "+
			"--output mep:DIR/", m.Format)}
	case m.Merged != nil:
		return &Error{dir, "it was merged into " + m.Merged.Path + ": only segments can be drained"}
	case m.Drains != "":
		return &Error{dir, "it is what a second filter wrote, and no backlog"}
	case m.Backlog > 0 && d.c.Rejected == nil && !d.c.Discards:
		return &Error{dir, "it is a backlog, of which segments are removed when they are drained, and what the filter " +
			"rejects would be gone: say that this is wanted with discard: as the last output, or give one to keep it"}
	}
	return nil
}

// all are the outputs in the order of streams.
func (c *Config) all() []Output {
	all := slices.Clone(c.Accepted)
	if c.Rejected != nil {
		all = append(all, *c.Rejected)
	}
	return all
}

// openOutputs opens the outputs, and finds out what is in them.
func (o *drain) openOutputs(ctx context.Context) (sinks []sink.Sink, err error) {
	key, err := recording.ParseKey(o.m.Key)
	if err != nil {
		return nil, err
	}
	all := o.d.c.all()
	if err := o.compare(all); err != nil {
		return nil, err
	}
	var places []recording.Place
	for range all {
		place, err := o.join(ctx, all, places, key)
		if err != nil {
			return nil, err
		}
		places = append(places, place)
	}
	if o.ledger.To() == nil {
		if err := o.ledger.Begin(places); err != nil {
			return nil, err
		}
	}
	for i := range all {
		to, err := sink.NewSegments(sink.SegmentsConfig{
			Dir:        o.outputs[i],
			Run:        o.m.Run,
			Key:        key,
			Format:     all[i].Format,
			Node:       o.d.c.Node,
			Host:       o.d.c.Host,
			Program:    o.d.c.Program,
			Durability: recording.Disk,
		})
		if err != nil {
			return sinks, err
		}
		sinks = append(sinks, to)
	}
	if o.d.c.Rejected == nil {
		sinks = append(sinks, &sink.Discard{})
	}
	return sinks, nil
}

// compare refuses outputs other than those to which events went before, before anything is made in them.
func (o *drain) compare(all []Output) error {
	before := o.ledger.To()
	if before == nil {
		return nil
	}
	same := len(before) == len(all)
	for i := 0; same && i < len(all); i++ {
		m, err := recording.Load(recording.RunDir(all[i].Dir, o.m.Run))
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

// join opens the directory of the run in the output behind those before, closes what a killed process left there, and
// notes what is in it.
func (o *drain) join(ctx context.Context, all []Output, before []recording.Place,
	key recording.Key,
) (p recording.Place, err error) {
	out := all[len(before)]
	about := recording.About{
		Run:               o.m.Run,
		Key:               key,
		Format:            out.Format,
		Packing:           o.m.Packing,
		Live:              o.m.Live,
		Drains:            o.m.ID,
		Program:           o.d.c.Program,
		Configuration:     o.m.Configuration,
		ConfigurationHash: o.m.ConfigurationHash,
	}
	if len(all) > 1 {
		about.Stream = &recording.Stream{Number: len(before), Of: len(all), By: "decision"}
	}
	dir, err := recording.OpenRun(out.Dir, about, false)
	if err != nil {
		return p, err
	}
	m, err := recording.Load(dir)
	if err != nil {
		return p, err
	}
	if m.Drains != o.m.ID {
		return p, &Error{dir, "it is of the same run, and not what a second filter wrote: give another output"}
	}
	if slices.ContainsFunc(before, func(p recording.Place) bool { return p.Directory == m.ID }) {
		return p, &Error{dir, "two outputs are this one place: give each a directory of its own"}
	}
	held, err := recording.Hold(dir)
	if err != nil {
		return p, err
	}
	o.held = append(o.held, held)
	if _, err := recording.Recover(ctx, dir); err != nil {
		return p, err
	}
	c, err := recording.Read(ctx, dir)
	if err != nil {
		return p, err
	}
	for problem := range c.All {
		return p, &Error{dir, fmt.Sprintf("it cannot be gone on with: %v", problem)}
	}
	o.found.Mark(c.Set)
	o.outputs = append(o.outputs, dir)
	path, err := filepath.Abs(dir)
	return recording.Place{Directory: m.ID, Path: path}, err
}

// decided takes what was decided. It is told under a lock of the filter's, from any goroutine.
func (o *drain) decided(m sink.Meta, _, n int, v filter.Verdict, _ time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch v.Decision {
	case filter.Accepted:
		o.tally.Accepted += uint64(n)
	case filter.Rejected:
		o.tally.Rejected += uint64(n)
		if m.Decision.Keeps() {
			o.tally.Carried += uint64(n)
		}
	case filter.TimedOut:
		o.tally.TimedOut += uint64(n)
	default:
		o.tally.Failed += uint64(n)
	}
}

// segment drains a segment.
func (o *drain) segment(ctx context.Context, listed recording.Segment) error {
	o.tally = recording.Decided{}
	meps, beside := newSet(o.m), recording.Decided{}
	err := recording.EachMEP(ctx, o.dir, o.m, listed, func(p *recording.Part) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if p.Err == nil { // another copy of one that is damaged may do
			meps.Add(p.Entry)
		}
		return o.one(ctx, p, &beside)
	})
	if flushErr := o.filter.Flush(); flushErr != nil {
		return flushErr
	}
	if err != nil {
		return err
	}
	o.mu.Lock()
	beside.Add(o.tally)
	o.mu.Unlock()
	return o.ledger.Append(recording.Drained{
		Segment: listed.Name,
		CRC:     listed.CRC,
		MEPs:    listed.MEPs,
		Decided: beside,
		At:      time.Now().UTC(),
	}, meps)
}

// one has one MEP judged, unless that was done.
func (o *drain) one(ctx context.Context, p *recording.Part, beside *recording.Decided) error {
	n := uint64(p.Events)
	switch {
	case o.done.Has(p.MEP):
		beside.Copies += n
		return nil
	case o.found.Has(p.MEP):
		beside.Found += n
		o.done.MarkOne(p.MEP)
		return nil
	case p.Err != nil:
		beside.Damaged += n
		o.d.c.Log.Error("a MEP of the backlog cannot be judged; its segment stays", "err", p.Err)
		return nil //nolint:nilerr // it is told and counted, and the others are drained
	}
	if err := o.attended(ctx); err != nil {
		return err
	}
	o.done.MarkOne(p.MEP)
	// What is written is brought to its end, whatever ends this process in good order: no wait in it is without bound.
	return o.filter.Write(context.WithoutCancel(ctx), sink.Meta{
		Run:        o.m.Run,
		MEP:        p.MEP,
		FirstEvent: p.FirstEvent,
		Events:     int(p.Events),
		Attempt:    p.Attempt,
	}, p.Data)
}

// attended waits until somebody is there to judge.
func (o *drain) attended(ctx context.Context) error {
	for said := false; o.ready != nil && !o.ready(); said = true {
		if !said {
			o.d.c.Log.Warn("no filter process is there: the backlog waits until one is started")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lookTime):
		}
	}
	return nil
}

func segmentOf(m *recording.Manifest, name string) (recording.Segment, bool) {
	for i := range m.Builders {
		for _, s := range m.Builders[i].Segments {
			if s.Name == name {
				return s, true
			}
		}
	}
	return recording.Segment{}, false
}

// finish makes the outputs whole.
func (o *drain) finish() error {
	_, err := o.filter.Finish()
	return errors.Join(err, o.filter.Abort())
}

// conclude writes the verdict of the run to its outputs, when all of it is drained: that says how many events there are
// in each of them.
func (d *Drainer) conclude(o *drain) error {
	m, err := recording.Load(o.dir)
	if err != nil || m.Verdict == nil {
		return err
	}
	for i := range m.Builders {
		for _, s := range m.Builders[i].Segments {
			if _, ok := o.ledger.Of(s); !ok {
				return nil
			}
		}
	}
	for _, dir := range o.outputs {
		c, err := recording.Read(context.Background(), dir)
		if err != nil {
			return err
		}
		err = recording.Update(dir, func(out *recording.Manifest) error {
			v := *m.Verdict
			v.EventsHere = c.Events()
			out.Verdict = &v
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
