package metrics

import (
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"ringlet/internal/counter"
)

// Kinds of metrics.
const (
	counted   = "counter"
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
	if m.Kind == counted {
		kind = prometheus.CounterValue
	}
	// which fails where labels are not UTF-8
	if one, err := prometheus.NewConstMetric(m.desc(), kind, v, labels...); err == nil {
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

// ofCounter is the metric of a counter of a node: ru.bytes_written is ringlet_ru_bytes_written_total. Of counters by
// kind the rest of the name is the label. Times are in seconds.
func ofCounter(c *counter.Counter) Metric {
	name, m := c.Name, Metric{Kind: counted, Help: sentence(c.Help)}
	if c.ByKind {
		name, m.Labels = strings.TrimRight(name, "._")+"_by_kind", []string{"kind"}
	}
	if time, ok := strings.CutSuffix(name, "_us"); ok {
		name = time + "_seconds"
	}
	m.Name = "ringlet_" + word(name)
	if c.Kind == counter.Count {
		m.Name += "_total"
	} else {
		m.Kind = gauge
	}
	return m
}

// sentence makes one of the words of a table.
func sentence(s string) string {
	first, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + s[size:] + "."
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
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError,
		MaxRequestsInFlight: atATime})
}

// atATime is how many may scrape at a time; more are told to come back.
const atATime = 4
