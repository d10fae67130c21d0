package recording

import (
	"fmt"
	"strings"
)

// Loss is a quantity that a run lost: how many units, what happened to them, where, and the setting that allowed it.
// docs/report.md defines the words.
type Loss struct {
	What      string `json:"what"`                 // what happened: missing, late, discarded, …
	Subject   string `json:"of,omitempty"`         // source, node or output that lost them; empty: the run
	Count     uint64 `json:"count"`                // how many
	Unit      string `json:"unit"`                 // fragments, events, MEPs, units, records
	AllowedBy string `json:"allowed_by,omitempty"` // the setting; empty: no setting allowed it
	Tolerated bool   `json:"tolerated,omitempty"`  // the verdict does not count it
}

// String returns a part of a sentence: 12 fragments of tcp::7000 missing (on-missing: mark).
func (l Loss) String() string {
	var b strings.Builder
	unit := l.Unit
	if l.Count == 1 {
		unit = strings.TrimSuffix(unit, "s")
	}
	fmt.Fprintf(&b, "%d %s", l.Count, unit)
	if l.Subject != "" {
		b.WriteString(" of " + l.Subject)
	}
	b.WriteString(" " + l.What)
	switch {
	case l.Tolerated:
		b.WriteString(" (tolerated by " + l.AllowedBy + ")")
	case l.AllowedBy != "":
		b.WriteString(" (" + l.AllowedBy + ")")
	}
	return b.String()
}
