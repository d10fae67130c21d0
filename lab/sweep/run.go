package sweep

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"ringlet/lab/page"
	"ringlet/lab/trial"
)

// Config says how a sweep is run.
type Config struct {
	Dir     string // made if it does not exist
	Resume  bool   // continue the results in Dir
	Rounds  int    // 0 = as in the file
	Version string
	Command string // a shell command that repeats the sweep
	// Spawn makes one run and returns its report: the standard output of the program, run with the arguments of the turn's
	// cell. A caller that makes the run in another way uses the cell's configuration.
	Spawn func(ctx context.Context, t Turn) ([]byte, error)
	// MeasureReferences measures the limits of the bed of a cell's runs; nil = no references.
	MeasureReferences func(ctx context.Context, c *Cell) ([]ReferenceGoodput, error)
	// MeasureNamed measures a reference that the file names; nil if the file may name none.
	MeasureNamed func(ctx context.Context, name string) (trial.Figures, error)
	Progress     func(Progress) // may be nil
	Notify       func(string)   // called with a warning for readers of the results; may be nil
}

// ReferenceGoodput is one reference.
type ReferenceGoodput struct {
	Name string
	Gbps float64
}

// Progress is the progress of a sweep, before a run and after the last.
type Progress struct {
	Done, Total int
	UnderWay    string // name of the run under way
	LastFailure string // error of the run before, if it failed
	Remaining   time.Duration
}

// Summary is the result of a sweep.
type Summary struct {
	Dir         string
	GoodRuns    int // runs with a result, including earlier ones
	FailedRuns  int
	TotalRuns   int
	Interrupted bool

	results *results
}

// Verdicts are the results of the file's bounds.
func (s *Summary) Verdicts() []trial.Verdict { return s.results.verdicts() }

// Names of the files in the directory of a sweep.
const (
	fileResults = "results.jsonl"
	fileCSV     = "results.csv"
	fileHTML    = "report.html"
	fileAnswers = "answers.json" // written only if a bound is about a figure of a founding document
)

const (
	// overheadGuess is the time of a run beside its duration, until one was measured: starting, configuring, stopping (8
	// nodes on 2 cores, 2026-11-21).
	overheadGuess = 1500 * time.Millisecond
	// runTimeoutMargin is how much longer than its duration a run may take: more than the sum of its own time-outs.
	runTimeoutMargin = 90 * time.Second
	// unboundedRunTimeout is for runs that end after a number of events.
	unboundedRunTimeout = 10 * time.Minute
)

// session is a sweep under way.
type session struct {
	cfg            Config
	sweep          *Sweep
	log            *resultsLog
	results        *results
	rounds         int
	remainingTurns []Turn
	overheadSum    time.Duration // sum over the runs so far: their times less their durations
	runsDone       int
}

// Run runs the remaining turns of a sweep. The directory has the results so far, however Run ends. An error is about
// the sweep; the summary counts runs that failed.
func Run(ctx context.Context, s *Sweep, cfg Config) (*Summary, error) {
	run := &session{cfg: cfg, sweep: s, rounds: s.Repeat}
	if cfg.Rounds > 0 {
		run.rounds = cfg.Rounds
	}
	if !cfg.Resume {
		if err := os.MkdirAll(cfg.Dir, 0o777); err != nil {
			return nil, err
		}
	}
	var err error
	if run.log, run.results, err = openLog(filepath.Join(cfg.Dir, fileResults), s, cfg.Resume); err != nil {
		return nil, err
	}
	for _, o := range outputs {
		_ = os.Remove(filepath.Join(cfg.Dir, o.name) + page.UnsavedSuffix) // left by a sweep that was killed, if at all
	}
	all := s.order(run.rounds)
	done := run.results.doneTurns()
	for _, t := range all {
		if !done[turnKey{t.name(), t.Round}] {
			run.remainingTurns = append(run.remainingTurns, t)
		}
	}
	err = run.runAll(ctx)
	err = errors.Join(err, run.log.close(), run.write())
	good, failed := run.results.splitRuns()
	total := max(run.rounds*len(s.Cells), len(good)+len(failed)) // a resumed sweep may ask for fewer
	return &Summary{
		Dir:         cfg.Dir,
		GoodRuns:    len(good),
		FailedRuns:  len(failed),
		TotalRuns:   total,
		Interrupted: ctx.Err() != nil,
		results:     run.results,
	}, err
}

