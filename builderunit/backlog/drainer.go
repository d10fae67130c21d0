package backlog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"ringlet/builderunit/sink"
	"ringlet/filter"
	"ringlet/internal/safeopen"
	"ringlet/recording"
)

// Output is where a Drainer writes events.
type Output struct {
	Dir    string // of outputs, in which each run has a directory
	Format recording.Format
}

// Filter is what judges the events of a run: some filters in goroutines, or a Panel of processes.
type Filter struct {
	Filters  []filter.Filter
	External sink.ExternalFilter
	// Ready, where it is given, tells whether anybody is there to judge: the backlog waits meanwhile.
	Ready func() bool
}

// Config is what a Drainer is made with.
type Config struct {
	Dir string // of outputs with runs, or the directory of a run
	// AcceptedOutputs get what is not rejected, in turn: at least one.
	AcceptedOutputs []Output
	// RejectedOutput gets what is rejected; nil: nobody does, and Discards says that this is wanted.
	RejectedOutput   *Output
	DiscardsRejected bool
	// NewFilter makes what judges the events of a run; most is the largest MEP that was seen of it.
	NewFilter     func(m *recording.Manifest, most int) (Filter, error)
	EventDeadline time.Duration // of the filter for one event
	WriterTimeout time.Duration // how long nobody writes before a run without a verdict counts as over
	Node          string        // for the manifests
	Host          string
	Program       string
	Log           *slog.Logger
	Progress      func(Result) // is told now and then; may be nil
}

// Result is what became of the backlog, as far as it is drained.
type Result struct {
	Runs              int                 `json:"runs"`
	Segments          int                 `json:"segments"` // drained, since the backlogs began
	RemovedSegments   int                 `json:"removed"`  // of these: their files are gone
	UndrainedSegments int                 `json:"left"`     // segments that are not drained
	UndrainedBytes    int64               `json:"left_bytes"`
	LiveSegments      int                 `json:"being_written"`    // of those left
	UnconcludedRuns   int                 `json:"runs_without_end"` // they have no verdict
	Decisions         recording.Decisions `json:"decided"`          // events of drained segments
	BrokenSegments    []string            `json:"broken,omitempty"`
}

// Drainer drains a backlog. It is used once, by one goroutine.
type Drainer struct {
	c              Config
	core           core
	begun          time.Time
	ledgers        map[string]*recording.Ledger // by directory of the run
	brokenSegments map[string]error             // segments that cannot be read, by directory and name
	currentRun     *runDrain                    // the run in hand; nil: none
	observedRuns   []observedRun
}

// observedRun is a run as it was looked at.
type observedRun struct {
	dir      string
	m        *recording.Manifest
	files    recording.Files
	run      runState
	listed   []recording.Segment // in the order of the run's
	unlisted []string            // closed segments that are not in the manifest
}

// scanInterval is how often a drainer that waits looks whether there is more.
const scanInterval = 100 * time.Millisecond

// New makes a Drainer. Nothing is opened before Run.
func New(c Config) *Drainer {
	return &Drainer{
		c:              c,
		core:           core{writerTimeout: c.WriterTimeout},
		begun:          time.Now(),
		ledgers:        map[string]*recording.Ledger{},
		brokenSegments: map[string]error{},
	}
}

// Run drains until all is drained and nobody writes, until ctx is done, or until something fails. What is drained is
// drained in each case; called on a new Drainer, Run goes on where this one was.
func (d *Drainer) Run(ctx context.Context) (Result, error) {
	err := d.run(ctx)
	err = errors.Join(err, d.closeRun(false))
	if lookErr := d.scan(); err == nil {
		err = lookErr
	}
	return d.result(), err
}

func (d *Drainer) run(ctx context.Context) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := d.scan(); err != nil {
			return err
		}
		if d.c.Progress != nil {
			d.c.Progress(d.result())
		}
		next := d.core.next(time.Since(d.begun), d.runStates())
		if next.act == actEnd {
			if err := d.closeRun(true); err != nil {
				return err
			}
			return d.finishOutputs(ctx)
		}
		if err := d.perform(ctx, next); err != nil {
			return err
		}
	}
}

// perform does what was decided.
func (d *Drainer) perform(ctx context.Context, next step) error {
	if next.act == actWait {
		select {
		case <-ctx.Done():
		case <-time.After(scanInterval):
		}
		return nil
	}
	s := &d.observedRuns[next.RunIndex]
	if next.act == actRecover {
		found, err := recording.Recover(ctx, s.dir)
		for i := range found {
			d.c.Log.Info("what a killed process left was closed", "segment", found[i].String())
		}
		return err
	}
	if err := d.switchTo(ctx, s); err != nil {
		return err
	}
	listed := s.listed[next.SegmentIndex]
	if next.act == actRemove {
		return d.currentRun.ledger.RemoveSegmentFiles(listed)
	}
	if _, drained := d.currentRun.ledger.Lookup(listed); drained {
		return nil // by another process, since this one looked
	}
	err := d.currentRun.drainSegment(ctx, listed)
	var bad *recording.Problem
	if errors.As(err, &bad) {
		d.brokenSegments[s.dir+"/"+listed.Name] = err
		d.c.Log.Error("a segment of the backlog cannot be drained, and stays", "segment", listed.Name, "err", err)
		return nil
	}
	return err
}

// switchTo takes a run in hand, and lays down the one before.
func (d *Drainer) switchTo(ctx context.Context, s *observedRun) error {
	if d.currentRun != nil && d.currentRun.dir == s.dir {
		d.currentRun.m = s.m
		return nil
	}
	if err := d.closeRun(true); err != nil {
		return err
	}
	now, err := d.openRun(ctx, s)
	if err != nil {
		return err
	}
	d.currentRun, d.ledgers[s.dir] = now, now.ledger
	return nil
}

