package barrier

import "ringlet/internal/registry"

// Kind says how the ranks of a view wait for each other (LHCb-EB §III.D).
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

// Row is a kind of barrier: what a configuration may name.
type Row struct {
	registry.Kind
	Value Kind
}

// Kinds is the table of barriers, in the order of their numbers.
var Kinds = []Row{
	{registry.Kind{Name: "none", Help: "nobody waits"}, None},
	{registry.Kind{Name: "central", Help: "all tell one, who releases all"}, Central},
	{registry.Kind{Name: "tournament", Help: "pairs, and pairs of pairs"}, Tournament},
	{registry.Kind{Name: "dissemination", Help: "in each round one tells another, twice as far away"}, Dissemination},
}

// String returns the name ParseKind takes.
func (k Kind) String() string { return registry.NameOf(k, "kind", registry.Names(Kinds)...) }

// ParseKind returns the kind of the given name; case matters, as it does for
// every configuration value.
func ParseKind(name string) (Kind, error) {
	row, err := registry.Find("barrier", Kinds, name)
	return row.Value, err
}
