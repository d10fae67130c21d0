package live

// GivenUpRange is a range of events: one fragment of each was given up, for the same reason. The zero value is empty.
type GivenUpRange struct {
	From, To uint64 // [From, To)
	Fault    Fault
}

// Extend adds a range that begins where this one ends, for the same reason; an empty range becomes next. False: next
// does not fit, and nothing changed.
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
