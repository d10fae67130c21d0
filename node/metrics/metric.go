package metrics

import (
	"net/http"
	"slices"
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
	kindCounter   = "counter"
	kindGauge     = "gauge"
	kindHistogram = "histogram"
	kindSummary   = "summary"
)

// Metric describes one metric.
type Metric struct {
	Name   string
	Kind   string
	Labels []string
	Help   string
}

// metricTable is the metrics of a kind of process.
type metricTable []Metric

func (m *metricTable) add(name, kind, help string, labels ...string) *Metric {
	one := Metric{
		Name:   name,
		Kind:   kind,
		Labels: labels,
		Help:   help,
	}
	*m = append(*m, one)
	return &one
}

// withCounters adds the metrics of a list of counters and those of every process.
func (m metricTable) withCounters(counters counter.List, of func(*counter.Counter) Metric) []Metric {
	all := append(slices.Clone(m), *certificateEnd)
	for i := range counters {
		all = append(all, of(&counters[i]))
	}
	return all
}

// desc describes the metric to Prometheus.
func (m *Metric) desc() *prometheus.Desc { return prometheus.NewDesc(m.Name, m.Help, m.Labels, nil) }

// emit sends one value of the metric.
func (m *Metric) emit(out chan<- prometheus.Metric, v float64, labels ...string) {
	kind := prometheus.GaugeValue
	if m.Kind == kindCounter {
		kind = prometheus.CounterValue
	}
	// NewConstMetric fails for labels that are not UTF-8
	if one, err := prometheus.NewConstMetric(m.desc(), kind, v, labels...); err == nil {
		out <- one
	}
}

// boolValue is 1 for true.
func boolValue(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// sourcePrefix is the prefix of the counters of live sources.
const sourcePrefix = "ru.input_"

// counterMetric is the metric of a node's counter: ru.bytes_written is ringlet_ru_bytes_written_total. For counters by
// kind the rest of the name is the label; for those of live sources, the label is the source id. Times are in seconds.
func counterMetric(c *counter.Counter) Metric {
	name, m := c.Name, Metric{Kind: kindCounter, Help: sentence(c.Help)}
	by := ""
	switch {
	case strings.HasPrefix(name, sourcePrefix):
		name, m.Labels = strings.TrimSuffix(name, "."), []string{"source"}
	case c.ByKind:
		name, by, m.Labels = strings.TrimRight(name, "._"), "_by_kind", []string{"kind"}
	}
	if time, ok := strings.CutSuffix(name, "_us"); ok {
		name = time + "_seconds"
	}
	name += by
	m.Name = "ringlet_" + sanitizeName(name)
	if c.Kind == counter.Count {
		m.Name += "_total"
	} else {
		m.Kind = kindGauge
	}
	return m
}

// sentence makes a sentence of a help text.
func sentence(s string) string {
	first, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + s[size:] + "."
}

// sanitizeName replaces characters that a metric's name may not have.
func sanitizeName(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, s)
}

// certificateEnd is a metric of every process with a certificate.
var certificateEnd = new(metricTable).add("ringlet_certificate_end_timestamp_seconds", kindGauge,
	"When the certificate of this process ends, in seconds since 1970.")

// collector sends metrics when it is scraped.
type collector func(out chan<- prometheus.Metric)

// Describe describes no metrics beforehand, since the counters differ from report to report.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends the metrics.
func (c collector) Collect(out chan<- prometheus.Metric) { c(out) }

// newRegistry makes a registry with what every process has: the end of its certificate, and the metrics of Go and of
// the kernel. notAfter is nil if there is no certificate.
func newRegistry(notAfter func() time.Time) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collector(func(out chan<- prometheus.Metric) {
		if notAfter != nil {
			certificateEnd.emit(out, float64(notAfter().Unix()))
		}
	}))
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// handler serves the metrics of a registry.
func handler(r *prometheus.Registry) http.Handler {
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError,
		MaxRequestsInFlight: maxScrapes})
}

// maxScrapes is how many scrapes may be under way; further ones get an error.
const maxScrapes = 4
