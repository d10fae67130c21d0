package manifests

import (
	"encoding/json"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

var (
	metricRow = regexp.MustCompile("(?m)^- `(ringlet_[a-z0-9_]+)(?:{([^}]*)})?`(?: \\(([a-z]+)\\))?:")
	// counterRow is a line of counters in one of their lists: their metrics follow from the names.
	counterList = regexp.MustCompile(`(?s)<!-- counters of .*?<!-- end of counters`)
	counterRow  = regexp.MustCompile("(?m)^- (`[^:]*): (level: |max: )?")
	counterName = regexp.MustCompile("`([a-z]+\\.)?([a-z0-9_.]+)(\\*?)`")
	// interval is what Grafana puts in before it asks.
	interval = regexp.MustCompile(`\$__(rate_)?interval`)
	inLegend = regexp.MustCompile(`{{\s*([a-z_]+)\s*}}`)
	inAlert  = regexp.MustCompile(`\$labels\.([a-z_]+)`)
)

// metricLabels are the labels of every metric in docs/reference/metrics.md, those that Prometheus adds included. A test
// of the product checks that this page lists what the program reports.
func metricLabels(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(root + "/docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	always := []string{model.MetricNameLabel, model.JobLabel, model.InstanceLabel}
	out := map[string][]string{"process_resident_memory_bytes": always} // comes with every Go program
	for _, m := range metricRow.FindAllStringSubmatch(string(text), -1) {
		labels := slices.Clone(always)
		if m[2] != "" {
			labels = append(labels, strings.Split(m[2], ",")...)
		}
		out[m[1]] = labels
		if m[3] == "histogram" {
			out[m[1]+"_bucket"] = append(slices.Clone(labels), model.BucketLabel)
			out[m[1]+"_sum"], out[m[1]+"_count"] = labels, labels
		}
	}
	for _, list := range counterList.FindAll(text, -1) {
		for _, row := range counterRow.FindAllSubmatch(list, -1) {
			addCounters(out, always, string(row[1]), len(row[2]) == 0)
		}
	}
	if len(out) < 50 {
		t.Fatalf("docs/reference/metrics.md lists %d metrics: this test does not read it rightly", len(out))
	}
	return out
}

// addCounters adds the metrics of a line of counters; always are the labels that Prometheus adds.
func addCounters(to map[string][]string, always []string, row string, total bool) {
	for _, m := range counterName.FindAllStringSubmatch(row, -1) {
		name, labels := counterMetric(m[1], m[2], m[3] != "")
		if total {
			name += "_total"
		}
		to[name] = append(labels, always...)
	}
}

// counterMetric follows the rule that docs/reference/metrics.md gives. A counter of the scheduler has no owner before a
// dot.
func counterMetric(owner, name string, byKind bool) (metric string, labels []string) {
	if owner == "" {
		owner = "scheduler."
	}
	name = strings.TrimRight(name, "._")
	by := ""
	switch {
	case owner == "ru." && strings.HasPrefix(name, "input_"):
		labels = []string{"source"}
	case byKind:
		by, labels = "_by_kind", []string{"kind"}
	}
	if time, ok := strings.CutSuffix(name, "_us"); ok {
		name = time + "_seconds"
	}
	return "ringlet_" + strings.ReplaceAll(owner+name, ".", "_") + by, labels
}

// asked parses an expression as Prometheus does, holds every label in it to what the metric has, and returns the labels
// that an answer may have.
func asked(t *testing.T, where, expr string, known map[string][]string) (labels []string) {
	t.Helper()
	tree, err := parser.NewParser(parser.Options{}).ParseExpr(interval.ReplaceAllString(expr, "1m"))
	if err != nil {
		t.Errorf("%s: %s: %v", where, expr, err)
		return nil
	}
	var named []string
	parser.Inspect(tree, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.VectorSelector:
			has, ok := known[n.Name]
			if !ok {
				t.Errorf("%s: nobody tells %q: %s", where, n.Name, expr)
			}
			labels = append(labels, has...)
			for _, m := range n.LabelMatchers {
				if ok && !slices.Contains(has, m.Name) {
					t.Errorf("%s: %s has no label %s: %s", where, n.Name, m.Name, expr)
				}
			}
		case *parser.AggregateExpr:
			named = append(named, n.Grouping...)
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				named = append(named, append(n.VectorMatching.MatchingLabels, n.VectorMatching.Include...)...)
			}
		}
		return nil
	})
	hold(t, where+": "+expr, named, labels)
	return labels
}

// hold says which of the names are no labels.
func hold(t *testing.T, where string, names, labels []string) {
	t.Helper()
	for _, name := range names {
		if !slices.Contains(labels, name) {
			t.Errorf("%s: nothing here has the label %s", where, name)
		}
	}
}

func found(pattern *regexp.Regexp, text string) (out []string) {
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return out
}

// Prometheus takes the alert rules, templates in them included, and they ask for labels that there are.
func TestAlertRules(t *testing.T) {
	known := metricLabels(t)
	groups, errs := rulefmt.ParseFile(root+"/k8s/monitoring/alerts.yaml", false, model.UTF8Validation,
		parser.NewParser(parser.Options{}), slog.Default())
	for _, err := range errs {
		t.Error(err)
	}
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			labels := asked(t, r.Alert, r.Expr, known)
			for _, text := range r.Annotations {
				hold(t, r.Alert+": "+text, found(inAlert, text), labels)
			}
		}
	}
}

// dashboard is what is checked of Grafana's format.
type dashboard struct {
	Title, UID string
	Panels     []struct {
		ID          int
		Title, Type string
		GridPos     struct{ X, Y, W, H int }
		Targets     []struct{ RefID, Expr, LegendFormat string }
	}
}

// Grafana itself is not to be had here: every panel has its place, and asks Prometheus for something that it
// understands.
func TestDashboard(t *testing.T) {
	known := metricLabels(t)
	text, err := os.ReadFile(root + "/k8s/monitoring/grafana-dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	if d.Title == "" || d.UID == "" || len(d.Panels) < 10 {
		t.Fatalf("%q, uid %q, has %d panels", d.Title, d.UID, len(d.Panels))
	}
	ids, cells := map[int]string{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if other, twice := ids[p.ID]; twice {
			t.Errorf("%s and %s have the same id", p.Title, other)
		}
		ids[p.ID] = p.Title
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if other, taken := cells[at]; taken || at[0] >= 24 {
					t.Fatalf("%s lies beyond the 24 columns or on %q", p.Title, other)
				}
				cells[at] = p.Title
			}
		}
		refs := map[string]bool{}
		for _, target := range p.Targets {
			if refs[target.RefID] {
				t.Errorf("%s asks twice as %s", p.Title, target.RefID)
			}
			refs[target.RefID] = true
			hold(t, p.Title+": "+target.LegendFormat, found(inLegend, target.LegendFormat),
				asked(t, p.Title, target.Expr, known))
		}
		if len(refs) == 0 {
			t.Errorf("%s asks for nothing", p.Title)
		}
	}
}
