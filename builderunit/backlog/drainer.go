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

// Output is a place to which a Drainer writes events.
type Output struct {
	Dir    string // directory of outputs, in which each run has a directory
	Format recording.Format
}

// Filter judges the events of a run: filters in goroutines, or a pool of processes.
type Filter struct {
	Filters  []filter.Filter
	External sink.ExternalFilter
	// Ready, if it is not nil, says whether a filter process is there: without one the backlog waits.
	Ready func() bool
}

// Config is the configuration of a Drainer.
type Config struct {
	Dir string // directory of outputs with runs, or the directory of a run
	// AcceptedOutputs get the events that are not rejected, in turn: at least one.
	AcceptedOutputs []Output
	// RejectedOutput gets the rejected events. If it is nil, DiscardsRejected must confirm that they are discarded.
	RejectedOutput   *Output
	DiscardsRejected bool
	// NewFilter makes the filter for the events of a run; most is an upper bound of the size of its MEPs, in bytes.
	NewFilter     func(m *recording.Manifest, most int) (Filter, error)
	EventDeadline time.Duration // of the filter for one event
	WriterTimeout time.Duration // a run without a verdict counts as over when no process has written for this long
	Node          string        // for the manifests
	Host          string
	Program       string
	Log           *slog.Logger
	Progress      func(Result) // called with each scan; may be nil
}

// Result is how far the backlog is drained.
type Result struct {
	Runs              int                 `json:"runs"`
	Segments          int                 `json:"segments"` // drained, by all Drainers of the backlogs
	RemovedSegments   int                 `json:"removed"`  // of these, those whose files are removed
	UndrainedSegments int                 `json:"left"`     // segments that are not drained
	UndrainedBytes    int64               `json:"left_bytes"`
	LiveSegments      int                 `json:"being_written"`    // of the undrained, those that a live process writes
	UnconcludedRuns   int                 `json:"runs_without_end"` // runs without a verdict
	Decisions         recording.Decisions `json:"decided"`          // events of drained segments
	BrokenSegments    []string            `json:"broken,omitempty"`
}

// Drainer drains a backlog. One goroutine uses it, once.
type Drainer struct {
	c              Config
	core           core
	begun          time.Time
	ledgers        map[string]*recording.Ledger // by directory of the run
	brokenSegments map[string]error             // segments that cannot be read, by directory and name
	currentRun     *runDrain                    // nil: none
	observedRuns   []observedRun
}

// observedRun is a run as scan found it.
type observedRun struct {
	dir      string
	m        *recording.Manifest
	files    recording.Files
	run      runState
	listed   []recording.Segment // segments of the manifest, in its order
	unlisted []string            // closed segments that are not in the manifest
}

// scanInterval is how often a Drainer that waits scans the backlog.
const scanInterval = 100 * time.Millisecond

// New makes a Drainer. Run opens the files.
func New(c Config) *Drainer {
	return &Drainer{
		c:              c,
		core:           core{writerTimeout: c.WriterTimeout},
		begun:          time.Now(),
		ledgers:        map[string]*recording.Ledger{},
		brokenSegments: map[string]error{},
	}
}

// Run drains until all is drained and no process writes, until ctx ends, or until a step fails. Segments drained
// before stay drained in each case; Run of a new Drainer goes on after them.
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

// perform does the next step.
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
		return nil // another process drained it after the scan
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

// switchTo opens a run, and closes the one before.
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

// closeRun closes the open run and its outputs' segments. With conclude, the outputs get the verdict of the run, if it
// has one and is drained completely.
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

// finishOutputs closes outputs whose process was killed after the last segment, and gives outputs the verdict of their
// run if it came after the last segment.
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

// hasUnfinishedOutput says whether an output of a run has open segments, or lacks the verdict of the run.
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

// runStates returns the states that the core decides by.
func (d *Drainer) runStates() (states []runState) {
	for i := range d.observedRuns {
		states = append(states, d.observedRuns[i].run)
	}
	return states
}

// scan reads the state of all runs of the backlog.
func (d *Drainer) scan() error {
	dirs, err := recording.Runs(d.c.Dir)
	var link *safeopen.SymlinkError
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the run has not begun
	} else if err != nil && !errors.As(err, &link) { // the Drainer leaves a run behind a link alone, and drains the others
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

// scanRun reads the state of one run.
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
		if !listed[name] { // its writer was killed before it could list it
			s.unlisted = append(s.unlisted, name)
		}
	}
	s.run.OpenSegments += len(s.unlisted)
	return s, nil
}

// result returns how far the backlog is drained.
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
