package nodes

import "ringlet/node"

// fillReasons puts into the report of a live source who gave it, and why something of it was not taken last.
func (r *reporter) fillReasons(s *SourceReport) {
	for _, n := range r.nodes {
		if n.name != s.Node {
			continue
		}
		s.Frontend = n.latestReport().GetFrontends()[uint32(s.Source)]
		for _, why := range n.latestReport().GetReasons() {
			switch {
			case int(why.GetSource()) != s.Source:
			case why.GetKind() == node.ReasonRefused:
				s.WhyRefused = why.GetWhy()
			case why.GetKind() == node.ReasonThrownAway:
				s.WhyThrown = why.GetWhy()
			}
		}
	}
}
