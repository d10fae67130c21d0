package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"ringlet/builderunit/backlog"
	"ringlet/filter/builtin"
	"ringlet/filter/external"
	"ringlet/node/config"
	"ringlet/recording"
)

type filterCmd struct {
	Backlog string        `required:"" placeholder:"DIR" help:"What the first filter kept: an output directory of runs, or the directory of one run. It may be written meanwhile."`
	Filter  string        `required:"" placeholder:"WHAT" help:"What judges, as of a run: ${help_filters}. Behind a comma stands how long one event may take."`
	Output  string        `required:"" placeholder:"PATH" help:"Where accepted events go, and behind a comma rejected ones: mep:acc/,mep:rej/ or mdf:acc/,discard:. With one output rejected events stay in the backlog."`
	Wait    time.Duration `default:"30s" placeholder:"TIME" help:"How long to wait for a run to begin, or for the verdict of a run that nobody writes any more."`
	JSON    bool          `name:"json" help:"Print one JSON object."`
	Verbose bool          `short:"v" help:"Print log lines of all levels."`
}

// Run drains a backlog.
func (c *filterCmd) Run(ctx context.Context, to streams) error {
	choice, err := builtin.Parse(c.Filter)
	if err != nil {
		return &exit{exitUsage, err}
	}
	described, err := config.LoadFilterDescription(choice)
	if err == nil {
		_, err = choice.OpenFilters(0, described) // to check the detector
	}
	if err != nil {
		return &exit{exitUsage, err}
	}
	log := logger(to.err, c.Verbose)
	line := &dataLine{ttyLine: newLine(to.err, !c.JSON)}
	host, _ := os.Hostname() // for users only
	cfg := backlog.Config{
		Dir:           c.Backlog,
		EventDeadline: choice.Deadline,
		WriterTimeout: c.Wait,
		Node:          "filter",
		Host:          cmp.Or(host, "unknown"),
		Program:       version,
		Log:           log,
		Progress: func(r backlog.Result) {
			line.show("filter "+c.Backlog, int64(r.Segments), int64(r.Segments+r.UndrainedSegments))
		},
	}
	if err := c.outputs(&cfg); err != nil {
		return &exit{exitUsage, err}
	}
	cfg.NewFilter = func(m *recording.Manifest, most int) (f backlog.Filter, err error) {
		name := choice.ProcessName()
		if name == "" {
			f.Filters, err = choice.OpenFilters(runtime.GOMAXPROCS(0), described)
			return f, err
		}
		was, err := config.Restore("the manifest's configuration", []byte(m.Configuration))
		if err == nil && was.SlotSize > 0 {
			most = int(was.SlotSize) // no MEP is larger; the size of a segment is a far larger bound
		}
		p := external.New(external.Config{
			Name:       name,
			Run:        m.Run,
			Deadline:   choice.Deadline,
			MaxMEPSize: most,
			Log:        log,
		})
		f.External, f.Ready = p, func() bool { return p.Stats().Processes > 0 }
		return f, nil
	}
	r, err := backlog.New(cfg).Run(ctx)
	line.end()
	return c.show(to, &r, err)
}

// outputs parses --output, which is written as the outputs of a run.
func (c *filterCmd) outputs(to *backlog.Config) error {
	outputs := strings.Split(c.Output, ",")
	if len(outputs) > 2 {
		return fmt.Errorf("output %s: give one for accepted events, and behind a comma one for rejected ones", c.Output)
	}
	for i, output := range outputs {
		name, dir, colon := strings.Cut(output, ":")
		if i == 1 && output == "discard:" {
			to.DiscardsRejected = true
			return nil
		}
		format, err := recording.ParseFormat(name)
		if !colon || dir == "" || err != nil || format == recording.FormatMFP {
			return fmt.Errorf("output %s: give a format and a directory, as in mep:accepted/ or mdf:accepted/", output)
		}
		out := backlog.Output{Dir: strings.TrimSuffix(dir, "/"), Format: format}
		if i == 0 {
			to.AcceptedOutputs = []backlog.Output{out}
		} else {
			to.RejectedOutput = &out
		}
	}
	return nil
}

// unendedNote is a clause on runs without a verdict; empty if all have one.
func unendedNote(runs int) string {
	if runs == 0 {
		return ""
	}
	return fmt.Sprintf("; %s no verdict: it goes on, or its control was killed", withUnit(uint64(runs), "run has",
		"runs have"))
}

// show prints the result, and returns the error for the exit code.
func (c *filterCmd) show(to streams, r *backlog.Result, err error) error {
	var printed error
	if c.JSON {
		printed = printJSON(to.out, r)
	} else {
		d := &r.Decisions
		_, printed = fmt.Fprintf(to.out, "%s: %s drained%s: "+
			"%d events = %d accepted + %d rejected%s + %d timed out + %d failed%s%s%s; %s of %d bytes left%s\n",
			c.Backlog, withUnit(uint64(r.Segments), "segment", "segments"), formatIfAny(", %d of them removed",
				uint64(r.RemovedSegments)),
			d.Events(), d.Accepted, d.Rejected, formatIfAny(keptWithOthersNote, d.RejectedKept), d.TimedOut, d.Failed,
			formatIfAny(" + %d found in the output", d.FoundInOutput), formatIfAny(" + %d copies",
				d.Copies), formatIfAny(" + %d damaged", d.Damaged),
			withUnit(uint64(r.UndrainedSegments), "segment", "segments"), r.UndrainedBytes,
			unendedNote(r.UnconcludedRuns))
	}
	var refused *backlog.Error
	var busy *recording.DrainingError
	switch {
	case errors.Is(err, context.Canceled):
		return errors.Join(printed, explainInterruption(err, "nothing is lost; run it again: it goes on where it is"))
	case errors.As(err, &refused) || errors.As(err, &busy):
		return errors.Join(printed, &exit{exitUsage, err})
	case err != nil:
		return fmt.Errorf("%w: nothing is lost; when that is put right run it again: it goes on where it is", err)
	case r.Runs == 0:
		return &exit{exitInput, fmt.Errorf("%s: no run is recorded there", c.Backlog)}
	case len(r.BrokenSegments) > 0:
		return fmt.Errorf("%d segments could not be read, and stay: 'ringlet verify %s' says why", len(r.BrokenSegments),
			c.Backlog)
	case r.UndrainedSegments > r.LiveSegments:
		return fmt.Errorf("%s left open by a run that has ended, and could not be closed: 'ringlet recover %s' says why",
			withUnit(uint64(r.UndrainedSegments-r.LiveSegments), "segment is", "segments are"), c.Backlog)
	case r.Decisions.Damaged > 0:
		return fmt.Errorf("%d events were damaged on the disk; their segments stay", r.Decisions.Damaged)
	}
	return printed
}
