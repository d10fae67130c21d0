package predict

import (
	"bytes"
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ringlet/testkit/must"
)

var update = flag.Bool("update", false, "calibrate again, and write published")

// points are those of the published study.
func points(t *testing.T) []Point {
	t.Helper()
	s, err := LoadStudy("published/study.yaml")
	must.OK(t, err)
	all, err := s.Points("published")
	must.OK(t, err)
	return all
}

// TestPublishedErrors: the calibration is that of the code, and so is the table of errors.
func TestPublishedErrors(t *testing.T) {
	if testing.Short() {
		t.Skip("the model has one goroutine")
	}
	all := points(t)
	if *update {
		fitted, err := Calibrate(t.Context(), all, nil)
		must.OK(t, err)
		judged, err := Judge(t.Context(), all, fitted)
		must.OK(t, err)
		var text bytes.Buffer
		must.OK(t, fitted.Write(&text, judged))
		must.OK(t, os.WriteFile("published/costs.yaml", text.Bytes(), 0o666))
	}
	costs, err := LoadCosts("published/costs.yaml")
	must.OK(t, err)
	judged, err := Judge(t.Context(), all, costs)
	must.OK(t, err)
	var text bytes.Buffer
	must.OK(t, WriteErrors(&text, judged))
	const table = "published/errors.txt"
	if *update {
		must.OK(t, os.WriteFile(table, text.Bytes(), 0o666))
	}
	want, err := os.ReadFile(table)
	must.OK(t, err)
	if diff := cmp.Diff(string(want), text.String()); diff != "" {
		t.Errorf("run go test ./sim/predict -update: %s", diff)
	}
	fit := 0
	for _, j := range judged {
		if j.Fit {
			fit++
		}
	}
	if fit > len(judged)/3+4 { // a third of each sweep, rounded up
		t.Errorf("%d of %d points are calibrated on", fit, len(judged))
	}
	if median, _, n := errorsOf(judged, false); n < 20 || median > 0.15 {
		t.Errorf("%d points judged, with a median error of %.3f", n, median)
	}
}

// TestFitFindsCosts: rates that the model itself gave lead back to them.
func TestFitFindsCosts(t *testing.T) {
	if testing.Short() {
		t.Skip("the model has one goroutine")
	}
	all := points(t)[:12]
	truth := Costs{
		Part:     600e-6,
		Packet:   20e-6,
		Byte:     2e-9,
		Message:  100e-6,
		Flight:   200e-6,
		Header:   150,
		Patience: 20e-3,
	}
	rates, err := ratesOf(t.Context(), all, truth)
	must.OK(t, err)
	for i := range all {
		all[i].Rate, all[i].Fit = rates[i], i%4 != 2 // without those that have no barrier
	}
	got, err := Calibrate(t.Context(), all, nil)
	must.OK(t, err)
	judged, err := Judge(t.Context(), all, got)
	must.OK(t, err)
	if median, worst, _ := errorsOf(judged, true); median > 0.01 || worst > 0.05 {
		t.Errorf("median %.4f, worst %.4f with %+v", median, worst, got)
	}
	if _, err := Calibrate(t.Context(), all[:2], nil); err == nil || !strings.Contains(err.Error(), "too few") {
		t.Errorf("two points: %v", err)
	}
}

const good = `
title: eight nodes
cluster: {cores: 8, port: 100 Gbit/s, queue: 1 MB, mtu: 9000 B, tree: {per-leaf: 4, spines: 2, links: 2}, lossless: true}
configuration: {nodes: 8, phase-end: tournament, packing: 1000, fragment-model: constant, fragment-size: 100}
`

// parsed reads a file's text.
func parsed(t *testing.T, text string) *File {
	t.Helper()
	f, err := parse("f.yaml", strings.NewReader(text))
	must.OK(t, err)
	return f
}

// free is software that costs nothing.
var free = Costs{Patience: 1}

// TestPortsAreFull: with software that costs nothing, a shift leaves the ports idle only where a phase stays at home, and
// for its hops: each of 7 phases of 8 sends 3 × 1,000 fragments of 100 bytes with their tables.
func TestPortsAreFull(t *testing.T) {
	p, err := parsed(t, strings.Replace(good, "packing: 1000", "packing: 20000", 1)).Predict(t.Context(), free, 0)
	must.OK(t, err)
	if math.Abs(p.Efficiency-0.93) > 0.05 || p.Binds != "port" {
		t.Errorf("efficiency %.3f, binds %s: %+v", p.Efficiency, p.Binds, p.Gains)
	}
}

