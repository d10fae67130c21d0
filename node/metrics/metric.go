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

// Metric is one of those that are told.
type Metric struct {
	Name   string
	Kind   string
	Labels []string
	Help   string
}

// metricTable are those of a process, each added where it is named.
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

// withCounters adds the counters of a list and what every process tells.
func (m metricTable) withCounters(counters counter.List, of func(*counter.Counter) Metric) []Metric {
	all := append(slices.Clone(m), *certificateEnd)
	for i := range counters {
		all = append(all, of(&counters[i]))
	}
	return all
}

// desc describes a metric to Prometheus.
func (m *Metric) desc() *prometheus.Desc { return prometheus.NewDesc(m.Name, m.Help, m.Labels, nil) }

// emit gives one value of it.
func (m *Metric) emit(out chan<- prometheus.Metric, v float64, labels ...string) {
	kind := prometheus.GaugeValue
	if m.Kind == kindCounter {
		kind = prometheus.CounterValue
	}
	// which fails where labels are not UTF-8
	if one, err := prometheus.NewConstMetric(m.desc(), kind, v, labels...); err == nil {
		out <- one
	}
}

// boolValue is 1 for yes.
func boolValue(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// sourcePrefix begins the names of the counters of live sources.
const sourcePrefix = "ru.input_"

// counterMetric is the metric of a counter of a node: ru.bytes_written is ringlet_ru_bytes_written_total. Of counters
// by kind the rest of the name is the label: of live sources, their id. Times are in seconds.
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

// sentence makes one of the words of a table.
func sentence(s string) string {
	first, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + s[size:] + "."
}

// sanitizeName makes what a name may hold.
func sanitizeName(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, s)
}

// certificateEnd is told by every process that has a certificate.
var certificateEnd = new(metricTable).add("ringlet_certificate_end_timestamp_seconds", kindGauge,
	"When the certificate of this process ends, in seconds since 1970. Warn a fortnight before.")

// collector tells metrics when it is asked.
type collector func(out chan<- prometheus.Metric)

// Describe says nothing beforehand: which counters there are is for those to say who count.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect tells them.
func (c collector) Collect(out chan<- prometheus.Metric) { c(out) }

// handler serves what a collector tells, until when the certificate is good, and what Go and the kernel tell of this
// process. certified is nil where there is no certificate.
func handler(c collector, notAfter func() time.Time) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(collector(func(out chan<- prometheus.Metric) {
		c(out)
		if notAfter != nil {
			certificateEnd.emit(out, float64(notAfter().Unix()))
		}
	}))
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError,
		MaxRequestsInFlight: maxScrapes})
}

// maxScrapes is how many may scrape at a time; more are told to come back.
const maxScrapes = 4
