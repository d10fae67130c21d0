package partition_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ringlet/ecs/partition/nodes"
	"ringlet/event/slowdata"
	"ringlet/node/config"
	"ringlet/recording"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// keep gives values of one name, and joins the errors.
func (h *farm) keep(name string, texts ...string) error {
	h.t.Helper()
	var values []slowdata.Value
	for _, text := range texts {
		v, err := slowdata.New(name, text, time.Now())
		must.OK(h.t, err)
		values = append(values, v)
	}
	ctx, cancel := context.WithTimeout(h.t.Context(), patiently.LongTimeout)
	defer cancel()
	return errors.Join(h.KeepSlowData(ctx, values)...)
}

// slowValues are the values of slow data in the files of a run, as NAME=VALUE, in order.
func (h *farm) slowValues(out string, run uint32) (values []string) {
	h.t.Helper()
	broken, err := recording.EachSlowValue(recording.RunDir(out, run), func(v *slowdata.Value) error {
		values = append(values, v.Name+"="+v.String()+v.User)
		return nil
	})
	must.OK(h.t, err)
	if broken > 0 {
		h.t.Errorf("%d lines are broken", broken)
	}
	slices.Sort(values)
	return values
}

// TestSlowDataOutliveANode: what is answered as kept is in the files, also when the node that kept it is lost; a run
// begins with the last value of each name; without a run nothing is kept.
func TestSlowDataOutliveANode(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "out")
	h := newFarm(t, 3, func(c *config.Config) {
		c.Output, c.ReadoutLoss, c.BuilderLoss = out+"/", "at-least 2 of 3", "at-least 2 of 3"
	})
	if err := h.keep("hv", "1400", "1500"); err == nil || !strings.Contains(err.Error(), "no run is under way") {
		t.Errorf("before a run: %v", err)
	}
	if err := h.command("note", "text", "beam on"); err == nil {
		t.Error("a note is taken without a run")
	}
	h.mustCommand("load", "configure", "start")
	before := h.awaitBuilt(0)
	must.OK(t, h.keep("temp", "20", "21"))
	must.OK(t, h.command("note", "text", "beam on"))
	h.await("the run begins with the last value", func() bool { return slices.Contains(h.slowValues(out, 1), "hv=1500") })
	h.endNode("n0") // it is asked first
	must.OK(t, h.keep("temp", "22"))
	h.await("the loss is known", func() bool { return h.Status().GetRoot().GetDegraded() })
	h.awaitBuilt(before)
	must.OK(t, h.keep("temp", "23"))
	h.mustCommand("stop")
	want := []string{"hv=1500", "note=beam onalice", "temp=20", "temp=21", "temp=22", "temp=23"}
	if got := slices.Compact(h.slowValues(out, 1)); !slices.Equal(got, want) {
		t.Errorf("the files have %v, not %v", got, want)
	}
	var report nodes.Report
	must.OK(t, json.Unmarshal([]byte(h.closedRun(1).GetReportJson()), &report))
	if n := report.RecordedOutput.SlowValues; n < uint64(len(want)) {
		t.Errorf("the report has %d values of slow data", n)
	}
	if err := h.keep("temp", "24"); err == nil {
		t.Error("a value is kept after the run")
	}
}

// TestSlowDataOfARunWithoutFiles: a value is answered as not kept, and a note stands among the run's events.
func TestSlowDataOfARunWithoutFiles(t *testing.T) {
	t.Parallel()
	h := newFarm(t, 1, nil)
	h.mustCommand("load", "configure", "start")
	h.awaitBuilt(0)
	if err := h.keep("temp", "20"); err == nil || !strings.Contains(err.Error(), "writes no files") {
		t.Errorf("a value: %v", err)
	}
	must.OK(t, h.command("note", "text", "beam on", "name", "beam"))
	h.mustCommand("stop")
	if !h.journalHas("note", "beam = beam on") {
		t.Error("the note is not among the events")
	}
	if err := h.command("note", "text", strings.Repeat("x", 1025)); err == nil {
		t.Error("a long note is taken")
	}
}
