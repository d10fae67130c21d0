package sweep

import (
	"context"
	"strings"
	"testing"
)

// A bench makes single runs as a sweep does, and takes their figures.
func TestACellIsMeasured(t *testing.T) {
	for number, says := range map[string]string{"1": "", "13": "exit status 1", "15": "its accounts do not balance"} {
		c := &parse(t, "name: x\nfixed: {duration: 0s, events: 100, run-number: "+number+"}\n").Cells[0]
		got, err := c.Measure(t.Context(), func(ctx context.Context) ([]byte, error) {
			return spawnFake(ctx, Turn{Cell: c})
		})
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", number, err)
		}
		if err == nil && (got["goodput_gbps"] <= 0 || got["setup.nodes"] != 4 || got["resent_share"] != 0.002) {
			t.Errorf("%v", got)
		}
	}
}

// Who runs a sweep and can take no reference says so in each of its lines.
func TestReferencesThatCannotBeTaken(t *testing.T) {
	dir := t.TempDir()
	text := "name: x\nrepeat: 1\nreferences: [tcp]\nbounds:\n  - {of: x, over: [tcp], least: 1}\n"
	runFake(t, parse(t, text), Config{Dir: dir})
	got := load(t, dir)
	if len(got.References) != 1 || !strings.Contains(got.References[0].Error, "cannot be measured from here") ||
		got.verdicts()[0].Measured != nil {
		t.Errorf("%+v", got.References)
	}
}
