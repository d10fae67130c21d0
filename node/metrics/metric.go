package metrics

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Kinds of metrics.
const (
	counter   = "counter"
	gauge     = "gauge"
	histogram = "histogram"
	summary   = "summary"
)

// Metric is one of those that are told.
type Metric struct {
	Name   string
	Kind   string
	Labels []string
	Help   string
}

// desc describes a metric to Prometheus.
func (m *Metric) desc() *prometheus.Desc { return prometheus.NewDesc(m.Name, m.Help, m.Labels, nil) }

// tell gives one value of it.
func (m *Metric) tell(out chan<- prometheus.Metric, v float64, labels ...string) {
	kind := prometheus.GaugeValue
	if m.Kind == counter {
		kind = prometheus.CounterValue
	}
	if one, err := prometheus.NewConstMetric(m.desc(), kind, v, labels...); err == nil { // which fails where labels are not UTF-8
		out <- one
	}
}

// flag is 1 for yes.
func flag(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// levels are the counters that go down again, or stand at the most there ever was.
var levels = []string{
	"ru.retained", "ru.retained_bytes_high", "ru.open", "ru.bad_input", "bu.window_high", "link.tx_free", "link.tx_used",
}

// OfCounter is the metric of a counter of a node, by its name: ru.bytes_written is ringlet_ru_bytes_written_total. One of three words is one of
// several by kind: the last is then the label.
func OfCounter(name string) (m Metric, kind string, factor float64) {
	room, rest, _ := strings.Cut(name, ".")
	m = Metric{Kind: counter, Help: "The counter " + name + " of a node."}
	rest, kind, byKind := strings.Cut(rest, ".")
	if byKind {
		m.Labels, m.Help = []string{"kind"}, "The counters "+room+"."+rest+".* of a node."
		rest += "_by_kind"
	}
	factor = 1.0
	if us, isTime := strings.CutSuffix(rest, "_us"); isTime {
		rest, factor = us+"_seconds", 1e-6
	}
	m.Name = "ringlet_" + word(room) + "_" + word(rest)
	if slices.Contains(levels, name) {
		m.Kind = gauge
	} else {
		m.Name += "_total"
	}
	return m, kind, factor
}

// word makes what a name may hold.
func word(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, s)
}

// certificateEnd is told by every process that has a certificate.
var certificateEnd = Metric{
	"ringlet_certificate_end_timestamp_seconds", gauge, nil,
	"When the certificate of this process ends, in seconds since 1970. Warn a fortnight before.",
}

// certificate tells until when a certificate is good. Nil: there is none.
type certificate func() time.Time

// Describe says nothing beforehand, as the others.
func (certificate) Describe(chan<- *prometheus.Desc) {}

// Collect tells it.
func (c certificate) Collect(out chan<- prometheus.Metric) {
	if c != nil {
		certificateEnd.tell(out, float64(c().Unix()))
	}
}

// handler serves collectors, and what Go and the kernel tell of this process.
func handler(c ...prometheus.Collector) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(c...)
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: atATime})
}

// atATime is how many may scrape at a time; more are told to come back.
const atATime = 4
