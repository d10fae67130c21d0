package ctl

import (
	"context"
	"errors"
	"fmt"
	"time"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// pollInterval is how often a wait asks for the state, in addition to each event: events may be missed while the
// control is away.
const pollInterval = time.Second

const (
	stateError    = "Error"    // ends a wait for another state
	stateStarting = "Starting" // the next run may have no number yet
)

// waitCondition is what wait waits for.
type waitCondition struct {
	until string // empty: only for a time; momentEnd, or a state
	run   uint32 // with momentEnd: the number of the run; 0: the present one
	quiet bool   // do not write how the run ended
}

// wait carries out the command wait. It goes on while the control is away, since the run goes on without it.
func (s *Session) wait(ctx context.Context, st *step) error {
	w := waitCondition{until: st.Args["until"]}
	err := s.waitFor(ctx, w, st.duration("for"))
	if errors.Is(err, context.Canceled) || ctx.Err() != nil {
		return &Error{
			Command:  doWait,
			ExitCode: exitFault,
			Why:      "interrupted; the control goes on, a run too (ringlet ctl stop ends it)",
			Err:      context.Canceled,
		}
	}
	return err
}

// waitFor waits for a condition, for at most the given time; 0: no bound.
func (s *Session) waitFor(ctx context.Context, w waitCondition, most time.Duration) error {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	events := s.eventTicks(inner)
	var timer <-chan time.Time
	if most > 0 {
		t := time.NewTimer(most)
		defer t.Stop()
		timer = t.C
	} else if w.until == "" {
		return nil
	}
	again := time.NewTicker(pollInterval)
	defer again.Stop()
	complained := false
	for {
		status, done, err := s.checkCondition(ctx, &w)
		switch {
		case done:
			return err
		case err != nil && !isUnreachable(errors.Unwrap(err)):
			return err
		case err != nil && !complained:
			fmt.Fprintf(s.cfg.Err, "%v; waiting for it to come back\n", err)
			complained = true
		case err == nil:
			complained = false
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer:
			return w.timeoutError(most, status)
		case <-events:
		case <-again.C:
		}
	}
}

// eventTicks ticks with events of the control, until ctx ends. It may miss some, so that the caller polls as well.
func (s *Session) eventTicks(ctx context.Context) <-chan struct{} {
	out := make(chan struct{}, 1)
	go func() {
		in, err := s.client.Watch(ctx, &ecsv1.WatchRequest{})
		for err == nil {
			if _, err = in.Recv(); err == nil {
				select {
				case out <- struct{}{}:
				default:
				}
			}
		}
	}()
	return out
}

// timeoutError is the error when the time is over; nil if wait was for a time only.
func (w *waitCondition) timeoutError(most time.Duration, st *ecsv1.PartitionStatus) error {
	if w.until == "" {
		return nil
	}
	what := "the run has not ended"
	if w.until != momentEnd {
		what = "the partition is not in " + w.until
	}
	where := "the control does not answer"
	if st != nil {
		where = "it is in " + stateText(st.GetRoot())
	}
	return &Error{Command: doWait, ExitCode: exitFault, Why: fmt.Sprintf("after %v %s: %s", most, what, where)}
}

// checkCondition asks for the state. If done, the wait is over and err is its result; else err is why the control could
// not be asked.
func (s *Session) checkCondition(ctx context.Context,
	w *waitCondition) (st *ecsv1.PartitionStatus, done bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	st, err = s.client.GetStatus(ctx, &ecsv1.GetStatusRequest{})
	if err != nil {
		return nil, false, errorOf(doWait, s.cfg.Address, err)
	}
	state := st.GetRoot().GetState()
	if st.GetRoot().GetInBetween() != "" {
		state = st.GetRoot().GetInBetween()
	}
	if w.until == momentEnd {
		if w.run == 0 && state == stateStarting {
			return st, false, nil
		}
		return s.checkRunEnd(ctx, w, st)
	}
	switch {
	case w.until != "" && state == w.until:
		return st, true, nil
	case state == stateError:
		return st, true, &Error{Command: doWait, ExitCode: exitFault, Why: "the partition is in Error: " +
			causeText(st.GetRoot().GetCause())}
	}
	return st, false, nil
}

// checkRunEnd asks whether the run has its verdict.
func (s *Session) checkRunEnd(ctx context.Context, w *waitCondition,
	st *ecsv1.PartitionStatus) (*ecsv1.PartitionStatus, bool,
	error) {
	if w.run == 0 {
		if why := st.GetNoRun(); why != nil {
			return st, true, &Error{Command: doWait, ExitCode: exitFault,
				Why: "the run that was asked for did not begin: " + causeText(why)}
		}
		w.run = st.GetRun()
	}
	if w.run == 0 {
		return st, true, &Error{Command: doWait, ExitCode: exitPrecondition,
			Why: "there is no run that could end: the partition is in " + stateText(st.GetRoot())}
	}
	run, err := s.client.GetRun(ctx, &ecsv1.GetRunRequest{Number: w.run})
	switch {
	case err != nil:
		return st, false, errorOf(doWait, s.cfg.Address, err)
	case run.GetVerdict() == ecsv1.Verdict_VERDICT_UNSPECIFIED:
		return st, false, nil
	case w.quiet:
	case s.cfg.JSON:
		err = s.writeJSON(run)
	default:
		_, err = fmt.Fprintln(s.cfg.Out, stripControlChars(verdictLine(run)))
	}
	if err == nil && run.GetVerdict() != ecsv1.Verdict_VERDICT_GOOD {
		why := ""
		if run.GetVerdictWhy() != "" {
			why = ": " + run.GetVerdictWhy()
		}
		err = &Error{Command: doWait, ExitCode: exitRunNotGood, Why: fmt.Sprintf("run %d is %s%s (ringlet ctl show-run %d)",
			run.GetNumber(), verdictText(run), why, run.GetNumber())}
	}
	return st, true, err
}
