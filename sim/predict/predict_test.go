package predict

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"ringlet/testkit/must"
)

var update = flag.Bool("update", false, "calibrate again, and write published")

// points are those of a published study.
func points(t *testing.T, study string) []Point {
	t.Helper()
	s, err := LoadStudy("published/" + study + ".yaml")
	must.OK(t, err)
	all, err := s.Points("published")
	must.OK(t, err)
	return all
}

// TestPublishedErrors: the calibrations are those of the code, and so are the tables of errors.
func TestPublishedErrors(t *testing.T) {
	for _, x := range []struct{ study, costs, errors string }{
		{"study", "published/costs.yaml", "published/errors.txt"},
		{"blind", "published/blind-costs.yaml", "published/blind-errors.txt"},
	} {
		all := points(t, x.study)
		if *update {
			known := &Calibration{}
			must.OK(t, known.LoadCarriers("published/carriers.json"))
			fitted, err := Calibrate(t.Context(), all, known, nil)
			must.OK(t, err)
			judged, err := Judge(t.Context(), all, fitted.Costs)
			must.OK(t, err)
			var text bytes.Buffer
			must.OK(t, fitted.Write(&text, judged))
			must.OK(t, os.WriteFile(x.costs, text.Bytes(), 0o666))
		}
		costs, err := LoadCosts(x.costs)
		must.OK(t, err)
		judged, err := Judge(t.Context(), all, costs.Costs)
		must.OK(t, err)
		var text bytes.Buffer
		must.OK(t, WriteErrors(&text, judged))
		if *update {
			must.OK(t, os.WriteFile(x.errors, text.Bytes(), 0o666))
		}
		want, err := os.ReadFile(x.errors)
		must.OK(t, err)
		if diff := cmp.Diff(string(want), text.String()); diff != "" {
			t.Errorf("run go test ./sim/predict -update: %s", diff)
		}
	}
}

// TestFitFindsCosts: rates that the model itself gave lead back to them.
func TestFitFindsCosts(t *testing.T) {
	if testing.Short() {
		t.Skip("the model has one goroutine")
	}
	all := points(t, "study")[:12]
	truth := Costs{
		Part:              600e-6,
		Packet:            20e-6,
		Byte:              2e-9,
		Message:           100e-6,
		MessageDelay:      200e-6,
		IdleShare:         0.03,
		OtherLoad:         0.2,
		RetransmitTimeout: 20e-3,
	}
	rates, err := predictRates(t.Context(), all, truth)
	must.OK(t, err)
	for i := range all {
		// without those that have no barrier
		all[i].Rate, all[i].Rates, all[i].UsedInFit = rates[i], []float64{rates[i]}, i%4 != 2
	}
	got, err := Calibrate(t.Context(), all, &Calibration{}, nil)
	must.OK(t, err)
	judged, err := Judge(t.Context(), all, got.Costs)
	must.OK(t, err)
	judged = slices.DeleteFunc(judged, func(j JudgedPoint) bool { return !j.UsedInFit })
	if e, _ := errorsOf(judged, -1); e.Median > 0.01 || e.Worst > 0.05 {
		t.Errorf("%+v with %+v", e, got)
	}
	if _, err := Calibrate(t.Context(), all[:2], &Calibration{}, nil); err == nil ||
		!strings.Contains(err.Error(), "too few") {
		t.Errorf("two points: %v", err)
	}
}

