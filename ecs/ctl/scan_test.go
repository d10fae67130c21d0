package ctl

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
	"ringlet/testkit/patiently"
)

func TestScan(t *testing.T) {
	h := newFixture(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "scan.yaml")
	text := "name: packings\nrepeat: 2\nfixed: {nodes: 2, duration: 1h}\nvary: {packing: [100, 200]}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	// Runs of a made-up partition do not end by themselves.
	ctx, cancel := context.WithCancel(t.Context())
	var stopping sync.WaitGroup
	stopping.Go(func() {
		for ctx.Err() == nil {
			moved := h.fake.Moved()
			if h.fake.Status().GetRoot().GetState() == "Running" {
				if _, err := h.fake.Command(ctx, "the clock", &ecsv1.CommandRequest{Command: "stop"}); err != nil &&
					ctx.Err() == nil {
					t.Error(err)
				}
			}
			select {
			case <-moved:
			case <-ctx.Done():
			}
		}
	})
	defer patiently.Wait(t, stopping.Wait)
	defer cancel()
	var out bytes.Buffer
	out2 := filepath.Join(dir, "results")
	err := h.session("alice", &out).RunBatch(t.Context(), []string{"scan", file, "out=" + out2})
	if err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	if !strings.Contains(out.String(), "4 of 4 runs have a result: "+out2) ||
		!strings.Contains(out.String(), "packing  credits  runs") {
		t.Errorf("%s", &out)
	}
	list, err := h.session("alice", &out).client.ListRuns(t.Context(), &ecsv1.ListRunsRequest{Limit: 4})
	if err != nil || len(list.GetRuns()) != 4 {
		t.Fatal(list, err)
	}
	for _, r := range list.GetRuns() {
		if r.GetScan() != "packings" || !strings.Contains(r.GetRemark(), "packing=") ||
			!strings.Contains(r.GetRemark(), "round") {
			t.Errorf("run %d is of scan %q, %q", r.GetNumber(), r.GetScan(), r.GetRemark())
		}
	}
	if state := h.fake.Status().GetRoot().GetState(); state != "Offline" {
		t.Errorf("the partition is left in %s", state)
	}
	for _, name := range []string{"results.jsonl", "results.csv", "report.html"} {
		if _, err := os.Stat(filepath.Join(out2, name)); err != nil {
			t.Error(err)
		}
	}
	if err := h.session("alice", &out).RunBatch(t.Context(), []string{"scan", file, "out=" +
		out2}); ExitCode(err) != ExitUsage || !strings.Contains(err.Error(), "is there already") {
		t.Error(err)
	}
	h.scanInSteps(file, dir)
}

// scanInSteps has a scan step a value: before its runs at each step the command has set it.
func (h *fixture) scanInSteps(file, dir string) {
	h.t.Helper()
	var out bytes.Buffer
	set := filepath.Join(dir, "set")
	for words, want := range map[string]string{
		"step=hv:1,x":  "is not NAME:VALUE",
		"step=hv:1,2":  "needs by=COMMAND",
		"step=:1 by=x": "is not NAME:VALUE",
	} {
		err := h.session("alice", &out).RunBatch(h.t.Context(), append([]string{"scan", file}, strings.Fields(words)...))
		if ExitCode(err) != ExitUsage || !strings.Contains(err.Error(), want) {
			h.t.Errorf("%s: %v", words, err)
		}
	}
	err := h.session("alice", &out).RunBatch(h.t.Context(), []string{"scan", file, "out=" + dir + "/steps", "rounds=1",
		"step=hv:1,2", "by=echo $1 >> " + set})
	if err != nil {
		h.t.Fatalf("%v\n%s", err, &out)
	}
	if text, err := os.ReadFile(set); err != nil || string(text) != "1\n2\n" {
		h.t.Errorf("the command has set %q, %v", text, err)
	}
	for _, step := range []string{"hv=1", "hv=2"} {
		if _, err := os.Stat(filepath.Join(dir, "steps", step, "results.csv")); err != nil {
			h.t.Error(err)
		}
	}
	list, err := h.session("alice", &out).client.ListRuns(h.t.Context(), &ecsv1.ListRunsRequest{Limit: 1})
	if err != nil || !strings.Contains(list.GetRuns()[0].GetRemark(), "hv=2") {
		h.t.Errorf("%v, %v", list, err)
	}
	err = h.session("alice", &out).RunBatch(h.t.Context(), []string{"scan", file, "out=" + dir + "/not", "step=hv:1",
		"by=exit 3"})
	if ExitCode(err) != exitFault || !strings.Contains(err.Error(), `the command "exit 3" failed`) {
		h.t.Error(err)
	}
}

func TestAScanEndsNoRunOfOthers(t *testing.T) {
	h := newFixture(t)
	h.do("load configure start")
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.yaml"), filepath.Join(dir, "bad.yaml")
	for file, text := range map[string]string{good: "name: x\n", bad: "name: x\ntestbed: {hosts: 2}\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if err := h.session("alice", &out).RunBatch(t.Context(), []string{"scan", good,
		"out=" + dir + "/x"}); ExitCode(err) != exitPrecondition || !strings.Contains(err.Error(),
		"a scan does not stop a run of others") {
		t.Error(err)
	}
	if err := h.session("alice", &out).RunBatch(t.Context(), []string{"scan", bad}); ExitCode(err) != ExitUsage ||
		!strings.Contains(err.Error(), "leave out testbed") {
		t.Error(err)
	}
}
