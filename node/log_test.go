package node

import (
	"bytes"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
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
