package nodes

import "ringlet/node"

// words puts into the report of a live source who gave it, and why something of it was not taken last.
func (r *Run) words(s *SourceReport) {
	for _, n := range r.nodes {
		if n.name != s.Node {
			continue
		}
		s.Frontend = n.latest().GetFrontends()[uint32(s.Source)]
		for _, why := range n.latest().GetReasons() {
			switch {
			case int(why.GetSource()) != s.Source:
			case why.GetKind() == node.ReasonRefused:
				s.WhyRefused = why.GetWhy()
			case why.GetKind() == node.ReasonThrown:
				s.WhyThrown = why.GetWhy()
			}
		}
	}
}