// TestWhatBinds: with little of something, that is what binds.
func TestWhatBinds(t *testing.T) {
	if testing.Short() {
		t.Skip("the model has one goroutine")
	}
	slow := Costs{Part: 10e-3, Patience: 1}
	far := Costs{Flight: 10e-3, Patience: 1}
	for _, x := range []struct {
		old, by string
		costs   Costs
		binds   string
	}{
		{"cores: 8", "cores: 1", slow, "processor"},
		{"cores: 8", "cores: 8", far, "barrier"},
		{"phase-end: tournament", "rate: 1000", free, "rate offered"},
		{"phase-end: tournament", "discipline: pull, slots: 1", far, "slots"},
		{"lossless: true", "memory: 2.6 MB", free, "port"},
	} {
		f := parsed(t, strings.Replace(good, x.old, x.by, 1))
		p, err := f.Predict(t.Context(), x.costs, 0)
		must.OK(t, err)
		if p.Binds != x.binds {
			t.Errorf("%s: %s binds, not %s: %+v", x.by, p.Binds, x.binds, p)
		}
	}
}

// TestEverySettingPlays: all disciplines and barriers, on clusters of all kinds, apart and folded, come to an end and
// place what is sent.
func TestEverySettingPlays(t *testing.T) {
	if testing.Short() {
		t.Skip("the model has one goroutine")
	}
	for _, discipline := range []string{"shift", "tagring", "tagring-wait", "pull", "free"} {
		for _, cluster := range []string{"lossless: true", "shared: true", "hosts: 3"} {
			for _, units := range []string{"nodes: 5", "rus: 3, bus: 5, sources: 8", "rus: 5, bus: 2"} {
				text := strings.Replace(good, "lossless: true", cluster, 1)
				text = strings.Replace(text, "nodes: 8, phase-end: tournament", units+", discipline: "+discipline, 1)
				f := parsed(t, text)
				w, err := newWorld(f, f.Setup, begin)
				must.OK(t, err)
				if err := w.play(t.Context()); err != nil || w.placed > w.sent || w.placed == 0 {
					t.Errorf("%s, %s, %s: %d of %d bytes, %v", discipline, cluster, units, w.placed, w.sent, err)
				}
			}
		}
	}
}

func TestWhatIsWrongWithAFileIsSaid(t *testing.T) {
	for _, x := range []struct{ old, by, sentence string }{
		{"port: 100 Gbit/s", "hosts: 1", "port is missing"},
		{"100 Gbit/s", "100 ns", "cluster.port"},
		{"nodes: 8", "nodes: 1001", "1001 is not between 0 and 1000"},
		{"nodes: 8", "rus: 8", "give nodes, or rus and bus"},
		{"tournament", "tea", "tea"},
		{"packing: 1000", "packing: 0", "0 is not between 1 and 65535"},
		{"title", "titel", "titel"},
		{"per-leaf: 4", "per-leaf: 0", "cluster.tree.per-leaf"},
	} {
		_, err := parse("f.yaml", strings.NewReader(strings.Replace(good, x.old, x.by, 1)))
		if err == nil || !strings.Contains(err.Error(), x.sentence) {
			t.Errorf("%s: %v, expected %q", x.by, err, x.sentence)
		}
	}
	_, err := parseCosts("c.yaml", strings.NewReader("costs: {part: 1 ms}"))
	if err == nil || !strings.Contains(err.Error(), "packet is missing") {
		t.Error(err)
	}
}

func TestResultsThatAreNoneAreRefused(t *testing.T) {
	dir := t.TempDir()
	s := parsed(t, good).Of([]string{"r.csv"})
	for text, sentence := range map[string]string{
		"":                                 "no results",
		"exit_code,error,nodes\n0,,many\n": "is this results.csv of ringlet bench sweep?",
		"exit_code,error\n0\n":             "wrong number of fields",
	} {
		must.OK(t, os.WriteFile(filepath.Join(dir, "r.csv"), []byte(text), 0o666))
		if _, err := s.Points(dir); err == nil || !strings.Contains(err.Error(), sentence) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func FuzzResults(f *testing.F) {
	line, err := os.ReadFile("../../lab/sweeps/results/large.csv")
	must.OK(f, err)
	f.Add(string(line))
	f.Fuzz(func(_ *testing.T, text string) {
		m := Results{Name: "x"}
		_, _ = m.points(strings.NewReader(text))
	})
}

func FuzzParse(f *testing.F) {
	f.Add(good)
	f.Fuzz(func(_ *testing.T, text string) { _, _ = parse("f.yaml", strings.NewReader(text)) })
}
