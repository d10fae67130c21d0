package barrier

import "ringlet/internal/registry"

// Kind says how the ranks of a view wait for each other (LHCb-EB §III.D).
type Kind uint8

const (
	// None means: no rank waits. It is the zero value.
	None Kind = iota
	// Central means: every rank arrives at rank 0.
	Central
	// Tournament means: every rank arrives at the winner of its pair.
	Tournament
	// Dissemination means: every rank learns from every other one, directly or through others.
	Dissemination
)

// Row is a kind of barrier with the name by which a configuration chooses it.
type Row struct {
	registry.Kind
	Value Kind
}

// Kinds is the table of barriers, in the order of their numbers.
var Kinds = []Row{
	{registry.Kind{Name: "none", Help: "no rank waits"}, None},
	{registry.Kind{Name: "central", Help: "all arrive at one rank, which releases all"}, Central},
	{registry.Kind{Name: "tournament", Help: "pairs, and pairs of pairs"}, Tournament},
	{registry.Kind{Name: "dissemination", Help: "in each round a rank signals another, twice as far away"}, Dissemination},
}

// String returns the name that ParseKind accepts.
func (k Kind) String() string { return registry.NameOf(k, "kind", registry.Names(Kinds)...) }

// ParseKind returns the kind of the given name; case matters, as in every configuration value.
func ParseKind(name string) (Kind, error) {
	row, err := registry.Find("barrier", Kinds, name)
	return row.Value, err
}
