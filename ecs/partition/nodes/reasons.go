package nodes

import "ringlet/node"

// whyNot puts into the report of a live source why something of it was not taken last.
func (r *Run) whyNot(s *SourceReport) {
	for _, n := range r.nodes {
		if n.name != s.Node {
			continue
		}
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
