// Package counter reads counters and their descriptions from structs, so that a counter is declared once: in the
// package that counts.
//
// It stands for NIC-crossbar §3.1.4, counters and timers on everything. A package keeps its counters in
// a struct of plain numbers or atomics, and describes each in the tag of its field; it imports nothing for that, and
// counting costs no more than an addition. Only the code that reports reads the tags, through this package.
//
//	type Stats struct {
//		Writes  uint64        `help:"writes that were placed"`                            // writes
//		Bytes   uint64        `count:"bytes_written" unit:"bytes" help:"bytes of writes"` // bytes_written
//		Held    int           `kind:"level" help:"blocks held now"`                       // held
//		Waiting time.Duration `help:"time waiting for grants"`                            // waiting_us, in µs
//		Strays  byReason      `count:"strays." help:"placements that no grant explains"`  // strays.old_attempt, …
//		Table   TableStats    `count:"table_"`                                            // table_free, …
//		Inputs  map[string]S  `count:"input_"`                                            // input_missing.3, …
//		Rates   []float64     // not a counter: it needs no tag
//	}
//
// The tags of a field that is a number (uint64, int, atomic.Uint64), a time.Duration, an array of uint64 or a map of
// them by string:
//
//	help   what is counted, in a few words, as the manual and Prometheus say it. Every number needs it, or count:"-"
//	count  its name; by default the field's in small letters. "-": not reported, since another counter includes it
//	kind   "level": how much there is now. "max": the most there ever was. By default: how often something happened
//	unit   "bytes" for bytes. A time.Duration is always reported in µs
//
// A map of structs has each counter of the struct for each of its members.
//
// An array or a map of numbers has a counter for each member: the method Kinds of an array's type names the members,
// the keys of a map are their names. If the name of the field ends with a dot, as that of a map must, members that are
// 0 are left out. A struct, or a pointer to one, takes part if it is embedded, or if its tag count gives a prefix for
// the names in it; a nil pointer has no counters.
//
// What the caller must do: StructOf once for a struct, then List for the descriptions and Read for each report.
// StructOf panics if a tag is missing or wrong, which any test of the package shows. Any goroutine may Read atomics;
// the caller guards plain numbers.
package counter
