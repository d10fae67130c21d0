package main

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"ringlet/ecs/partition/nodes"
	"ringlet/lab/sweep"
	"ringlet/testkit/patiently"
)

// TestSweepFilesAreSweeps: this program takes every run of the sweeps in bench, and the place of each is known.
func TestSweepFilesAreSweeps(t *testing.T) {
	unlessShort(t)
	t.Parallel()
	found, err := filepath.Glob("../../lab/sweeps/*.yaml")
	if err != nil || len(found) == 0 {
		t.Fatalf("%d files, %v", len(found), err)
	}
	for _, file := range append(found, "../../lab/bench/targets.yaml") {
		s, err := sweep.Load(file, checkCommandLine)
		if err != nil {
			t.Error(err)
			continue
		}
		if base := strings.TrimSuffix(filepath.Base(file), ".yaml"); s.Name != base {
			t.Errorf("%s is named %q", file, s.Name)
		}
		for _, c := range s.Cells {
			if c.Bed.Kind == sweep.Testbed && (c.BedSummary.Hosts == 0 || c.BedSummary.PortBps == 0) {
				t.Errorf("%s: %+v", c.ID, c.BedSummary)
			}
		}
	}
}

// TestSweepReadsTheReport: what a sweep reads of a run is what a run prints.
func TestSweepReadsTheReport(t *testing.T) {
	printed := []string{"testbed"} // by ringlet testbed run
	for f := range reflect.TypeFor[nodes.Report]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		printed = append(printed, name)
	}
	for _, name := range sweep.ReportFields() {
		if !slices.Contains(printed, name) {
			t.Errorf("a sweep reads %q, which no report has", name)
		}
	}
}

// startSweep starts one that would take long, and waits until a run of it is under way.
func startSweep(t *testing.T) *program {
	t.Helper()
	s := newSession(t)
	text := "name: long\nrepeat: 100\nreference-every: 0\nfixed: {nodes: 2, duration: 300ms, packing: 100, slot-size: " +
		"256KiB, run-number: " + s.run + "}\n"
	if err := os.WriteFile(filepath.Join(s.dir, "long.yaml"), []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	p := s.start("bench", "sweep", "long.yaml", "--out", "out", "--rounds", "99")
	eventually(t, "the second run is under way",
		func() bool { return len(processes(s.dir)) == 4 && strings.Contains(p.err.String(), "2 of 99") })
	return p
}

// TestSweepInterrupted: what there is is written, and can be continued.
func TestSweepInterrupted(t *testing.T) {
	t.Parallel()
	p := startSweep(t)
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	p.ends(exitError)
	if !strings.Contains(p.err.String(), "; ringlet bench sweep long.yaml --out out --resume --rounds 99 continues it") {
		t.Errorf("it does not say how to go on: %s", p.err.String())
	}
	for _, name := range []string{"results.jsonl", "results.csv", "report.html"} {
		if _, err := os.Stat(filepath.Join(p.dir, "out", name)); err != nil {
			t.Error(err)
		}
	}
	p.session.start("bench", "sweep", "long.yaml", "--out", "out", "--resume", "--rounds", "3").ends(exitGood)
}

func TestWordsAreForAShell(t *testing.T) {
	for word, want := range map[string]string{
		"out/a-1.yaml": "out/a-1.yaml", "my results": "'my results'", "it's": `'it'\''s'`, "": "''", "$HOME": "'$HOME'",
	} {
		if got := shellQuote(word); got != want {
			t.Errorf("%q: %s", word, got)
		}
	}
}

// TestPortsOfTheirOwnBind: a share is one of the slowest port.
func TestPortsOfTheirOwnBind(t *testing.T) {
	ground, err := checkCommandLine([]string{"testbed", "run", "--hosts=4", "--rate=200Mbit", "--ports=n2=50Mbit", "--",
		"--nodes=4"})
	if err != nil || ground != (sweep.BedSummary{Hosts: 4, PortBps: 50e6}) {
		t.Errorf("%+v, %v", ground, err)
	}
}

// TestSweepInABedThatIsUp: what a sweep reckons with is the bed of that name, and not what one would be by default.
func TestSweepInABedThatIsUp(t *testing.T) {
	needTestbed(t)
	t.Parallel()
	s := newSession(t)
	name := "test-" + s.run
	line := []string{"testbed", "run", "--name=" + name, "--at=1s:cut:n1", "--", "--nodes=2"}
	if _, err := checkCommandLine(line); err == nil || !strings.Contains(err.Error(), "name: no test bed") {
		t.Errorf("a bed that is not up: %v", err)
	}
	up := s.start("testbed", "up", "--hosts", "2", "--rate", "20Mbit", "--name", name)
	eventually(t, "the bed is up", func() bool { return strings.Contains(up.out.String(), "2 hosts n0 to n1") })
	if ground, err := checkCommandLine(line); err != nil || ground != (sweep.BedSummary{Hosts: 2, PortBps: 20e6}) {
		t.Errorf("%+v, %v", ground, err)
	}
	line[3] = "--at=1s:cut:n3"
	if _, err := checkCommandLine(line); err == nil || !strings.Contains(err.Error(), "n3") {
		t.Errorf("a port that it has not: %v", err)
	}
	s.start("testbed", "down", "--name", name).ends(exitGood)
	up.ends(exitGood)
}

// TestSweepKilled: its runs die with it.
func TestSweepKilled(t *testing.T) {
	t.Parallel()
	p := startSweep(t)
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	patiently.Receive(t, p.ended)
	eventually(t, "no process is left", func() bool { return len(processes(p.dir)) == 0 })
}

// TestSweepInTheTestBed: a share of a port is offered, and the bed is gone afterwards.
func TestSweepInTheTestBed(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: a test bed needs root")
	}
	s := newSession(t)
	text := "name: bed\nrepeat: 1\ntestbed: {rate: 100Mbit}\n" +
		"fixed: {nodes: 2, duration: 500ms, packing: 100, run-number: " + s.run + "}\nvary: {load: [0.2]}\n"
	if err := os.WriteFile(filepath.Join(s.dir, "bed.yaml"), []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	s.start("bench", "sweep", "bed.yaml", "--out", "out").ends(exitGood)
	table, err := os.ReadFile(filepath.Join(s.dir, "out", "results.csv"))
	if err != nil || !strings.Contains(string(table), ",0.2,0.1,") {
		t.Errorf("load and port are not in the table: %s, %v", table, err)
	}
	lines, err := os.ReadFile(filepath.Join(s.dir, "out", "results.jsonl"))
	if err != nil || strings.Count(string(lines), "TCP through ") != 2 || strings.Contains(string(lines), `"gbps":0,`) {
		t.Errorf("the ports were not measured: %s, %v", lines, err)
	}
}