const good = `
title: eight nodes
cluster: {cores: 8, port: 100 Gbit/s, queue: 1 MB, mtu: 9000 B, lossless: true}
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
var free = Costs{RetransmitTimeout: 1}

// TestPortsAreFull: with software that costs nothing, a shift leaves the ports idle only where a phase stays at home,
// and for its hops: each of 7 phases of 8 sends 3 × 1,000 fragments of 100 bytes with their tables.
func TestPortsAreFull(t *testing.T) {
	p, err := parsed(t, strings.Replace(good, "packing: 1000", "packing: 20000", 1)).Predict(t.Context(), free, 0)
	must.OK(t, err)
	if math.Abs(p.Efficiency-0.93) > 0.05 || p.Bottleneck != "port" {
		t.Errorf("efficiency %.3f, binds %s: %+v", p.Efficiency, p.Bottleneck, p.Gains)
	}
}

// TestWhatBinds: with little of something, that is what binds.
func TestWhatBinds(t *testing.T) {
	if testing.Short() {
		t.Skip("the model has one goroutine")
	}
	slow := Costs{Part: 10e-3, RetransmitTimeout: 1}
	far := Costs{MessageDelay: 10e-3, RetransmitTimeout: 1}
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
		if p.Bottleneck != x.binds {
			t.Errorf("%s: %s binds, not %s: %+v", x.by, p.Bottleneck, x.binds, p)
		}
	}
}

// TestEverySettingPlays: all disciplines and barriers, on clusters of all kinds, apart and folded, come to an end and
// place what is sent.
func TestEverySettingPlays(t *testing.T) {
	if testing.Short() {
		t.Skip("the model has one goroutine")
	}
	for _, discipline := range []string{"shift", "push", "tagring", "tagring-wait", "pull", "free"} {
		for _, cluster := range []string{"lossless: true", "shared: true", "hosts: 3"} {
			for _, units := range []string{"nodes: 5", "rus: 3, bus: 5, sources: 8", "rus: 5, bus: 2"} {
				text := strings.Replace(good, "lossless: true", cluster, 1)
				text = strings.Replace(text, "nodes: 8, phase-end: tournament", units+", discipline: "+discipline, 1)
				f := parsed(t, text)
				w, err := newWorld(f, f.Setup, initialCosts)
				must.OK(t, err)
				if err := w.play(t.Context()); err != nil || w.CountedTo.PlacedBytes == 0 {
					t.Errorf("%s, %s, %s: %d bytes, %v", discipline, cluster, units, w.CountedTo.PlacedBytes, err)
				}
			}
		}
	}
}

func TestWhatIsWrongWithAFileIsSaid(t *testing.T) {
	for _, x := range []struct{ old, by, sentence string }{
		{"port: 100 Gbit/s", "hosts: 2", "port is missing"},
		{"100 Gbit/s", "100 ns", "cluster.port"},
		{"nodes: 8", "nodes: 1001", "1001 is not between 0 and 1000"},
		{"nodes: 8", "rus: 8", "give nodes, or rus and bus"},
		{"tournament", "tea", "tea"},
		{"packing: 1000", "packing: 0", "0 is not between 1 and 65535"},
		{"title", "titel", "titel"},
		{"nodes: 8", "transport: local, nodes: 8", "local goes within one host"},
	} {
		_, err := parse("f.yaml", strings.NewReader(strings.Replace(good, x.old, x.by, 1)))
		if err == nil || !strings.Contains(err.Error(), x.sentence) {
			t.Errorf("%s: %v, expected %q", x.by, err, x.sentence)
		}
	}
	_, err := parseCosts("c.yaml", strings.NewReader("origin: here\ncosts: {part: 1 ms}"))
	if err == nil || !strings.Contains(err.Error(), "packet is missing") {
		t.Error(err)
	}
}

func TestResultsThatAreNoneAreRefused(t *testing.T) {
	dir := t.TempDir()
	s := parsed(t, good).WithResults([]string{"r.csv"})
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

// TestOneHostHasAWarning: the page says where a prediction is not to be believed, and only there.
func TestOneHostHasAWarning(t *testing.T) {
	onOne := strings.Replace(good, "cluster: {", "cluster: {hosts: 1, ", 1)
	for text, warned := range map[string]bool{good: false, onOne: true} {
		f := parsed(t, text)
		var page strings.Builder
		must.OK(t, f.WritePage(&page, nil, &Calibration{}))
		if says := strings.Contains(page.String(), "Do not believe this"); says != warned || (f.Warning() != "") != warned {
			t.Errorf("%v, %q of\n%s", says, f.Warning(), text)
		}
	}
}

// TestTopologyIsTheUsers: the tree of a file of ringlet plan, in which nodes on one leaf share a link, costs what it
// must; too few nodes there are an error.
func TestTopologyIsTheUsers(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
		return filepath.Join(dir, name)
	}
	write("thin.yaml", "fat-tree: {leaves: 2, spines: 1, ports: 4, nodes: 4}")
	write("wide.yaml", "fat-tree: {leaves: 2, spines: 2, links: 2, nodes: 4}")
	write("torus.yaml", "torus: {rows: 2, columns: 4}")
	rate := func(name string) float64 {
		text := strings.Replace(good, "mtu:", "topology: "+name+", mtu:", 1)
		text = strings.Replace(text, "packing: 1000", "packing: 20000", 1)
		text = strings.Replace(text, "lossless: true", "lossless: false", 1)
		f, err := Load(write("f.yaml", text))
		must.OK(t, err)
		p, err := predictOne(t.Context(), f, f.Setup, free)
		must.OK(t, err)
		_, err = predictOne(t.Context(), f, f.Setup.ofNodes(9), free)
		var few *tooFewNodesError
		if !errors.As(err, &few) {
			t.Errorf("nine nodes on %s: %v", name, err)
		}
		return p.Rate
	}
	thin, wide := rate("thin.yaml"), rate("wide.yaml")
	// Of eight phases, one stays at home; of the others, 1, 2, 3, 4, 3, 2 and 1 flows go up from each leaf.
	if got := wide / thin; math.Abs(got-16.0/7) > 0.1 {
		t.Errorf("a tree with links for all is %.2f times as fast as one with a single link, by hand %.2f", got, 16.0/7)
	}
	if torus := rate("torus.yaml"); torus >= wide {
		t.Errorf("rings with room for one flow are as fast as a tree")
	}
	_, err := Load(write("f.yaml", strings.Replace(good, "mtu:", "topology: torus.yaml, mtu:", 1)))
	if err == nil || !strings.Contains(err.Error(), "rings of a torus") {
		t.Error(err)
	}
}

// TestCarriersAreRead: writes of two sizes tell what a carrier takes, and what is no report is refused.
func TestCarriersAreRead(t *testing.T) {
	const text = `{"started": "2026-01-02T03:04:05Z", "version": "x", "machine": {"cpu": "some", "cores": 4},
		"references": [{"name": "seal", "near_cpu_s_per_gb": {"median": 0.1}}],
		"carriers": [` + "%s" + `]}`
	// 2 µs for a write, 1 µs for a datagram of 1,000 bytes, 0.1 ns for a byte.
	row := func(size int) string {
		cost := 2e-6 + float64(size)/1000*1e-6 + float64(size)*0.1e-9
		return fmt.Sprintf(`{"carrier": "quic", "size": %d, "goodput_gbps": {"median": 8}, "datagrams_per_s": {"median": 1e6},
			"datagram_bytes": {"median": 1000}, "near_cpu_s_per_gb": {"median": %g}, "far_cpu_s_per_gb": {"median": %g}}`,
			size, cost/float64(size)*1e9, cost/float64(size)*1e9)
	}
	var c Calibration
	must.OK(t, c.readCarriers("r.json", strings.NewReader(fmt.Sprintf(text, row(1000)+","+row(100000)))))
	want := Carrier{Part: 2e-6, Packet: 1e-6, Byte: 0.1e-9, MaxDatagramData: 1000}
	if diff := cmp.Diff(want, c.carrier("quic"), cmpopts.EquateApprox(1e-3, 0)); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(c.Origin, "2026-01-02T03:04:05Z, some, 4 cores") {
		t.Error(c.Origin)
	}
	for rows, sentence := range map[string]string{
		"":         "it has no carriers",
		row(1000):  "one size",
		"7":        "no such report",
		row(-1000): "carriers[0]: quic with -1000 bytes",
		strings.Replace(row(1), "quic", "pigeon", 1): "pigeon",
	} {
		var wrong *ReportError
		err := c.readCarriers("r.json", strings.NewReader(fmt.Sprintf(text, rows)))
		if !errors.As(err, &wrong) || !strings.Contains(err.Error(), sentence) {
			t.Errorf("%s: %v, expected %q", rows, err, sentence)
		}
	}
}

func FuzzCarriers(f *testing.F) {
	text, err := os.ReadFile("published/carriers.json")
	must.OK(f, err)
	f.Add(string(text))
	f.Fuzz(func(t *testing.T, text string) {
		var c Calibration
		if c.readCarriers("r.json", strings.NewReader(text)) != nil {
			return
		}
		for i, x := range c.Carriers {
			for _, v := range []float64{x.Part, x.Packet, x.Byte, x.MaxDatagramData} {
				if !(v >= 0) {
					t.Errorf("%s: %+v", carriers[i], x)
				}
			}
		}
	})
}

func FuzzCosts(f *testing.F) {
	f.Add(string(published))
	f.Fuzz(func(_ *testing.T, text string) { _, _ = parseCosts("c.yaml", strings.NewReader(text)) })
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
