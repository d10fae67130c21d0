package node

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"ringlet/node/fsm"
)

func TestLinesHaveTheirRun(t *testing.T) {
	var out bytes.Buffer
	var run atomic.Uint32
	log := slog.New(runLog{slog.NewTextHandler(&out, nil), &run}).With("node", "n1")
	log.Info("waiting")
	run.Store(7)
	log.Info("building", "what", "events")
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if strings.Contains(lines[0], "run=") || !strings.HasSuffix(lines[1], "node=n1 what=events run=7") {
		t.Errorf("%q", lines)
	}
}

// What a node that ends refuses is no news; what a running one refuses is.
func TestTooLate(t *testing.T) {
	var log bytes.Buffer
	n := &process{log: slog.New(slog.NewTextHandler(&log, nil))}
	n.logTooLate("a fault", errors.New("a link broke"), fmt.Errorf("refused: %w", fsm.ErrClosed))
	if log.Len() > 0 {
		t.Errorf("a node that ends says %q", &log)
	}
	n.logTooLate("a fault", errors.New("a link broke"), errors.New("not now"))
	if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), "not now") {
		t.Errorf("a running node says %q", &log)
	}
}
