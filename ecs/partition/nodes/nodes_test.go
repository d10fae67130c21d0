package nodes

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	nodev1 "ringlet/proto/ringlet/node/v1"
)

// Whoever reads that a command failed reads its name as it is typed.
func TestCommandsAreNamedAsTyped(t *testing.T) {
	for c, name := range nodev1.Command_name {
		e := &commandError{Node: "n0", Command: nodev1.Command(c), Err: status.Error(codes.Aborted, "the disk is full")}
		if text := e.Error(); strings.Contains(text, "COMMAND") ||
			!strings.Contains(strings.ToUpper(text), strings.TrimPrefix(name, "COMMAND_")) {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// TestFinalReportIsKept holds that what a node told before the end of a run does not take the place of its final
// report, whichever way it came: the accounts are made of the final ones.
func TestFinalReportIsKept(t *testing.T) {
	report := func(run uint32, began int64, final bool, retained uint64) *nodev1.Report {
		return &nodev1.Report{
			Run:         run,
			StartedAtUs: began,
			Final:       final,
			Counters:    map[string]uint64{"ru.retained": retained},
		}
	}
	final := report(7, 100, true, 0)
	for name, tt := range map[string]struct {
		then   *nodev1.Report
		stored bool
	}{
		"late":           {then: report(7, 100, false, 10)},
		"final again":    {then: report(7, 100, true, 0), stored: true},
		"the next run":   {then: report(8, 200, false, 10), stored: true},
		"begun again":    {then: report(7, 200, false, 10), stored: true},
		"a new process":  {then: report(0, 0, false, 0), stored: true},
		"before the run": {then: &nodev1.Report{}, stored: true},
	} {
		m := &member{name: "n0"}
		m.storeReport(report(7, 100, false, 12))
		m.storeReport(final)
		m.storeReport(tt.then)
		if got := m.latestReport(); (got == tt.then) != tt.stored {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestPoll holds what a wait comes to: what was tried last says so.
func TestPoll(t *testing.T) {
	never := errors.New("not yet")
	for name, c := range map[string]struct {
		succeeds, fails int // with so many tries
		tries           int
		err             error
	}{
		"at once":     {succeeds: 1, tries: 1},
		"at last":     {succeeds: 4, tries: 4},
		"for good":    {fails: 2, tries: 2, err: never},
		"not in time": {tries: 11, err: never},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 1050*time.Millisecond)
				defer cancel()
				tries := 0
				err := poll(ctx, 100*time.Millisecond, func() (bool, error) {
					if tries++; tries == c.succeeds {
						return true, nil
					}
					return tries == c.fails, never
				})
				if tries != c.tries || !errors.Is(err, c.err) {
					t.Errorf("%v after %d tries, not %v after %d", err, tries, c.err, c.tries)
				}
			})
		})
	}
}
