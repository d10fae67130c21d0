// Package counter reads counters and their descriptions from structs, so that a counter is written down once: where it
// is counted.
//
// It stands for NIC-crossbar §3.1.4, counters and timers on everything. A package keeps its counters in
// a struct of plain numbers or atomics, and describes each in the tag of its field; this package does the rest. The
// other package imports nothing for that, and to count costs what an addition costs: tags are read by whoever
// reports.
//
//	type Stats struct {
//		Writes  uint64        `help:"writes that were placed"`                            // writes
//		Bytes   uint64        `count:"bytes_written" unit:"bytes" help:"bytes of writes"` // bytes_written
//		Held    int           `kind:"level" help:"blocks held now"`                       // held
//		Waiting time.Duration `help:"time waiting for grants"`                            // waiting_us, in µs
//		Strays  byReason      `count:"strays." help:"placements that no grant explains"`  // strays.old_attempt, …
//		Table   TableStats    `count:"table_"`                                            // table_free, …
//		Inputs  map[string]S  `count:"input_"`                                            // input_missing.3, …
//		Rates   []float64     // nothing that is counted: it needs no tag
//	}
//
// The tags of a field that is a number (uint64, int, atomic.Uint64), a time.Duration, an array of uint64 or a map of
// them by string:
//
//	help   what is counted, in a few words, as the manual and Prometheus say it. Every number needs it, or count:"-"
//	count  its name; without it, the field's in small letters. "-": it is not told, since another counter tells it
//	kind   "level": how much there is now. "max": the most there ever was. Without it: how often something was
//	unit   "bytes", where it is bytes. A time is told in µs, whatever the field is
//
// A map of structs has each counter of the struct for each of its members.
//
// An array or a map of numbers has a counter for each member: the type of an array says what they are called (Kinds),
// the keys of a map are the names. Where the name ends with a dot, as it must of a map, those that are 0 are left out.
// A field that is a struct or a pointer to one takes part if it is embedded, or if its tag count says what goes before
// the names in it; behind a nil pointer there are no counters now.
//
// What the caller must do: Of once for a struct, then List for the descriptions and Read as often as it reports. Of
// panics where a tag is missing or wrong, which the first test that comes by shows. Any goroutine may read atomics;
// plain numbers are the caller's to guard.
package counter
