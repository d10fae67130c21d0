package metrics

import (
	"io"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"ringlet/internal/counter"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
	nodev1 "ringlet/proto/ringlet/node/v1"
	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func report(t *testing.T) *nodev1.Report {
	h := hdr.New(1, int64(time.Hour/time.Microsecond), 3)
	for us := range int64(100) {
		if err := h.RecordValue(us + 1); err != nil {
			t.Fatal(err)
		}
	}
	b, err := h.Encode(hdr.V2CompressedEncodingCookieBase)
	if err != nil {
		t.Fatal(err)
	}
	return &nodev1.Report{
		Name:    "n1",
		Version: "v9",
		Run:     3,
		Status:  &nodev1.Status{State: "Running", InBetween: "Stopping"},
		Counters: map[string]uint64{
			"ru.bytes_written": 5, "ru.barrier_us": 2_500_000, "ru.open": 4, "bu.strays.of_another_attempt": 1,
			"bu.strays.late-ish": 2,
			"nonsense":           1,
		},
		Histograms: map[string][]byte{"barrier_us": b},
		Links:      []*nodev1.Link{{Peer: "n0", BytesWritten: 7, ChunksResent: 2}},
		Machine:    &nodev1.Machine{Processors: 2, MemoryBytes: 1 << 30},
	}
}

// ends is when the certificates of these tests end.
func ends() time.Time { return time.Unix(1_800_000_000, 0) }

// counters are those of these tests.
var counters = counter.List{
	{Name: "ru.bytes_written", Unit: "bytes", Help: "bytes of writes", Kind: counter.Count},
	{Name: "ru.barrier_us", Unit: counter.Micros, Help: "time in the barrier", Kind: counter.Count},
	{Name: "ru.open", Help: "transfers without an outcome", Kind: counter.Level},
	{Name: "ru.window_high", Help: "what no report of these tests has", Kind: counter.Max},
	{Name: "bu.strays.", Help: "placements that no grant explains", Kind: counter.Count, ByKind: true},
	{Name: "an odd.näme", Help: "odd", Kind: counter.Count},
}

func TestNode(t *testing.T) {
	read := func() *nodev1.Report {
		r := report(t)
		r.Counters["an odd.näme"] = 1
		return r
	}
	c := collector(func(out chan<- prometheus.Metric) { emitNode(out, counters, read()) })
	if problems, err := testutil.CollectAndLint(c); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	r := httptest.NewRecorder()
	NodeHandler(counters, ends)(reportsOf("n1", read)).ServeHTTP(r, httptest.NewRequest("GET", "/metrics", nil))
	text, _ := io.ReadAll(r.Result().Body)
	for _, want := range []string{
		`ringlet_node_info{node="n1",version="v9"} 1`, `ringlet_node_state{state="Running"} 1`,
		`ringlet_node_state{state="Ready"} 0`,
		`ringlet_node_in_between 1`, "ringlet_ru_bytes_written_total 5",
		"# HELP ringlet_ru_bytes_written_total Bytes of writes.", "ringlet_ru_barrier_seconds_total 2.5", "ringlet_ru_open 4",
		`ringlet_bu_strays_by_kind_total{kind="late-ish"} 2`, `ringlet_peer_bytes_written_total{peer="n0"} 7`,
		`ringlet_ru_barrier_wait_seconds{quantile="0.5"} 5e-05`,
		"ringlet_ru_barrier_wait_seconds_count 100", "ringlet_certificate_end_timestamp_seconds 1.8e+09",
		"ringlet_an_odd_n_me_total 1", "go_goroutines", "process_cpu_seconds_total",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the metrics lack %q:\n%s", want,
				regexp.MustCompile(`(?m)^(#|go_|process_).*\n`).ReplaceAllString(string(text), ""))
		}
	}
	if strings.Contains(string(text), "ringlet_nonsense") || strings.Contains(string(text), "window_high") ||
		strings.Contains(string(text), "disk") {
		t.Error("what is not known is told")
	}
}

// reportsOf is the node of a process that has one.
func reportsOf(name string, read func() *nodev1.Report) map[string]func() *nodev1.Report {
	return map[string]func() *nodev1.Report{name: read}
}

// TestNodesOfAProcess: each metric names its node, and what the process has once is there once.
func TestNodesOfAProcess(t *testing.T) {
	reports := reportsOf("n1", func() *nodev1.Report { return report(t) })
	reports["n1.1"] = func() *nodev1.Report {
		r := report(t)
		r.Name, r.Run = "n1.1", 4
		return r
	}
	r := httptest.NewRecorder()
	NodeHandler(counters, ends)(reports).ServeHTTP(r, httptest.NewRequest("GET", "/metrics", nil))
	text, _ := io.ReadAll(r.Result().Body)
	for _, want := range []string{
		`ringlet_node_info{node="n1",version="v9"} 1`, `ringlet_node_info{node="n1.1",version="v9"} 1`,
		`ringlet_node_run_number{node="n1"} 3`, `ringlet_node_run_number{node="n1.1"} 4`,
		`ringlet_node_state{node="n1.1",state="Running"} 1`, `ringlet_ru_open{node="n1"} 4`,
		`ringlet_bu_strays_by_kind_total{kind="late-ish",node="n1.1"} 2`,
		`ringlet_ru_barrier_wait_seconds{node="n1.1",quantile="0.5"} 5e-05`,
		"\nringlet_certificate_end_timestamp_seconds 1.8e+09", "\ngo_goroutines ", "\nprocess_cpu_seconds_total ",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the metrics lack %q:\n%s", want,
				regexp.MustCompile(`(?m)^(#|go_|process_).*\n`).ReplaceAllString(string(text), ""))
		}
	}
}

