package main

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ringlet/testkit/logged"
)

// A line that comes again and again is told three times in a minute; then how often it was not is.
func TestANodesLogIsSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out logged.Buffer
		s := newRateLimitedHandler(newLeveledLogger(&out, slog.LevelWarn, false).Handler())
		log := slog.New(s).With("node", "n0")
		for range 10 {
			log.Warn("a fragment's number is wrong")
			log.Info("all is well")
		}
		log.Error("a fragment's number is wrong")
		log.Warn("a front-end is gone")
		if n := out.Count("number is wrong"); n != 4 {
			t.Errorf("%d lines, not 3 warnings and an error:\n%s", n, out.String())
		}
		if out.Count("front-end is gone") != 1 || out.Count("all is well") != 0 {
			t.Errorf("other lines:\n%s", out.String())
		}
		time.Sleep(2 * time.Minute)
		log.Warn("a fragment's number is wrong")
		if !strings.Contains(out.String(), "more_such=7") {
			t.Errorf("nobody hears of those that were not told:\n%s", out.String())
		}
		for range 4 {
			log.Warn("a fragment's number is wrong")
		}
		s.close()
		if !strings.Contains(out.String(), "more_such=2") {
			t.Errorf("the end does not tell of the rest:\n%s", out.String())
		}
	})
}
