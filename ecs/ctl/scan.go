package ctl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"ringlet/lab/sweep"
	"ringlet/node/fsm"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// errTestbed refuses a list with a testbed or a control.
var errTestbed = errors.New(
	"the runs of a scan are on the nodes of the partition: leave out testbed and control, or use ringlet bench sweep")

// scan runs a list of configurations: a sweep whose runs are runs of the partition. It begins and ends with an unloaded
// partition.
func (s *Session) scan(ctx context.Context, st *step) error {
	steps, err := scanSteps(st)
	if err != nil {
		return err
	}
	list, err := sweep.Load(st.Args["file"], func(args []string) (sweep.BedSummary, error) {
		if args[0] != "run" {
			return sweep.BedSummary{}, errTestbed
		}
		return sweep.BedSummary{}, nil // each node is a host; the speed of its port is not known here
	})
	if err != nil {
		return &usageError{doScan, err.Error()}
	}
	list.ReferenceEvery, list.References = 0, nil // no reference measurements: they run on the machines themselves
	if err := s.checkAllConfigurations(ctx, list); err != nil {
		return err
	}
	if err := s.unloadPartition(ctx, false); err != nil {
		return err
	}
	dir := st.Args["out"]
	if dir == "" {
		dir = "scan-" + strings.ReplaceAll(list.Name, " ", "-")
	}
	for i := range steps {
		if err := s.bringAbout(ctx, &steps[i]); err != nil {
			return err
		}
		if err := s.scanOnce(ctx, st, list, &steps[i], filepath.Join(dir, steps[i].String())); err != nil {
			return err
		}
	}
	return nil
}

// scanOnce makes the runs of a list, at one step, and writes their results to a directory.
func (s *Session) scanOnce(ctx context.Context, st *step, list *sweep.Sweep, at *scanStep, dir string) error {
	file := st.Args["file"]
	of := scanRunner{s: s, scanName: list.Name, step: at}
	resume := st.Args["resume"] == "true"
	if _, missing := os.Stat(dir); missing != nil && at.name != "" {
		resume = false // a step that an interrupted scan has not come to
	}
	sum, err := sweep.Run(ctx, list, sweep.Config{
		Dir:      dir,
		Resume:   resume,
		Rounds:   int(st.number("rounds")),
		Version:  s.cfg.Version,
		Spawn:    of.run,
		Progress: s.writeProgress,
		Notify:   func(what string) { fmt.Fprintln(s.cfg.Err, "scan: "+what) },
	})
	var unusable *sweep.ResultsError
	switch {
	case errors.As(err, &unusable):
		return &usageError{doScan, err.Error()}
	case err != nil:
		return err
	}
	if err := s.writeSummary(sum); err != nil {
		return err
	}
	switch {
	case sum.Interrupted:
		return &Error{
			Command:  doScan,
			ExitCode: exitFault,
			Why: fmt.Sprintf("interrupted; scan %s out=%s resume=true continues it", quote(file),
				quote(strings.TrimSuffix(dir, "/"+at.String()))),
			Err: context.Canceled,
		}
	case sum.FailedRuns > 0:
		return &Error{Command: doScan, ExitCode: exitRunNotGood,
			Why: fmt.Sprintf("%d of %d runs have no result; the reasons are in %s",
				sum.FailedRuns, sum.TotalRuns, filepath.Join(dir, "results.csv"))}
	}
	return nil
}

// writeSummary writes the results of the runs.
func (s *Session) writeSummary(sum *sweep.Summary) error {
	if s.cfg.JSON {
		_, err := fmt.Fprintf(s.cfg.Out, "{\"directory\":%q,\"runs\":%d,\"failed\":%d,\"of\":%d}\n", sum.Dir, sum.GoodRuns,
			sum.FailedRuns, sum.TotalRuns)
		return err
	}
	if err := sum.WriteText(s.cfg.Out); err != nil {
		return err
	}
	_, err := fmt.Fprintf(s.cfg.Out, "%d of %d runs have a result: %s\n", sum.GoodRuns, sum.TotalRuns,
		filepath.Join(sum.Dir, "report.html"))
	return err
}

func (s *Session) writeProgress(p sweep.Progress) {
	if p.LastFailure != "" {
		fmt.Fprintln(s.cfg.Err, "FAILED:", stripControlChars(p.LastFailure))
	}
	if p.UnderWay != "" {
		fmt.Fprintf(s.cfg.Err, "%d of %d, %v left: %s\n", p.Done+1, p.Total, p.Remaining.Round(time.Second), p.UnderWay)
	}
}

// checkAllConfigurations has the control check every configuration before the first run: the present nodes may not
// suffice for the last one.
func (s *Session) checkAllConfigurations(ctx context.Context, list *sweep.Sweep) error {
	for i := range list.Cells {
		c := &list.Cells[i]
		r, err := s.client.CheckConfiguration(ctx,
			&ecsv1.CheckConfigurationRequest{Configuration: string(c.Config.Effective())})
		if err != nil {
			return errorOf(doScan, s.cfg.Address, err)
		}
		if !r.GetOk() {
			return &Error{
				Command:  doScan,
				ExitCode: ExitUsage,
				Why:      fmt.Sprintf("the control would not take %q", c.ID),
				Details:  r.GetProblems(),
			}
		}
	}
	return nil
}

// scanRunner makes the runs of one scan.
type scanRunner struct {
	s        *Session
	scanName string
	step     *scanStep
}

const (
	// endGrace is how much longer than its duration a run may take before the scan stops it.
	endGrace = 30 * time.Second
	// unloadTimeout bounds how long it may take to end an interrupted run and unload the partition.
	unloadTimeout = time.Minute
)

