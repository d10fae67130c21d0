package live

// GivenUpRange is a range of events: a fragment of each was given up, for one reason. The zero value has none.
type GivenUpRange struct {
	From, To uint64 // To is the first one behind it
	Fault    Fault
}

// Extend takes a range in that goes on where this one ends, for the same reason; or any, if this one has none. False:
// it is another one.
func (g *GivenUpRange) Extend(next GivenUpRange) bool {
	switch {
	case g.From == g.To:
		*g = next
	case next.From == g.To && next.Fault == g.Fault:
		g.To = next.To
	default:
		return false
	}
	return true
}
