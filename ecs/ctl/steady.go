package ctl

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// steadiness decides whether a value of slow data is steady: for a time all that came were within a bound of a target,
// or, without a target, of each other. It has no clock: times are those at which values came, by the control's.
type steadiness struct {
	target *float64 // nil: any
	within float64
	long   time.Duration

	begun     time.Time // values that came before do not count
	since     time.Time // the first value of those that are within the bound; zero: the last one is not
	last      time.Time // when the last value came
	low, high float64   // of the values since then
	value     float64   // the last one
}

// add adds the last value, which came at a time, and says whether it is steady. A value that is known changes nothing.
func (s *steadiness) add(at time.Time, value float64) bool {
	if !at.After(s.last) || !at.After(s.begun) {
		return s.isSteady()
	}
	low, high := min(s.low, value), max(s.high, value)
	inside := high-low <= s.within
	if s.target != nil {
		inside = math.Abs(value-*s.target) <= s.within
	}
	if s.since.IsZero() || !inside {
		s.since, low, high = at, value, value
		if s.target != nil && !inside {
			s.since = time.Time{}
		}
	}
	s.last, s.value, s.low, s.high = at, value, low, high
	return s.isSteady()
}

func (s *steadiness) isSteady() bool { return !s.since.IsZero() && s.last.Sub(s.since) >= s.long }

// String says how far it is, as the end of a sentence.
func (s *steadiness) String() string {
	of := "its values"
	if s.target != nil {
		of = formatNumber(*s.target)
	}
	switch {
	case s.last.IsZero():
		return "no value of it has come since"
	case s.since.IsZero():
		return fmt.Sprintf("the last value is %s, not within %s of %s", formatNumber(s.value), formatNumber(s.within), of)
	}
	return fmt.Sprintf("the last value is %s, within %s of %s for %v", formatNumber(s.value), formatNumber(s.within), of,
		s.last.Sub(s.since).Round(time.Millisecond))
}

func formatNumber(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// newSteadiness reads the arguments of steady.
func newSteadiness(st *step) (*steadiness, error) {
	s := &steadiness{long: st.duration("for")}
	within, err := parseNumber(st, "within")
	if err != nil {
		return nil, err
	}
	if s.target, err = parseNumber(st, "value"); err != nil {
		return nil, err
	}
	if within != nil {
		s.within = *within
	}
	return s, nil
}

// parseNumber reads an argument that is a number; nil if it is not given.
func parseNumber(st *step, name string) (*float64, error) {
	text := st.Args[name]
	if text == "" {
		return nil, nil
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
		return nil, &usageError{doSteady, fmt.Sprintf("%s: %q is no number", name, text)}
	}
	return &x, nil
}

// steadyPollInterval is how often the last value is asked for: a snapshot of the control is made as often.
const steadyPollInterval = 500 * time.Millisecond

// steady waits until a value of slow data is steady.
func (s *Session) steady(ctx context.Context, st *step) error {
	of, err := newSteadiness(st)
	if err != nil {
		return err
	}
	return s.awaitSteady(ctx, st.Args["name"], of, st.duration("most"))
}

// awaitSteady waits until the values of a name are steady, for at most the given time; 0: no bound.
func (s *Session) awaitSteady(ctx context.Context, name string, of *steadiness, most time.Duration) error {
	var over <-chan time.Time // never, without a bound
	if most > 0 {
		timer := time.NewTimer(most)
		defer timer.Stop()
		over = timer.C
	}
	tick := time.NewTicker(steadyPollInterval)
	defer tick.Stop()
	for {
		steady, err := s.askSteady(ctx, name, of)
		if err != nil || steady {
			if err == nil {
				err = s.writeSteady(name, of)
			}
			return err
		}
		select {
		case <-tick.C:
		case <-over:
			return &Error{Command: doSteady, ExitCode: exitFault, Why: fmt.Sprintf("after %v %s is not steady: %v", most, name,
				of)}
		case <-ctx.Done():
			return &Error{Command: doSteady, ExitCode: exitFault, Err: context.Canceled,
				Why: fmt.Sprintf("interrupted: %s is not steady: %v", name, of)}
		}
	}
}

// writeSteady writes that the values of a name are steady.
func (s *Session) writeSteady(name string, of *steadiness) (err error) {
	if s.cfg.JSON {
		_, err = fmt.Fprintf(s.cfg.Out, "{\"name\":%q,\"value\":%v}\n", name, of.value)
	} else {
		_, err = fmt.Fprintf(s.cfg.Out, "%s is steady: %v\n", name, of)
	}
	return err
}

// askSteady asks for the last value of a name, and says whether the values are steady.
func (s *Session) askSteady(ctx context.Context, name string, of *steadiness) (bool, error) {
	limited, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	now, err := s.client.GetSnapshot(limited, &ecsv1.GetSnapshotRequest{})
	if err != nil {
		return false, errorOf(doSteady, s.cfg.Address, err)
	}
	if of.begun.IsZero() {
		of.begun = now.GetAt().AsTime()
	}
	for _, v := range now.GetSlowValues() {
		if v.GetName() != name {
			continue
		}
		x, err := strconv.ParseFloat(v.GetValue(), 64)
		if v.GetIsText() || err != nil {
			return false, &Error{Command: doSteady, ExitCode: exitFault,
				Why: fmt.Sprintf("%s is %q, a text: only a number can be steady", name, v.GetValue())}
		}
		return of.add(v.GetReceived().AsTime(), x), nil
	}
	return false, nil
}
