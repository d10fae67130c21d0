package live

// GivenUp is a range of events: a fragment of each was given up, for one reason. The zero value has none.
type GivenUp struct {
	From, To uint64 // To is the first one behind it
	Why      Fault
}

// Join takes a range in that goes on where this one ends, for the same reason; or any, if this one has none. False: it
// is another one.
func (g *GivenUp) Join(next GivenUp) bool {
	switch {
	case g.From == g.To:
		*g = next
	case next.From == g.To && next.Why == g.Why:
		g.To = next.To
	default:
		return false
	}
	return true
}