// closeRun lays the run in hand down: its outputs are made whole. With conclude, they get the verdict of the run, if
// that has one and all of it is drained.
func (d *Drainer) closeRun(conclude bool) error {
	now := d.currentRun
	if now == nil {
		return nil
	}
	d.currentRun = nil
	err := now.finish()
	if conclude && err == nil {
		err = d.conclude(now)
	}
	return errors.Join(err, now.release())
}

// finishOutputs makes outputs whole whose process was killed after the last segment, and gives them the verdict of the
// run, where that came later.
func (d *Drainer) finishOutputs(ctx context.Context) error {
	for i := range d.observedRuns {
		s := &d.observedRuns[i]
		if !d.hasUnfinishedOutput(s) {
			continue
		}
		if err := errors.Join(d.switchTo(ctx, s), d.closeRun(true)); err != nil {
			return err
		}
	}
	return nil
}

// hasUnfinishedOutput says whether an output that a run went to has open segments, or lacks the verdict of the run.
func (d *Drainer) hasUnfinishedOutput(s *observedRun) (open bool) {
	outputs, to := d.c.outputs(), d.ledgers[s.dir].Destinations()
	if len(outputs) != len(to) {
		return false
	}
	for i := range outputs {
		dir := recording.RunDir(outputs[i].Dir, s.m.Run)
		m, err := recording.Load(dir)
		if err != nil || m.ID != to[i].Directory {
			return false
		}
		files, err := recording.ReadFiles(dir)
		open = open || err != nil || len(files.OpenFiles) > 0 || m.Verdict == nil && s.m.Verdict != nil
	}
	return open
}

// runStates are what the core is told of the runs.
func (d *Drainer) runStates() (states []runState) {
	for i := range d.observedRuns {
		states = append(states, d.observedRuns[i].run)
	}
	return states
}

// scan looks at all runs of the backlog.
func (d *Drainer) scan() error {
	dirs, err := recording.Runs(d.c.Dir)
	var link *safeopen.SymlinkError
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the run has not begun
	} else if err != nil && !errors.As(err, &link) { // to that run nobody goes, and no other waits for it
		return err
	}
	d.observedRuns = d.observedRuns[:0]
	for _, dir := range dirs {
		s, err := d.scanRun(dir)
		if err != nil {
			return err
		}
		d.observedRuns = append(d.observedRuns, s)
	}
	return nil
}

// scanRun looks at one run.
func (d *Drainer) scanRun(dir string) (s observedRun, err error) {
	s.dir = dir
	if s.m, err = recording.Load(dir); err != nil {
		return s, err
	}
	if s.files, err = recording.ReadFiles(dir); err != nil {
		return s, err
	}
	l := d.ledgers[dir]
	if l == nil {
		l = recording.NewLedger(dir, s.m)
		d.ledgers[dir] = l
	}
	if err := l.Refresh(); err != nil {
		return s, err
	}
	s.run = runState{
		IsBacklog:    s.m.BacklogBytes > 0,
		Concluded:    s.m.Verdict != nil,
		OpenSegments: len(s.files.OpenFiles),
		LiveSegments: s.files.LiveFiles,
	}
	listed := map[string]bool{}
	for seg := range s.m.AllSegments {
		_, there := s.files.ClosedFiles[seg.Name]
		listed[seg.Name] = true
		drained, ok := l.Lookup(*seg)
		id, _, _ := recording.ParseSegment(seg.Name)
		there = there || ok && s.files.Indexes[id.Index()]
		s.listed = append(s.listed, *seg)
		s.run.Segments = append(s.run.Segments, segmentState{
			Name:      seg.Name,
			ClosedAt:  seg.Closed,
			Drained:   ok,
			FilesGone: !there || d.brokenSegments[dir+"/"+seg.Name] != nil,
			Damaged:   ok && drained.Damaged > 0,
		})
	}
	for name := range s.files.ClosedFiles {
		if !listed[name] { // its writer was killed in between
			s.unlisted = append(s.unlisted, name)
		}
	}
	s.run.OpenSegments += len(s.unlisted)
	return s, nil
}

// result is how far the backlog is.
func (d *Drainer) result() (r Result) {
	for i := range d.observedRuns {
		s := &d.observedRuns[i]
		r.Runs++
		r.Decisions.Add(d.ledgers[s.dir].Total())
		r.UndrainedSegments += len(s.files.OpenFiles)
		r.LiveSegments += s.files.LiveFiles
		if s.m.Verdict == nil {
			r.UnconcludedRuns++
		}
		for _, f := range s.files.OpenFiles {
			r.UndrainedBytes += f.Bytes
		}
		for _, name := range s.unlisted {
			r.UndrainedSegments++
			r.UndrainedBytes += s.files.ClosedFiles[name].Bytes
		}
		for _, seg := range s.run.Segments {
			f, there := s.files.ClosedFiles[seg.Name]
			switch {
			case seg.Drained:
				r.Segments++
				if !there {
					r.RemovedSegments++
				}
			case d.brokenSegments[s.dir+"/"+seg.Name] != nil, !there && s.m.Merged == nil: // it cannot be read, or is not there
				r.BrokenSegments = append(r.BrokenSegments, seg.Name)
				fallthrough
			default:
				r.UndrainedSegments++
				r.UndrainedBytes += f.Bytes
			}
		}
	}
	return r
}

// An Error says why a backlog cannot be drained, and what to do.
type Error struct{ Dir, Reason string }

func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Dir, e.Reason) }
