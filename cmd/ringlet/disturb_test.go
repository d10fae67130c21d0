package main

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ringlet/node/config"
	"ringlet/testkit/cases"
	"ringlet/testkit/patiently"
)

// The names of a report, which do not change.
const fixedNames = `version nodes rus bus transport barrier packing duration_s events_triggered events_built
	events_discarded events_abandoned meps_built mfps_read mfps_placed bytes_built goodput_gbps event_rate_hz chunks_sent
	chunks_placed chunks_duplicate chunks_late chunks_resent datagrams_sent barrier_share barrier_us build_latency_us cpu_s
	cpu_s_per_gb max_rss_mb accounting_ok end_cause`

func TestReportHasTheFixedNames(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	p := s.start("run", "--nodes", "2", "--events", "4000", "--packing", "500", "--json", "--run-number", s.run)
	p.ends(0)
	object := p.report()
	for _, name := range strings.Fields(fixedNames) {
		if _, ok := object[name]; !ok {
			t.Errorf("there is no %q", name)
		}
	}
	for name, inner := range map[string][]string{
		"barrier_us":       {"p50", "p99", "max"},
		"phase_skew_us":    {"p50", "p99", "max"},
		"build_latency_us": {"p50", "p99", "p999", "max"},
	} {
		fields, _ := object[name].(map[string]any)
		for _, f := range inner {
			if _, ok := fields[f].(float64); !ok {
				t.Errorf("there is no %s.%s", name, f)
			}
		}
	}
	p.holds("goodput_gbps>0", "cpu_s>0", "cpu_s_per_gb>0", "max_rss_mb>0", "build_latency_us.p50>0", "datagrams_sent>0")
	s.nothingLeft()
}

func TestKilledBuilderUnit(t *testing.T) {
	for name, shape := range cases.Select(t, map[string]struct {
		args   []string
		victim string
		output string
		files  []string
	}{
		"folded, one file":      {[]string{"--nodes", "4"}, "n2", "x.mdf", merged("x.mdf")},
		"folded, a directory":   {[]string{"--nodes", "3"}, "n0", "out/", []string{"out"}},
		"unfolded, a directory": {[]string{"--rus", "2", "--bus", "2"}, "n3", "out/", []string{"out"}},
		"in shared memory":      {[]string{"--nodes", "3", "--transport", "local"}, "n1", "x.mdf", merged("x.mdf")},
	}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSession(t)
			p := s.startRun(shape.output, shape.args...)
			s.signal(s.node(shape.victim), syscall.SIGKILL)
			struck := time.Now()
			p.ends(1)
			// The acceptance is 10 s, and it takes half a second. A machine that has much else to do is given three times that.
			if took := time.Since(struck); took > 30*time.Second {
				t.Errorf("ended %v after the kill", took)
			}
			p.holds("end_cause=fault", "accounting_ok=false", "cause.component="+shape.victim)
			p.checkStderr("ringlet: " + shape.victim + ": its process was killed by signal 9")
			if strings.Contains(p.err.String(), "level=") {
				t.Error("a user is told more than the cause")
			}
			s.keptTails(shape.output)
			s.nothingLeft(shape.files...)
			p.found(shape.output)
		})
	}
}

// A run goes on without a builder unit where that is tolerated: its MEPs are built by others, the accounts balance, and
// what cannot be checked is said.
func TestKilledBuilderUnitIsTolerated(t *testing.T) {
	for name, shape := range cases.Select(t, map[string]struct {
		args   []string
		output string
		files  []string
	}{
		"one file, over the network": {[]string{"--transport", "quic"}, "x.mdf", merged("x.mdf")},
		"a directory, tags":          {[]string{"--discipline", "tagring"}, "out/", []string{"out"}},
		"quic-go, in phases": {[]string{"--transport", "quic-go", "--phase-end", "tournament"}, "x.mep",
			merged("x.mep")},
		"while regions are judged": {[]string{"--discipline", "pull", "--roi", "1", "--filter", "share:0.02,10s",
			"--packing", "20"}, "out/", []string{"out"}},
	}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSession(t)
			p := s.startRun(shape.output, append([]string{"--rus", "2", "--bus", "3", "--builder-loss", "at-least 2 of 3"},
				shape.args...)...)
			s.signal(s.node("n3"), syscall.SIGKILL)
			eventually(t, "the loss is told", func() bool { return strings.Contains(p.err.String(), "goes on without n") })
			s.signal(p.cmd.Process.Pid, syscall.SIGINT)
			p.ends(0)
			p.holds("end_cause=interrupted", "accounting_ok=true", "events_abandoned=0")
			unchecked := 3
			if slices.Contains(shape.args, "--filter") {
				unchecked++ // who judged what was given to others
			}
			if notChecked, _ := p.report()["not_checked"].([]any); len(notChecked) != unchecked {
				t.Errorf("not checked: %v", notChecked)
			}
			s.keptTails(shape.output)
			s.nothingLeft(shape.files...)
			p.found(shape.output)
		})
	}
}

