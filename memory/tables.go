package memory

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// ExportRow is a row of the owner's table: pages of a segment, and their rule.
type ExportRow struct {
	Name       string
	Epoch      uint64
	First      int // first page
	Count      int
	Peer       string // name, or "*" for everybody
	Allow      Allow
	Attributes Attributes
	Importers  []string // names of peers that have windows there now
}

// ImportRow is a row of the user's table: pages of another node's segment.
type ImportRow struct {
	Name       string
	Node       string
	Epoch      uint64
	First      int // first page
	Count      int
	Window     uint32 // the owner's window
	Generation uint32
	Allow      Allow
	Attributes Attributes
	Mapped     bool // accessed by loads and stores
	EndCause   string
}

// Tables are both tables of the bridge: exported page → local page and protection, and imported page → node, address
// and attributes.
type Tables struct {
	Exports []ExportRow
	Imports []ImportRow
}

// Tables returns the present state of both tables.
func (s *Space) Tables() (t Tables) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.responder.exports {
		for _, r := range e.rules {
			row := ExportRow{
				Name:       e.name,
				Epoch:      e.epoch,
				First:      r.First,
				Count:      r.Count,
				Peer:       "*",
				Allow:      r.Allow,
				Attributes: r.Attributes,
			}
			if r.Peer != Everybody {
				row.Peer = s.members[r.Peer].Name
			}
			for _, peer := range sortedKeys(e.grantsByPeer) {
				if r.Peer == Everybody || r.Peer == peer {
					row.Importers = append(row.Importers, s.members[peer].Name)
				}
			}
			t.Exports = append(t.Exports, row)
		}
	}
	slices.SortStableFunc(t.Exports, func(a, b ExportRow) int { return strings.Compare(a.Name, b.Name) })
	for _, p := range s.peers {
		for _, im := range p.imports {
			for _, r := range im.runs {
				row := ImportRow{
					Name:       im.name,
					Node:       im.node,
					Epoch:      im.epoch,
					First:      r.first,
					Count:      r.count,
					Window:     r.ref.Window,
					Generation: r.ref.Gen,
					Allow:      r.allow,
					Attributes: r.attributes,
					Mapped:     im.mapped != nil,
				}
				if why := Cause(im.endCause.Load()); why != causeNone {
					row.EndCause = why.Error()
				}
				t.Imports = append(t.Imports, row)
			}
		}
	}
	return t
}

// Print writes both tables for a reader.
func (t Tables) Print(to io.Writer) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "EXPORTED\tEPOCH\tPAGES\tOPEN TO\tALLOWED\tATTRIBUTES\tIMPORTED BY")
	for _, r := range t.Exports {
		fmt.Fprintf(w, "%s\t%x\t%d-%d\t%s\t%v\t%v\t%s\n", r.Name, r.Epoch, r.First, r.First+r.Count-1, r.Peer, r.Allow,
			r.Attributes, strings.Join(r.Importers, " "))
	}
	fmt.Fprintln(w, "IMPORTED\tEPOCH\tPAGES\tNODE\tWINDOW:GENERATION\tALLOWED\tATTRIBUTES\tBY")
	for _, r := range t.Imports {
		by := "messages"
		if r.Mapped {
			by = "loads and stores"
		}
		if r.EndCause != "" {
			by = r.EndCause
		}
		fmt.Fprintf(w, "%s\t%x\t%d-%d\t%s\t%d:%08x\t%v\t%v\t%s\n", r.Name, r.Epoch, r.First, r.First+r.Count-1, r.Node,
			r.Window, r.Generation, r.Allow, r.Attributes, by)
	}
	return w.Flush()
}