// run makes one run and returns its report. It leaves the partition unloaded in any case.
func (sc *scanRunner) run(ctx context.Context, t sweep.Turn) (report []byte, err error) {
	defer func() {
		err = errors.Join(err, sc.s.unloadPartition(context.WithoutCancel(ctx), true))
	}()
	number, err := sc.begin(ctx, t)
	if err != nil {
		return nil, err
	}
	limit := t.Cell.Config.Duration
	if limit > 0 { // else its events or its input end it
		limit += endGrace
	}
	w := waitCondition{until: momentEnd, run: number, quiet: true}
	if err := sc.s.waitFor(ctx, w, limit); err != nil && ExitCode(err) != exitRunNotGood {
		return nil, err
	}
	rec, err := sc.s.client.GetRun(ctx, &ecsv1.GetRunRequest{Number: number})
	switch {
	case err != nil:
		return nil, errorOf(doScan, sc.s.cfg.Address, err)
	case rec.GetVerdict() != ecsv1.Verdict_VERDICT_GOOD:
		return nil, errors.New(verdictLine(rec))
	}
	return []byte(rec.GetReportJson()), nil
}

// begin loads, configures and starts the partition, and returns the number of the run.
func (sc *scanRunner) begin(ctx context.Context, t sweep.Turn) (uint32, error) {
	vocab, err := sc.s.LoadVocabulary(ctx)
	if err != nil {
		return 0, err
	}
	for _, name := range []string{"load", "configure", "start"} {
		c, _ := vocab.command(name)
		if c == nil {
			return 0, &Error{Command: doScan, ExitCode: exitFault, Why: "the control has no command " + name}
		}
		args := map[string]string{}
		for _, a := range c.GetArguments() {
			switch {
			case a.GetType() == typeYAML:
				args[a.GetName()] = string(t.Cell.Config.Effective())
			case a.GetName() == doScan:
				args[a.GetName()] = sc.scanName
			case a.GetName() == "remark":
				args[a.GetName()] = sc.remark(t)
			}
		}
		limited, cancel := context.WithTimeout(ctx, c.GetTimeout().AsDuration()+commandGrace)
		resp, err := sc.s.client.Command(limited, &ecsv1.CommandRequest{Command: name, Arguments: args})
		cancel()
		if err != nil {
			return 0, errorOf(name, sc.s.cfg.Address, err)
		}
		if name == "start" {
			return resp.GetRun(), nil
		}
	}
	return 0, nil
}

// remark identifies a run of the scan by its settings and its round.
func (sc *scanRunner) remark(t sweep.Turn) string {
	var words []string
	if t.Cell.Series != sc.scanName || len(t.Cell.Varied) == 0 {
		words = append(words, t.Cell.Series)
	}
	for _, v := range t.Cell.Varied {
		words = append(words, v.Key+"="+v.Text)
	}
	if text := sc.step.String(); text != "" {
		words = append(words, text)
	}
	return fmt.Sprintf("%s, round %d", strings.Join(words, " "), t.Round)
}

// unloadCommands are the commands that unload a partition from any state, in order: each is skipped in states that do
// not take it.
var unloadCommands = []fsm.Command{fsm.Stop, fsm.Reset, fsm.Recover, fsm.Unload}

// stablePollInterval is how often a scan asks for the state of a partition in a transition.
const stablePollInterval = 50 * time.Millisecond

// awaitStable waits until the partition is in no transition, and returns its status and state.
func (s *Session) awaitStable(ctx context.Context) (*ecsv1.PartitionStatus, fsm.State, error) {
	for {
		st, err := s.client.GetStatus(ctx, &ecsv1.GetStatusRequest{})
		if err != nil {
			return nil, 0, errorOf(doScan, s.cfg.Address, err)
		}
		state, err := fsm.ParseState(cmp.Or(st.GetRoot().GetInBetween(), st.GetRoot().GetState()))
		switch {
		case err != nil:
			return nil, 0, &Error{
				Command:  doScan,
				ExitCode: exitFault,
				Why:      err.Error(),
				Err:      err,
			}
		case !state.IsTransitional():
			return st, state, nil
		}
		select {
		case <-ctx.Done():
			return nil, 0, &Error{
				Command:  doScan,
				ExitCode: exitFault,
				Why:      fmt.Sprintf("the partition stays in %v", state),
				Err:      ctx.Err(),
			}
		case <-time.After(stablePollInterval):
		}
	}
}

// unloadPartition takes the partition to Offline, where it takes load. It stops a run only if ours is set.
func (s *Session) unloadPartition(ctx context.Context, ours bool) error {
	ctx, cancel := context.WithTimeout(ctx, unloadTimeout)
	defer cancel()
	for _, c := range unloadCommands {
		st, state, err := s.awaitStable(ctx)
		switch {
		case err != nil:
			return err
		case fsm.EffectOf(state, c) != fsm.TransitionBegun:
			continue
		case c == fsm.Stop && !ours:
			return &Error{Command: doScan, ExitCode: exitPrecondition,
				Why: fmt.Sprintf("the partition is in %v, run %d: a scan does not stop a run of others; stop it first",
					state, st.GetRun())}
		}
		if _, err := s.client.Command(ctx, &ecsv1.CommandRequest{Command: c.String()}); err != nil {
			return errorOf(c.String(), s.cfg.Address, err)
		}
	}
	_, state, err := s.awaitStable(ctx)
	if err == nil && state != fsm.Offline {
		err = &Error{Command: doScan, ExitCode: exitPrecondition,
			Why: fmt.Sprintf("the partition is in %v and cannot be brought to where load can begin", state)}
	}
	return err
}
