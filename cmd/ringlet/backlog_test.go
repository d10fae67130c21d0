package main

import (
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ringlet/builderunit/backlog"
	"ringlet/recording"
	"ringlet/testkit/patiently"
)

var filterKills = flag.Int("filterkills", 4,
	"how often TestBacklogIsKilled ends ringlet filter; some hundred make a long one")

// TestBacklogIsKilled ends the second filter again and again, by kill or interrupt, beside a run that is ended or
// killed, too. Each event of the backlog is in one output then, once, and the report says what a reader finds.
func TestBacklogIsKilled(t *testing.T) {
	t.Parallel()
	for _, ending := range []string{"the run ends", "the run is killed"} {
		t.Run(ending, func(t *testing.T) {
			t.Parallel()
			s := newSession(t)
			run := s.startRun("mep:buffer/,discard:", "--nodes", "2", "--packing", "2", "--rate", "4000", "--filter",
				"share:0.5", "--output-by", "decision", "--backlog", "4MB", "--segment-time", "1s")
			for range *filterKills {
				s.endsFilter()
			}
			if ending == "the run ends" {
				s.signal(run.cmd.Process.Pid, syscall.SIGINT)
				run.ends(0)
				run.holds("accounting_ok=true")
			} else {
				for _, p := range processes(s.dir) {
					_ = syscall.Kill(p.pid, syscall.SIGKILL) // a node may end with its control
				}
				patiently.Receive(t, run.ended)
			}
			s.onceEach(s.filter())
		})
	}
}

// TestARunEndsWithAFullBacklog holds that a run with a full backlog, which nobody drains, ends in good order: what was
// issued is built and written.
func TestARunEndsWithAFullBacklog(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	run := s.startRun("mep:buffer/", "--nodes", "2", "--packing", "200", "--backlog", "4MB")
	eventually(t, "a builder unit's backlog is full", func() bool {
		dirs, _ := filepath.Glob(filepath.Join(s.dir, "buffer", "*"))
		for _, dir := range dirs {
			files, err := recording.ReadFiles(dir)
			for builder := range 2 {
				if bytes, _ := files.BuilderTotal(builder); err == nil && bytes >= 4_000_000 {
					return true
				}
			}
		}
		return false
	})
	s.signal(run.cmd.Process.Pid, syscall.SIGINT)
	run.ends(0)
	run.holds("accounting_ok=true", "events_abandoned=0")
	run.found("buffer")
}

// filter starts the second filter.
func (s *session) filter() *program {
	s.t.Helper()
	return s.start("filter", "--backlog", "buffer", "--filter", "share:0.3,10s", "--output", "mep:accepted/,mep:rejected/",
		"--wait", "1s", "--json")
}

// endsFilter has the second filter drain something, and ends it at any moment behind that.
func (s *session) endsFilter() {
	s.t.Helper()
	bufferDir := filepath.Join(s.dir, "buffer", filepath.Base(recording.RunDir("", 0)))
	bufferDir = strings.Replace(bufferDir, "000000", "*", 1)
	size := func() (n int64) {
		found, _ := filepath.Glob(filepath.Join(bufferDir, "drained.log"))
		for _, f := range found {
			if st, err := os.Stat(f); err == nil {
				n += st.Size()
			}
		}
		return n
	}
	before, p := size(), s.filter()
	eventually(s.t, "something is drained", func() bool {
		select {
		case <-p.ended:
			return true
		default:
			return size() > before
		}
	})
	time.Sleep(rand.N(300 * time.Millisecond)) // whatever it does then
	sig := syscall.SIGKILL
	if rand.IntN(3) == 0 {
		sig = syscall.SIGINT
	}
	_ = p.cmd.Process.Signal(sig) // it may have ended
	patiently.Receive(s.t, p.ended)
}

// onceEach holds that the second filter ends with everything drained, and that what it says, the backlog, and its
// outputs agree.
func (s *session) onceEach(p *program) {
	s.t.Helper()
	p.ends(0)
	var said backlog.Result
	if err := json.Unmarshal([]byte(p.out.String()), &said); err != nil {
		s.t.Fatal(err)
	}
	read := func(name string) *recording.RunVerification {
		v, err := recording.Verify(s.t.Context(), filepath.Join(s.dir, name), recording.VerifyOptions{})
		if err != nil {
			s.t.Fatal(err)
		}
		if r := &v.Runs[0]; r.ProblemCount() == 0 && r.UnnamedMissingEvents.EventCount+r.EventsNeverTriggered == 0 {
			return r
		}
		var text strings.Builder
		_, _ = v.WriteTo(&text)
		s.t.Error(text.String())
		return &v.Runs[0]
	}
	buffer, accepted, rejected := read("buffer"), read("accepted"), read("rejected")
	d := said.Decisions
	kept := d.Accepted + d.RejectedKept + d.TimedOut + d.Failed
	switch {
	case said.UndrainedSegments > 0 || said.RemovedSegments != said.Segments || d.Damaged > 0 || d.Accepted == 0 ||
		d.Rejected == 0, accepted.Superseded+rejected.Superseded > 0,
		buffer.EventsFound != accepted.EventsFound+rejected.EventsFound,
		buffer.EventsFound != d.Events()-d.Copies,
		accepted.EventsFound < kept || accepted.EventsFound > kept+d.FoundInOutput:
		s.t.Errorf("%d events in the backlog, %d accepted, %d rejected; the filter says %+v", buffer.EventsFound,
			accepted.EventsFound, rejected.EventsFound, said)
	}
	s.t.Logf("%d events; %+v", buffer.EventsFound, said)
}
