package ringlet

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"ringlet/ecs/diagnosis"
	"ringlet/internal/counter"
	"ringlet/node"
	"ringlet/node/metrics"
	"ringlet/tagnet/core"
)

// generated holds that a document has these tables between its marks; under -update it writes them.
func generated(t *testing.T, doc string, tables map[string]string) {
	t.Helper()
	text := string(read(t, doc))
	for name, table := range tables {
		mark := regexp.MustCompile(`(?s)(<!-- ` + name + `:[^\n]*-->\n).*?(<!-- end of ` + name + ` -->)`)
		if !mark.MatchString(text) {
			t.Fatalf("%s has no place for the table of %s", doc, name)
		}
		text = mark.ReplaceAllStringFunc(text, func(old string) string {
			m := mark.FindStringSubmatch(old)
			return m[1] + "\n" + table + "\n" + m[2]
		})
	}
	if text == string(read(t, doc)) {
		return
	}
	if !*update {
		t.Fatalf("%s is not what the program has: run `go test . -run Manual -update`", doc)
	}
	if err := os.WriteFile(doc, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// metricsList has a line for each metric: its name with its labels, its kind where the name does not tell it, and what
// it means.
func metricsList(all []metrics.Metric) string {
	var b strings.Builder
	for i := range all {
		m := &all[i]
		name := "`" + m.Name + "`"
		if len(m.Labels) > 0 {
			name = "`" + m.Name + "{" + strings.Join(m.Labels, ",") + "}`"
		}
		if m.Kind != "gauge" && (m.Kind != "counter" || !strings.HasSuffix(m.Name, "_total")) {
			name += " (" + m.Kind + ")"
		}
		fmt.Fprintf(&b, "- %s: %s\n", name, m.Help)
	}
	return b.String()
}

// countersList has a line for each counter, or for all those in a row that count the same by reason.
func countersList(all counter.List) string {
	var b strings.Builder
	for i := 0; i < len(all); {
		c, names := all[i], []string{}
		for ; i < len(all) && all[i].Help == c.Help && all[i].Kind == c.Kind && all[i].Unit == c.Unit; i++ {
			name := all[i].Name
			if all[i].ByKind {
				name += "*"
			}
			names = append(names, "`"+name+"`")
		}
		help := c.Help
		if c.Unit == "bytes" && !strings.Contains(c.Help+c.Name, "bytes") {
			help = "bytes: " + help
		}
		if c.Kind != counter.Count {
			help = string(c.Kind) + ": " + help
		}
		fmt.Fprintf(&b, "- %s: %s\n", strings.Join(names, ", "), help)
	}
	return b.String()
}

func TestManualListsEveryMetric(t *testing.T) {
	generated(t, "docs/reference/metrics.md", map[string]string{
		"metrics of the control":    metricsList(metrics.ControlMetrics(nil)),
		"counters of the scheduler": countersList(core.CounterList()),
		"metrics of a node":         metricsList(metrics.NodeMetrics(nil)),
		"counters of a node":        countersList(node.Counters()),
	})
}

// exprs finds what is asked of Prometheus in a document.
func exprs(v any) (out []string) {
	switch v := v.(type) {
	case map[string]any:
		for key, x := range v {
			if s, ok := x.(string); ok && (key == "expr" || key == "query" || key == "definition") {
				out = append(out, s)
				continue
			}
			out = append(out, exprs(x)...)
		}
	case []any:
		for _, x := range v {
			out = append(out, exprs(x)...)
		}
	}
	return out
}

// Dashboards and alert rules speak of no metric that nobody tells.
func TestDashboardsAndAlertsNameExistingMetrics(t *testing.T) {
	known := map[string]bool{}
	for _, m := range slices.Concat(metrics.NodeMetrics(node.Counters()), metrics.ControlMetrics(core.CounterList())) {
		known[m.Name] = true
		if m.Kind == "histogram" || m.Kind == "summary" {
			known[m.Name+"_bucket"], known[m.Name+"_count"], known[m.Name+"_sum"] = true, true, true
		}
	}
	name := regexp.MustCompile(`\bringlet_[a-z0-9_]+`)
	for _, file := range []string{"k8s/monitoring/grafana-dashboard.json", "k8s/monitoring/alerts.yaml"} {
		var all any
		var err error
		if strings.HasSuffix(file, ".json") {
			err = json.Unmarshal(read(t, file), &all)
		} else {
			err = yaml.Unmarshal(read(t, file), &all)
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		found := exprs(all)
		if len(found) < 5 {
			t.Errorf("%s: %d expressions: this test does not read it rightly", file, len(found))
		}
		for _, expr := range found {
			for _, n := range name.FindAllString(expr, -1) {
				if !known[n] {
					t.Errorf("%s asks for %s, which nobody tells: %s", file, n, expr)
				}
			}
		}
	}
}

func TestManualListsEveryRule(t *testing.T) {
	var b strings.Builder
	for _, r := range diagnosis.Rules() {
		about := strings.ToLower(strings.TrimPrefix(r.Severity.String(), "SEVERITY_"))
		if r.Hold > 0 {
			about += ", " + r.Hold.String()
		}
		fmt.Fprintf(&b, "- `%s` (%s): %s *%s*\n", r.ID, about, r.When, r.Advice)
	}
	generated(t, "docs/diagnosis.md", map[string]string{"rules": b.String()})
}
