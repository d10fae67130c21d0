package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"ringlet/recording"
	"ringlet/testkit/cases"
)

// A run goes on without a readout unit where that is tolerated: its events are built and marked, the accounts balance,
// and report and manifest say what is missing.
func TestKilledReadoutUnitIsTolerated(t *testing.T) {
	for name, shape := range cases.Select(t, map[string]struct {
		args   []string
		victim string
	}{
		"in phases":               {[]string{"--transport", "quic", "--phase-end", "tournament"}, "n1"},
		"the first, in phases":    {[]string{"--phase-end", "dissemination"}, "n0"},
		"through memory, at once": {[]string{"--transport", "auto", "--discipline", "free"}, "n2"},
		"asked for":               {[]string{"--discipline", "pull"}, "n1"},
		"behind a region": {[]string{"--discipline", "pull", "--roi", "0,2", "--filter", "share:0.5,10s", "--packing", "4"},
			"n1"},
		"all of a region": {[]string{"--discipline", "pull", "--roi", "1", "--filter", "share:0.5,10s", "--packing", "4"},
			"n1"},
	}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSession(t)
			p := s.startRun("out/", append([]string{"--rus", "3", "--bus", "2", "--readout-loss", "at-least 2 of 3"},
				shape.args...)...)
			s.signal(s.node(shape.victim), syscall.SIGKILL)
			eventually(t, "the loss is told", func() bool { return strings.Contains(p.err.String(), "goes on without n") })
			s.more()
			s.signal(p.cmd.Process.Pid, syscall.SIGINT)
			p.ends(0)
			p.holds("end_cause=interrupted", "accounting_ok=true", "events_abandoned=0",
				"degraded=true", "events_marked>0")
			s.lacks(p, shape.victim)
			s.nothingLeft("out")
			p.found("out/")
		})
	}
}

// indexed is how many bytes there are in the indices of segments, which grow with every MEP.
func (s *session) indexed() (bytes int64) {
	_ = filepath.WalkDir(s.dir, func(_ string, d os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(d.Name(), ".idx") {
			if info, err := d.Info(); err == nil {
				bytes += info.Size()
			}
		}
		return nil
	})
	return bytes
}

// more waits until more MEPs are in the output than can be under way.
func (s *session) more() {
	s.t.Helper()
	from := s.indexed()
	eventually(s.t, "the run goes on", func() bool { return s.indexed() > from+64*32 })
}

// lacks holds that the report and the manifest name the readout unit that was gone, and nobody else, in the same words.
func (s *session) lacks(p *program, node string) {
	s.t.Helper()
	var r struct {
		EventsMarked uint64                  `json:"events_marked"`
		Lacking      []recording.UnitOutages `json:"lacking"`
	}
	text, err := json.Marshal(p.report())
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	if len(r.Lacking) != 1 || r.Lacking[0].Node != node || r.Lacking[0].Events != r.EventsMarked {
		s.t.Errorf("%d events are marked, and lacking is %+v, want %s", r.EventsMarked, r.Lacking, node)
	}
	manifests, _ := filepath.Glob(filepath.Join(s.dir, "out", "*"))
	for _, dir := range manifests {
		m, err := recording.Load(dir)
		if err != nil {
			s.t.Fatal(err)
		}
		if m.Verdict == nil || m.Verdict.Verdict != "DEGRADED" || len(m.Verdict.UnitOutages) != 1 ||
			!reflect.DeepEqual(m.Verdict.UnitOutages[0], r.Lacking[0]) {
			s.t.Errorf("the manifest says %+v, the report %+v", m.Verdict, r.Lacking)
		}
	}
	if len(manifests) == 0 {
		s.t.Error("there is no manifest")
	}
}
