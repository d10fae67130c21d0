package barrier

import (
	"fmt"
)

// Kind says how the ranks of a view wait for each other (seed 002, III.D).
type Kind uint8

const (
	// None lets everybody go on at once. It is the zero value.
	None Kind = iota
	// Central has everybody arrive at rank 0.
	Central
	// Tournament has everybody arrive at the winner of its pair.
	Tournament
	// Dissemination has everybody hear of everybody, directly and by others.
	Dissemination
)

// String returns the name ParseKind takes.
func (k Kind) String() string {
	return nameOf(uint8(k), "kind", "none", "central", "tournament", "dissemination")
}

// nameOf is the name of a number, or the number and what it is where it has none.
func nameOf(n uint8, what string, names ...string) string {
	if int(n) < len(names) && names[n] != "" {
		return names[n]
	}
	return fmt.Sprintf("%s %d", what, n)
}

// ParseKind returns the kind of the given name; case matters, as it does for
// every configuration value.
func ParseKind(name string) (Kind, error) {
	for k := None; k <= Dissemination; k++ {
		if name == k.String() {
			return k, nil
		}
	}
	return None, fmt.Errorf("barrier kind %q is unknown, it must be none, central, tournament or dissemination", name)
}