// start writes the line that the following runs belong to.
func (s *session) start() error {
	start := startLine{
		Kind:     kindSweep,
		Name:     s.sweep.Name,
		File:     s.sweep.File,
		Command:  s.cfg.Command,
		Hash:     s.sweep.Hash,
		BedsHash: s.sweep.BedsHash,
		Text:     s.sweep.Text,
		Rounds:   s.rounds,
		Started:  time.Now(),
		Machine:  page.ThisMachine(s.cfg.Version).ForProcesses(s.sweep.maxProcesses()),
		Bounds:   s.sweep.Bounds,
	}
	for i := range s.sweep.Cells {
		start.Cells = append(start.Cells, s.sweep.Cells[i].ID)
	}
	if n := len(s.results.Starts); n > 0 && s.cfg.Notify != nil {
		if was, is := s.results.Starts[n-1].Machine.Program(), start.Machine.Program(); was != is {
			s.cfg.Notify(fmt.Sprintf(
				"the runs so far are of %s, those that follow of %s: the page names both, but compares their runs", was, is))
		}
	}
	return s.keep(start)
}

// keepUnlessOver writes the line of a turn, unless the turn was interrupted.
func (s *session) keepUnlessOver(ctx context.Context, line any) error {
	select {
	case <-ctx.Done():
		return nil
	default:
		return s.keep(line)
	}
}

// keep writes a line to the file, and adds it to the results as if read from there.
func (s *session) keep(line any) error {
	text, err := json.Marshal(line)
	if err == nil {
		err = s.log.add(text)
	}
	if err == nil {
		err = s.results.line(text)
	}
	return err
}

// runAll takes the remaining turns, with references in between. It returns early when ctx ends. If no turn is left, it
// starts nothing, and the caller only writes the outputs anew.
func (s *session) runAll(ctx context.Context) error {
	if len(s.remainingTurns) == 0 {
		return nil
	}
	if err := s.start(); err != nil {
		return err
	}
	failed, runs := "", 0
	done, err := trial.Loop(ctx, s.remainingTurns, func(i int, t Turn) (err error) {
		if every := s.sweep.ReferenceEvery; t.Cell != nil && every > 0 && runs%every == 0 {
			if err := s.measureReferences(ctx, t.Cell); err != nil {
				return err
			}
		}
		s.progress(i, t.name(), failed)
		if t.Cell == nil {
			failed, err = s.measureNamed(ctx, t)
		} else {
			runs++
			failed, err = s.turn(ctx, t)
		}
		if last := i+1 == len(s.remainingTurns); err == nil && !last && s.remainingTurns[i+1].Round != t.Round {
			err = s.write() // a report of whole rounds while the sweep goes on
		}
		return err
	})
	if done == len(s.remainingTurns) {
		s.progress(done, "", failed)
	}
	return err
}

// maxProcesses is the largest number of processes in a run of the sweep.
func (s *Sweep) maxProcesses() int {
	most := 0
	for i := range s.Cells {
		most = max(most, s.Cells[i].Config.Nodes)
	}
	return most
}

func (s *session) progress(i int, what, failed string) {
	if s.cfg.Progress == nil {
		return
	}
	each := overheadGuess
	if s.runsDone > 0 {
		each = s.overheadSum / time.Duration(s.runsDone)
	}
	var remaining time.Duration
	for _, t := range s.remainingTurns[i:] {
		remaining += t.duration() + each
	}
	all := (len(s.sweep.Cells) + len(s.sweep.References)) * s.rounds
	s.cfg.Progress(Progress{
		Done:        all - len(s.remainingTurns) + i,
		Total:       all,
		UnderWay:    what,
		LastFailure: failed,
		Remaining:   remaining,
	})
}

// turn makes one run and writes its line, and returns why it failed. An interrupted run has no line: its report is not
// a result.
func (s *session) turn(ctx context.Context, t Turn) (failed string, err error) {
	rec := t.Cell.attempt(ctx, func(ctx context.Context) ([]byte, error) { return s.cfg.Spawn(ctx, t) })
	rec.Round = t.Round
	took := time.Duration(rec.WallS * float64(time.Second))
	s.overheadSum, s.runsDone = s.overheadSum+max(0, took-t.Cell.Config.Duration), s.runsDone+1
	return rec.Error, s.keepUnlessOver(ctx, rec)
}

