package diagnosis

import (
	"fmt"
	"slices"
	"time"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// view is what rules look at: the snapshot of now, and one of some time before, of the same run.
type view struct {
	settings  Settings
	now, base *ecsv1.Snapshot
	tree      *ecsv1.Component
}

// minSpan is the least time over which differences say something: two reports of a node.
const minSpan = time.Second

// isRunning says that a run is being built.
func (v *view) isRunning() bool { return v.now.GetRun() != 0 && v.now.GetState() == "Running" }

// span is how much time lies between the two snapshots.
func (v *view) span() time.Duration { return v.now.GetAt().AsTime().Sub(v.base.GetAt().AsTime()) }

// member is a node in both snapshots.
type member struct {
	*ecsv1.NodeFigures
	base    *ecsv1.NodeFigures
	seconds float64 // seconds between its reports
}

// members are the nodes of which there are differences.
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

// readouts and builder are the members with such a unit.
func (v *view) readouts() []member {
	return slices.DeleteFunc(v.members(), func(m member) bool { return !m.GetReadout() })
}
func (v *view) builders() []member {
	return slices.DeleteFunc(v.members(), func(m member) bool { return !m.GetBuilder() })
}

// increase is by how much a counter grew; 0 if it fell, of a node that began anew.
func (m *member) increase(counter string) float64 {
	return increase(m.GetCounters()[counter], m.base.GetCounters()[counter])
}

func increase(now, base uint64) float64 {
	if now < base {
		return 0
	}
	return float64(now - base)
}

// timeShare is the part of the time that a counter of µs grew by.
func (m *member) timeShare(counter string) float64 { return m.increase(counter) / 1e6 / m.seconds }

// ruName and bu name the units of a node.
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

// median of figures, 0 of none.
func median(x []float64) float64 {
	if len(x) == 0 {
		return 0
	}
	x = slices.Sorted(slices.Values(x))
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}

// percent is a share for people: 40 %, 0.4 %, 0.031 %.
func percent(share float64) string {
	if p := 100 * share; p < 10 {
		return fmt.Sprintf("%.2g %%", p)
	}
	return fmt.Sprintf("%.0f %%", 100*share)
}

// formatBytes is a size for people.
func formatBytes(n float64) string {
	for _, u := range []string{"B", "kB", "MB", "GB"} {
		if n < 1000 {
			return fmt.Sprintf("%.3g %s", n, u)
		}
		n /= 1000
	}
	return fmt.Sprintf("%.3g TB", n)
}
