package drift

import (
	"fmt"

	"slices"
)

const (
	// decisionBlocks is for how many blocks after a slip was seen nothing is told: the pairs that see it later tell which
	// of two sources has moved.
	decisionBlocks = 2
	// MaxFindings bounds what a Monitor remembers; slips are counted all the same.
	MaxFindings = 64
)

// Finding says that the event numbers of a source were apart from those of most others.
type Finding struct {
	Source, Reference string
	// SourceID and ReferenceID are their places among the sources.
	SourceID, ReferenceID int
	// Behind is by how many events: what Source numbers N belongs to Reference's N+Behind. Negative: it is ahead.
	Behind int
	// Since is about the first event that was apart: 0 if it was so when sizes first told it. Until is about the first
	// event that was not any more; 0: it still is.
	Since, Until uint64
	// Reported is the last event that was looked at before this was reported.
	Reported uint64
	// Correlation of the two sources' sizes at that distance, from -1 to 1, in Events events: that of whether they are
	// above their medians.
	Correlation float64
	Events      int
}

// String is a sentence without a full stop.
func (f Finding) String() string {
	n, where := f.Behind, "behind"
	if n < 0 {
		n, where = -n, "ahead of"
	}
	count := fmt.Sprintf("%d events", n)
	if n == 1 {
		count = "one event"
	}
	verb, when := "is", fmt.Sprintf("since about event %d", f.Since)
	if f.Since == 0 {
		when = "since they were first compared"
	}
	if f.Until > 0 {
		verb, when = "was", fmt.Sprintf("from about event %d to %d", f.Since, f.Until-1)
	}
	return fmt.Sprintf("%s %s %s %s %s %s", f.Source, verb, count, where, f.Reference, when)
}

// Findings are what was found so far, oldest first: at most 64, those that still hold before others.
func (m *Monitor) Findings() []Finding { return slices.Clone(m.findings) }

// Slips is how often a source has moved against the others.
func (m *Monitor) Slips() uint64 { return m.slips }

// Compared is how many events were compared.
func (m *Monitor) Compared() uint64 { return m.taken }

// decideMoves turns what pairs have seen into findings, unless a slip was just seen.
func (m *Monitor) decideMoves() {
	if m.deciding > 0 {
		m.deciding--
		if slices.ContainsFunc(m.pairs, func(p *pair) bool { return p.known && !p.confirmed }) {
			return
		}
		m.deciding = 0
	}
	offsets, group := m.solve()
	for len(group) > 0 {
		m.decideGroup(group[0], offsets)
		group = group[1:]
	}
}

// solve gives each source its place in events within its group: sources that pairs join. A source alone is in no group.
func (m *Monitor) solve() (offsets []int, groups [][]int) {
	offsets = make([]int, len(m.names))
	seen := make([]bool, len(m.names))
	for first := range m.names {
		if seen[first] {
			continue
		}
		seen[first] = true
		group := []int{first}
		for i := 0; i < len(group); i++ {
			for _, p := range m.pairs {
				switch at := group[i]; {
				case !p.confirmed:
				case p.a == at && !seen[p.b]:
					seen[p.b], offsets[p.b] = true, offsets[at]+p.lag
					group = append(group, p.b)
				case p.b == at && !seen[p.a]:
					seen[p.a], offsets[p.a] = true, offsets[at]-p.lag
					group = append(group, p.a)
				}
			}
		}
		if len(group) > 1 {
			slices.Sort(group)
			groups = append(groups, group)
		}
	}
	return offsets, groups
}

// decideGroup notes the sources of a group that are not where most are; among equals the first source counts.
func (m *Monitor) decideGroup(group, offsets []int) {
	votes := map[int]int{}
	for _, s := range group {
		votes[offsets[s]]++
	}
	reference := group[0]
	for _, s := range group {
		if votes[offsets[s]] > votes[offsets[reference]] {
			reference = s
		}
	}
	for _, s := range group {
		if behind := offsets[s] - offsets[reference]; behind != m.behind[s] {
			m.noteMove(s, reference, behind)
		}
	}
}

// noteMove notes that a source has moved to another place against a reference.
func (m *Monitor) noteMove(source, reference, behind int) {
	m.slips++
	f := Finding{
		Source:    m.names[source],
		Reference: m.names[reference],
		Behind:    behind,

		SourceID:    source,
		ReferenceID: reference,

		Reported: m.last*BlockEvents + BlockEvents - 1,
	}
	for _, p := range m.pairs {
		direct := p.a == min(source, reference) && p.b == max(source, reference)
		if p.confirmed && (direct || f.Events == 0 && (p.a == source || p.b == source)) {
			f.Since, f.Correlation, f.Events = p.since, p.phi, int(p.events)
		}
	}
	f.Since, f.Reported = f.Since*m.steps.step, (f.Reported+1)*m.steps.step-1
	for i := range m.findings {
		if x := &m.findings[i]; x.SourceID == f.SourceID && x.Until == 0 {
			x.Until = max(f.Since, x.Since+1)
		}
	}
	if m.behind[source] = behind; behind == 0 {
		return
	}
	if len(m.findings) == MaxFindings {
		over := slices.IndexFunc(m.findings, func(x Finding) bool { return x.Until > 0 })
		m.findings = slices.Delete(m.findings, max(0, over), max(0, over)+1)
	}
	m.findings = append(m.findings, f)
}
