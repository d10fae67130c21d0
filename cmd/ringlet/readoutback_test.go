package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"ringlet/event"
	"ringlet/recording"
	"ringlet/testkit/cases"
	"ringlet/testkit/patiently"
)

// A readout unit that was killed in a run, and whose process somebody starts again, takes part in the same run again:
// its events are whole, then marked, then whole. Accounts, report, manifest and files say which.
func TestKilledReadoutUnitComesBack(t *testing.T) {
	for name, args := range cases.Select(t, map[string][]string{
		"in phases":       {"--transport", "quic", "--phase-end", "tournament"},
		"through memory":  {"--transport", "auto", "--discipline", "free"},
		"asked for, once": {"--discipline", "pull", "--transport", "local"},
		"of one source":   {"--transport", "local", "--streams", "3,1,2"},
	}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSession(t)
			names := []string{"n0", "n1", "n2", "n3", "n4"}
			s.certs("keys", names...)
			port := s.port()
			there := map[string]*program{}
			for _, n := range names {
				there[n] = s.startNode(n, "keys", port)
			}
			c := s.start(append([]string{"control", "--once", "--certs", "keys", "--port", port, "--rus", "3", "--bus", "2",
				"--readout-loss", "at-least 2 of 3", "--json", "--run-number", s.run, "--duration", "10m", "--output", "out/",
				"--rate", "20000", "--packing", "400"}, args...)...)
			eventually(t, "the run builds", func() bool { return s.indexed() > 4*recording.HeaderBytes })
			s.more()
			const victim = "n1"
			s.signal(there[victim].cmd.Process.Pid, syscall.SIGKILL)
			eventually(t, "the loss is told", func() bool { return strings.Contains(c.err.String(), "goes on without n") })
			s.more()
			there[victim] = s.startNode(victim, "keys", port)
			eventually(t, "the return is told", func() bool { return strings.Contains(c.err.String(), "is back in the run") })
			s.more()
			s.signal(c.cmd.Process.Pid, syscall.SIGINT)
			c.ends(0)
			c.holds("end_cause=interrupted", "accounting_ok=true", "events_abandoned=0",
				"degraded=true", "events_marked>0")
			s.lacks(c, victim)
			s.checkMarkedMissing(1)
			for _, n := range there {
				_ = n.cmd.Process.Signal(syscall.SIGTERM)
				patiently.Receive(t, n.ended)
			}
			s.nothingLeft("keys", "out")
			c.found("out/")
		})
	}
}

// checkMarkedMissing holds that the MEPs of the output lack exactly the parts of one readout unit, from about the MEP
// on from which the manifest says that it was gone, and none from that on from which it was back.
func (s *session) checkMarkedMissing(ru int) {
	s.t.Helper()
	dirs, _ := filepath.Glob(filepath.Join(s.dir, "out", "*"))
	if len(dirs) != 1 {
		s.t.Fatalf("the output is in %v", dirs)
	}
	m, err := recording.Load(dirs[0])
	if err != nil {
		s.t.Fatal(err)
	}
	l := m.Verdict.UnitOutages[0]
	if len(l.Outages) != 1 || l.Outages[0].ReturnMEP == nil || l.Outages[0].ReturnedAt.Before(l.Outages[0].At) {
		s.t.Fatalf("the manifest says that it was gone %+v", l.Outages)
	}
	from, back := l.Outages[0].FromMEP, *l.Outages[0].ReturnMEP
	lacks := s.lackingSources(dirs[0])
	meps := slices.Sorted(maps.Keys(lacks))
	var marked uint64
	for _, mep := range meps {
		want := mep >= from && mep < back
		if got := len(lacks[mep]) > 0; got {
			marked++
			for _, source := range lacks[mep] {
				if source < l.FirstSource || source > l.LastSource {
					s.t.Errorf("MEP %d lacks source %d, which is none of readout unit %d", mep, source, ru)
				}
			}
			if mep >= back || mep < l.FirstMEP || mep > l.LastMEP {
				s.t.Errorf("MEP %d is marked, and the unit was gone from %d to %d: %+v", mep, from, back, l)
			}
		} else if want {
			s.t.Errorf("MEP %d is whole, and the unit was gone from %d to %d", mep, from, back)
		}
	}
	first, last := meps[0], meps[len(meps)-1]
	if marked != l.MEPs || first >= l.FirstMEP || last < back || len(lacks[first])+len(lacks[last]) > 0 {
		s.t.Errorf("%d MEPs from %d to %d are marked by the files, %+v by the manifest", marked, first, last, l)
	}
}

// lackingSources are the sources without fragments, by MEP.
func (s *session) lackingSources(dir string) map[uint64][]int {
	s.t.Helper()
	files, _ := filepath.Glob(filepath.Join(dir, "*.mep"))
	all := map[uint64][]int{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			s.t.Fatal(err)
		}
		for len(data) > 0 {
			p, err := event.ParseMEP(data)
			if err != nil {
				s.t.Fatalf("%s: %v", file, err)
			}
			data = data[len(p.Bytes()):]
			var mep uint64
			lacks := []int{}
			for mfp, err := range p.MFPs() {
				if err != nil {
					s.t.Fatalf("%s: %v", file, err)
				}
				mep = mfp.FirstEvent() / 400
				if mfp.FragmentType(0) == event.FragmentMissing {
					lacks = append(lacks, int(mfp.Source()))
				}
			}
			all[mep] = lacks
		}
	}
	return all
}
