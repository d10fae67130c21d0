package diagnosis

import (
	"fmt"
	"slices"
	"time"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// view is the input of the rules: the present snapshot, and an earlier one of the same run and state.
type view struct {
	settings  Settings
	now, base *ecsv1.Snapshot
	tree      *ecsv1.Component
}

// minSpan is the least time between two snapshots for meaningful differences: two reports of a node.
const minSpan = time.Second

// isRunning says that a run goes on and is not paused.
func (v *view) isRunning() bool { return v.now.GetRun() != 0 && v.now.GetState() == "Running" }

// span is the time between the two snapshots.
func (v *view) span() time.Duration { return v.now.GetAt().AsTime().Sub(v.base.GetAt().AsTime()) }

// member is a node in both snapshots.
type member struct {
	*ecsv1.NodeFigures
	base    *ecsv1.NodeFigures
	seconds float64 // between its two reports
}

// members are the nodes with two reports at least minSpan apart.
func (v *view) members() (out []member) {
	for _, n := range v.now.GetNodes() {
		i := slices.IndexFunc(v.base.GetNodes(), func(b *ecsv1.NodeFigures) bool { return b.GetName() == n.GetName() })
		if i < 0 || n.GetSilent() || v.base.GetNodes()[i].GetSilent() {
			continue
		}
		m := member{NodeFigures: n, base: v.base.GetNodes()[i]}
		m.seconds = v.span().Seconds() - float64(int64(n.GetReportAgeMs())-int64(m.base.GetReportAgeMs()))/1e3
		if m.seconds >= minSpan.Seconds() {
			out = append(out, m)
		}
	}
	return out
}

// readouts are the members with a readout unit; builders are those with a builder unit.
func (v *view) readouts() []member {
	return slices.DeleteFunc(v.members(), func(m member) bool { return !m.GetReadout() })
}
func (v *view) builders() []member {
	return slices.DeleteFunc(v.members(), func(m member) bool { return !m.GetBuilder() })
}

// increase is by how much a counter grew; 0 if it fell, since the node was restarted.
func (m *member) increase(counter string) float64 {
	return increase(m.GetCounters()[counter], m.base.GetCounters()[counter])
}

func increase(now, base uint64) float64 {
	if now < base {
		return 0
	}
	return float64(now - base)
}

// timeShare is the increase of a counter in µs as a share of the time.
func (m *member) timeShare(counter string) float64 { return m.increase(counter) / 1e6 / m.seconds }

// ruName and buName name the units of a node.
func (m *member) ruName() string { return unitName("readout unit", m.GetRuIndex(), m.GetName()) }
func (m *member) buName() string { return unitName("builder unit", m.GetBuIndex(), m.GetName()) }

func unitName(kind string, index uint32, node string) string {
	if node == "" {
		return fmt.Sprintf("%s %d", kind, index)
	}
	return fmt.Sprintf("%s %d (%s)", kind, index, node)
}

// readoutName and builderName name a unit by its index.
func (v *view) readoutName(index uint32) string {
	for _, n := range v.now.GetNodes() {
		if n.GetReadout() && n.GetRuIndex() == index {
			return unitName("readout unit", index, n.GetName())
		}
	}
	return unitName("readout unit", index, "")
}

func (v *view) builderName(index uint32) string {
	for _, n := range v.now.GetNodes() {
		if n.GetBuilder() && n.GetBuIndex() == index {
			return unitName("builder unit", index, n.GetName())
		}
	}
	return unitName("builder unit", index, "")
}

// median returns the median; 0 if there are no values.
func median(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	x = slices.Sorted(slices.Values(x))
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}

// percent formats a share: 40 %, 0.4 %, 0.031 %.
func percent(share float64) string {
	if p := 100 * share; p < 10 {
		return fmt.Sprintf("%.2g %%", p)
	}
	return fmt.Sprintf("%.0f %%", 100*share)
}

// formatBytes formats a size with three digits and a unit.
func formatBytes(n float64) string {
	for _, u := range []string{"B", "kB", "MB", "GB"} {
		if n < 1000 {
			return fmt.Sprintf("%.3g %s", n, u)
		}
		n /= 1000
	}
	return fmt.Sprintf("%.3g TB", n)
}