// A node that stands still is found by its peers, who go into Error: they are not to be blamed.
func TestStoppedNode(t *testing.T) {
	unlessShort(t)
	t.Parallel()
	s := newSession(t)
	p := s.startRun("x.mep", "--nodes", "3")
	s.signal(s.node("n1"), syscall.SIGSTOP)
	p.ends(1)
	p.holds("end_cause=fault", "cause.component=n1")
	s.keptTails("x.mep")
	s.nothingLeft(merged("x.mep")...)
	p.found("x.mep")
}

func TestKilledParent(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	p := s.startRun("x.mep", "--nodes", "3")
	s.signal(p.cmd.Process.Pid, syscall.SIGKILL)
	patiently.Receive(t, p.ended)
	s.nothingLeft("x.mep.segments")
	if text := p.err.String(); text != "" {
		t.Errorf("dying nodes say %q", text)
	}
	s.start("recover", "x.mep.segments").ends(0)
	s.start("merge", "x.mep.segments", "x.mep").ends(0)
	s.nothingLeft(merged("x.mep")...)
}

func TestInterrupted(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	p := s.startRun("x.mep", "--nodes", "3")
	s.signal(p.cmd.Process.Pid, syscall.SIGINT)
	p.ends(0)
	p.holds("end_cause=interrupted", "accounting_ok=true", "events_abandoned=0", "events_built>0")
	if r := p.report(); r["output_events"] != r["events_built"] {
		t.Errorf("%v events built, %v in the output", r["events_built"], r["output_events"])
	}
	s.nothingLeft(merged("x.mep")...)
}

// TestOneSignalThatComesTwice: timeout(1) tells a program to end, and its process group at once. The run ends in good
// order, and says so.
func TestOneSignalThatComesTwice(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	p := s.startRun("x.mep", "--nodes", "2")
	s.signal(p.cmd.Process.Pid, syscall.SIGTERM)
	time.Sleep(20 * time.Millisecond) // or the kernel makes one of them
	s.signal(p.cmd.Process.Pid, syscall.SIGTERM)
	p.ends(0)
	p.holds("end_cause=interrupted", "accounting_ok=true")
	s.nothingLeft(merged("x.mep")...)
}

func TestInterruptedBeforeItBegan(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	p := s.start("run", "--json", "--nodes", "3", "--rate", "20000", "--duration", "10m", "--run-number", s.run)
	eventually(t, "nodes come up", func() bool { return len(processes(s.dir)) > 1 })
	s.signal(p.cmd.Process.Pid, syscall.SIGTERM)
	p.ends(0)
	p.holds("end_cause=interrupted")
	s.nothingLeft()
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	small := filepath.Join(s.dir, "small")
	if err := os.Mkdir(small, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", small, "tmpfs", 0, "size=3m"); err != nil {
		t.Skipf("no small file system to fill, this needs root: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(small, syscall.MNT_DETACH) })
	for _, output := range []string{"small/x.mdf", "small/"} {
		p := s.start("run", "--json", "--nodes", "2", "--events", "20000", "--packing", "1000", "--output", output)
		p.ends(1)
		p.holds("end_cause=fault")
		p.checkStderr("disk full")
		p.checkStderr(filepath.Join(s.dir, "small") + "/")
		r := p.report()
		if cause, _ := r["cause"].(map[string]any); !slices.Contains([]any{"n0", "n1"}, cause["component"]) {
			t.Errorf("the cause is %v", cause)
		}
		if there, built := r["output_events"], r["events_built"]; there == nil || there.(float64) < built.(float64) {
			t.Errorf("%v events built, %v in the output", built, there)
		}
		written, err := filepath.Glob(filepath.Join(small, "*")) // the one file, too, where there was room for it
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range written {
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.nothingLeft("small")
}

// A buffer that nobody reads holds the run up. It ends all the same.
func TestOutputThatNobodyReads(t *testing.T) {
	unlessShort(t)
	t.Parallel()
	s := newSession(t)
	const packing = 100
	p := s.start("run", "--json", "--nodes", "2", "--duration", "10m", "--packing", strconv.Itoa(packing), "--format",
		"buffer",
		"--output", s.run+"-out", "--run-number", s.run, "--page", "127.0.0.1:0")
	c := s.enter(p, dials(nil))
	eventually(t, "buffers and slots are full", func() bool {
		s := c.snapshot()
		built, _ := s.Total.EventsBuilt.Int64()
		free := slices.ContainsFunc(s.Scheduler.Slots, func(u slots) bool { return u.Used != u.Slots })
		return built >= 2*config.BufferMEPs*packing && !free
	})
	s.signal(p.cmd.Process.Pid, syscall.SIGINT)
	p.ends(1)
	p.holds("end_cause=fault", "events_abandoned>0")
	p.checkStderr("have had no outcome")
	s.nothingLeft()
}
