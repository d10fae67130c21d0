package nodes

import (
	"reflect"
	"strings"

	nodev1 "ringlet/proto/ringlet/node/v1"
)

// counts are the counters of a node, or of several nodes added up, that the control computes with. The tags sum, here
// and in the parts of a Report, are the only place that names counters of nodes; a field with several names is their
// sum.
type counts struct {
	MEPsBuilt      uint64 `sum:"bu.meps_built"`
	MEPsIncomplete uint64 `sum:"bu.meps_incomplete"`
	MEPsDiscarded  uint64 `sum:"bu.meps_discarded"`
	MEPsRejected   uint64 `sum:"bu.meps_rejected"`
	BytesBuilt     uint64 `sum:"bu.bytes_built"`
	MFPsPlaced     uint64 `sum:"bu.mfps_placed"`
	MFPsMissing    uint64 `sum:"bu.mfps_missing"`
	MFPsRejected   uint64 `sum:"bu.mfps_rejected"`
	MFPsUnasked    uint64 `sum:"bu.mfps_unasked"`
	BuilderUnasked uint64 `sum:"bu.unasked"` // tokens, by the builder units
	ResultsSent    uint64 `sum:"bu.results_sent"`
	ResultsOpen    uint64 `sum:"bu.result_writes_left"`
	ResultsUnsent  uint64 `sum:"bu.results_dropped,bu.results_unheard"`
	FilterUs       uint64 `sum:"bu.filter_us"`
	OutputEvents   uint64 `sum:"bu.output_events"`
	OutputBytes    uint64 `sum:"bu.output_written"`
	OutputUnread   uint64 `sum:"bu.output_meps_unread"`
	OutputLost     uint64 `sum:"bu.output_meps_lost"`

	Tokens         uint64 `sum:"ru.tokens"`
	Writes         uint64 `sum:"ru.writes"`
	Unasked        uint64 `sum:"ru.unasked"` // tokens, by the readout units
	Withdrawn      uint64 `sum:"ru.withdrawn"`
	BytesWritten   uint64 `sum:"ru.bytes_written"`
	Retained       uint64 `sum:"ru.retained"` // MEPs
	RecordsSkipped uint64 `sum:"ru.records_skipped"`
	BarrierUs      uint64 `sum:"ru.barrier_us"`
	ConductingUs   uint64 `sum:"ru.conducting_us"`
	BadInput       uint64 `sum:"ru.bad_input"`
	SourcesBroken  uint64 `sum:"ru.sources_broken"`
	InputFailed    uint64 `sum:"ru.let_down"`

	BytesPlaced     uint64 `sum:"link.bytes_placed"`
	WritesCompleted uint64 `sum:"link.writes_completed"`
	ChunksResent    uint64 `sum:"link.chunks_resent"`
	Open            uint64 `sum:"link.tx_used,ru.open,ru.left_writes"` // transactions and transfers

	DecisionsPending uint64 `sum:"dec.pending"`
	ResultsTaken     uint64 `sum:"dec.results_taken"`
	Refused          uint64 `sum:"node.bad_signals,node.writes_refused,node.malformed,bu.strays,bu.rejected,bu.announce_refused,dec.messages_refused"`

	MFPsAhead uint64 // MFPs that were read and that no token asked for; computed, since no node counts them
}

// countsOf reads counts from counters by name.
func countsOf(counters map[string]uint64) (c counts) {
	readCounters(&c, counters, "")
	return c
}

// reportedCounts are the counts in a report.
func reportedCounts(rep *nodev1.Report) counts { return countsOf(rep.GetCounters()) }

// readCounters sets the fields of the struct to which to points, by their tags sum. end is appended to each name in a
// tag, for example the id of a source.
func readCounters(to any, counters map[string]uint64, end string) {
	v := reflect.ValueOf(to).Elem()
	for i := range v.NumField() {
		names, tagged := v.Type().Field(i).Tag.Lookup("sum")
		if !tagged {
			continue
		}
		sum := uint64(0)
		for name := range strings.SplitSeq(names, ",") {
			sum += counters[name+end]
		}
		v.Field(i).SetUint(sum)
	}
}

// addCounters adds counters to sums, by name, and returns sums.
func addCounters(sums, counters map[string]uint64) map[string]uint64 {
	for name, n := range counters {
		sums[name] += n
	}
	return sums
}