// attempt makes one run, with a time-out.
func (c *Cell) attempt(ctx context.Context, spawn func(context.Context) ([]byte, error)) *runLine {
	limit := c.Config.Duration + runTimeoutMargin
	if c.Config.Duration == 0 {
		limit = unboundedRunTimeout
	}
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	rec := &runLine{
		Kind:    kindRun,
		Series:  c.Series,
		Cell:    c.ID,
		Varied:  c.Varied,
		Fixed:   c.Fixed,
		Setup:   c.setup(),
		Args:    c.Args,
		Started: time.Now(),
	}
	others := measureOtherLoad()
	out, err := spawn(bounded)
	rec.WallS = time.Since(rec.Started).Seconds()
	rec.OtherCPUs = others()
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		rec.ExitCode = ended.ExitCode()
	} else if err != nil {
		rec.ExitCode = -1
	}
	report, broken := readReport(out)
	rec.Report = report
	switch {
	case bounded.Err() != nil:
		rec.Error = fmt.Sprintf("had not ended after %v and was stopped", limit)
	case broken != nil && err != nil:
		rec.Error = err.Error() // the program's own error
	case broken != nil:
		rec.Error = broken.Error()
	}
	return rec
}

// Measure makes one run, as a sweep does, and returns its figures.
func (c *Cell) Measure(ctx context.Context, spawn func(context.Context) ([]byte, error)) (trial.Figures, error) {
	rec := c.attempt(ctx, spawn)
	if rec.Error != "" {
		return nil, errors.Join(ctx.Err(), fmt.Errorf("the run %s: %s", c.ID, rec.Error))
	}
	m, _ := parseRun(rec)
	return m.figures, nil
}

// errNoBalance is a run with a report that is not a result.
var errNoBalance = errors.New("its accounts do not balance, or it failed")

// readReport parses the output of a run; the error says why the run is not a result. It drops counters that are zero
// and accounts that balance: they are most of the report, and their absence means the same.
func readReport(out []byte) (json.RawMessage, error) {
	var report map[string]json.RawMessage
	var parsed outcome
	err := json.Unmarshal(out, &report)
	if err == nil {
		err = json.Unmarshal(out, &parsed)
	}
	if err != nil {
		return nil, fmt.Errorf("printed no valid report: %w", err)
	}
	var counters []struct {
		Node     string            `json:"node"`
		State    string            `json:"state"`
		Counters map[string]uint64 `json:"counters"`
	}
	if json.Unmarshal(report["counters"], &counters) == nil {
		for _, n := range counters {
			maps.DeleteFunc(n.Counters, func(_ string, v uint64) bool { return v == 0 })
		}
		report["counters"], _ = json.Marshal(counters) // strings and numbers only: it cannot fail
	}
	if parsed.AccountsOK {
		delete(report, "accounts")
	}
	text, err := json.Marshal(report)
	switch why := parsed.whyUndisturbed(); {
	case err != nil:
	case !parsed.AccountsOK:
		err = errNoBalance
	case why != "":
		err = fmt.Errorf("a disturbance failed: %s", why)
	}
	return text, err
}

// measureReferences measures the references and writes their lines. A reference that fails has a line with its error.
func (s *session) measureReferences(ctx context.Context, c *Cell) error {
	if s.cfg.MeasureReferences == nil {
		return nil
	}
	ref := referenceLine{Kind: kindReference, Series: c.Series, Started: time.Now()}
	all, err := s.cfg.MeasureReferences(ctx, c)
	if err != nil {
		all, ref.Error = []ReferenceGoodput{{Name: "TCP"}}, err.Error()
	}
	for _, m := range all {
		ref.Name, ref.Gbps = m.Name, m.Gbps
		if err := s.keepUnlessOver(ctx, ref); err != nil {
			return err
		}
	}
	return nil
}

// measureNamed measures a reference that the file names and writes its line, and returns why it failed.
func (s *session) measureNamed(ctx context.Context, t Turn) (failed string, err error) {
	ref := referenceLine{
		Kind:    kindReference,
		Name:    t.Reference,
		Started: time.Now(),
		Round:   t.Round,
		Error:   "references that a file names cannot be measured from here",
	}
	if s.cfg.MeasureNamed != nil {
		others := measureOtherLoad()
		ref.Figures, err = s.cfg.MeasureNamed(ctx, t.Reference)
		ref.OtherCPUs, ref.Gbps, ref.Error = others(), ref.Figures["goodput_gbps"], ""
	}
	if err != nil {
		ref.Error = err.Error()
	}
	return ref.Error, s.keepUnlessOver(ctx, ref)
}

// outputs are the files made from the results.
var outputs = []struct {
	name string
	make func(io.Writer, *results) error
}{{fileCSV, writeCSV}, {fileHTML, writeHTML}, {fileAnswers, writeAnswers}}

// write makes the outputs from all results.
func (s *session) write() error {
	for _, o := range outputs {
		var b bytes.Buffer
		if err := o.make(&b, s.results); err != nil {
			return err
		}
		if b.Len() == 0 {
			continue // nothing to write
		}
		if err := page.Save(filepath.Join(s.cfg.Dir, o.name), b.Bytes()); err != nil {
			return err
		}
	}
	return nil
}