func TestControl(t *testing.T) {
	p := Partition{
		Status: &ecsv1.PartitionStatus{Version: "v9", Root: &ecsv1.Component{State: "Running", Degraded: true}},
		Snapshot: &ecsv1.Snapshot{
			Run:      12,
			ElapsedS: 1.5,
			Total:    &ecsv1.Figures{EventsBuilt: 100, EventRateHz: 50},
			Nodes:    []*ecsv1.NodeFigures{{Name: "n0", State: "Running", ReportAgeMs: 500}, {Name: "n1", Silent: true}},
			Holders:  []*ecsv1.Holder{{Ru: 3, Epochs: 7}},
			Scheduler: &ecsv1.Scheduler{
				State:      "running",
				WaitingFor: "slots",
				Counters:   map[string]uint64{"issued": 9},
				Slots:      []*ecsv1.SlotUse{{Bu: 1, Used: 3, Slots: 4}},
				Queues: []*ecsv1.Queue{{Name: "slots of n1", Depth: &tagnetv1.Depth{Now: 3, Max: 4, Capacity: 4,
					Crossed: []uint64{1, 2, 3, 4}, Full: 5}}},
				Groups: []*ecsv1.Group{{Nodes: []string{"n0", "n1"}, Free: 6}},
			},
			Latency: &ecsv1.Latency{Bars: []*ecsv1.Bar{{FromUs: 3, ToUs: 4, Count: 2}, {FromUs: 1000, ToUs: 1024, Count: 5}}},
			Alarms: []*ecsv1.Alarm{{Rule: "slow-source", Component: "readout unit 3",
				Severity: ecsv1.Severity_SEVERITY_WARNING}},
		},
		Runs:    map[ecsv1.Verdict]uint64{ecsv1.Verdict_VERDICT_GOOD: 3},
		Refused: map[string]uint64{"API": 5},
	}
	issued := counter.List{{Name: "issued", Help: "MEPs", Kind: counter.Count},
		{Name: "skips", Help: "skips", Kind: counter.Count}}
	collect := func(p Partition) collector {
		return func(out chan<- prometheus.Metric) { emitPartition(out, issued, p) }
	}
	if problems, err := testutil.CollectAndLint(collect(p)); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	r := httptest.NewRecorder()
	ControlHandler(issued, func() Partition { return p }, ends).ServeHTTP(r, httptest.NewRequest("GET", "/metrics", nil))
	text, _ := io.ReadAll(r.Result().Body)
	for _, want := range []string{
		`ringlet_control_info{version="v9"} 1`, `ringlet_partition_state{state="Running"} 1`, "ringlet_partition_degraded 1",
		"ringlet_run_number 12",
		`ringlet_connections_refused_total{service="API"} 5`,
		`ringlet_runs{verdict="good"} 3`, `ringlet_runs{verdict="aborted"} 0`, "ringlet_events_built_total 100",
		`ringlet_member_up{node="n1"} 0`,
		`ringlet_phases_held_total{ru="3"} 7`, `ringlet_scheduler_waiting{for="slots"} 1`, "ringlet_scheduler_issued_total 9",
		`ringlet_builder_slots_used{bu="1"} 3`,
		`ringlet_scheduler_queue{queue="slots of n1"} 3`, `ringlet_scheduler_queue_max{queue="slots of n1"} 4`,
		`ringlet_scheduler_queue_marks_total{percent="87.5",queue="slots of n1"} 4`,
		`ringlet_scheduler_queue_marks_total{percent="100",queue="slots of n1"} 5`,
		`ringlet_scheduler_free_slots{group="n0 n1"} 6`,
		`ringlet_build_latency_seconds_bucket{le="2e-06"} 0`, `ringlet_build_latency_seconds_bucket{le="4e-06"} 2`,
		`ringlet_build_latency_seconds_bucket{le="0.001024"} 7`,
		"ringlet_build_latency_seconds_count 7",
		`ringlet_alarm{component="readout unit 3",rule="slow-source",severity="warning"} 1`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the metrics lack %q", want)
		}
	}
	if problems, err := testutil.CollectAndLint(collect(Partition{})); err != nil || len(problems) > 0 {
		t.Errorf("before there is anything to tell: %v, %v", problems, err)
	}
}
