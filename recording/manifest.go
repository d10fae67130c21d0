package recording

import (
	"fmt"
	"math"
	"time"
)

// manifestVersion is the version of the format of run.json.
const manifestVersion = 1

// Manifest is run.json: what a run was, and which of its segments are in the directory. Docs: docs/outputs.md.
type Manifest struct {
	Version int     `json:"manifest_version"`
	Run     uint32  `json:"run"`
	Key     Key     `json:"key"`              // of the run, 32 hexadecimal digits
	ID      string  `json:"directory"`        // drawn at random when the directory was made: equal on two hosts that share it
	Format  Format  `json:"format"`           // of the segments: mep, mdf or mfp
	Packing int     `json:"packing"`          // events in a MEP; the last MEP may have fewer
	Live    bool    `json:"live,omitempty"`   // the data were live: any MEP may have fewer
	Stream  *Stream `json:"stream,omitempty"` // number of this output among several
	// BacklogBytes says that the run is a backlog, whose segments a second filter removes when they are drained; and how
	// many bytes each builder unit may have in it.
	BacklogBytes  int64  `json:"backlog_bytes,omitempty"`
	SourceBacklog string `json:"drains,omitempty"` // the "directory" of the backlog that a second filter read

	Program           string    `json:"program"` // version of the control's program
	Configuration     string    `json:"configuration"`
	ConfigurationHash string    `json:"configuration_hash"`
	Created           time.Time `json:"created"`

	Builders []Builder `json:"builders"` // in order of index
	Verdict  *Verdict  `json:"verdict,omitempty"`
	Merged   *Merged   `json:"merged,omitempty"` // the merged file; the segments may be gone
}

// Stream is one of several output streams of each builder unit.
type Stream struct {
	Number int    `json:"number"` // from 0
	Count  int    `json:"of"`
	Rule   string `json:"by"` // rule by which MEPs are divided among the streams
}

// AllSegments ranges over the closed segments in order of builder unit and number.
func (m *Manifest) AllSegments(yield func(*Segment) bool) {
	for b := range m.Builders {
		for s := range m.Builders[b].Segments {
			if !yield(&m.Builders[b].Segments[s]) {
				return
			}
		}
	}
}

// NewMEPSet makes an empty set of the run's MEPs.
func (m *Manifest) NewMEPSet() *MEPSet {
	if m.Live {
		return NewLiveMEPSet(m.Packing)
	}
	return NewMEPSet(m.Packing)
}

// Builder is the output of one builder unit.
type Builder struct {
	Index      int       `json:"index"`
	Node       string    `json:"node"`
	Host       string    `json:"host"`
	Program    string    `json:"program"` // version
	Durability string    `json:"durability"`
	State      State     `json:"state"`
	Segments   []Segment `json:"segments"` // closed ones, in order of number
}

// State is how far a builder unit has come with its output.
type State string

// The states of an output.
const (
	StateWriting   State = "writing"   // also: a killed process left it so, and no Recover has run since
	StateFinished  State = "finished"  // everything it built is in closed segments
	StateGivenUp   State = "given up"  // the run failed; everything that was built is in closed segments all the same
	StateRecovered State = "recovered" // its process was killed, and Recover closed its segments
)

// Segment is a closed segment.
type Segment struct {
	Name   string `json:"name"`
	Number int    `json:"number"`
	SegmentTotals
	CRC    string    `json:"crc32c"` // of all its bytes, 8 hexadecimal digits
	Closed time.Time `json:"closed"`
	// Recovered says that its writer was killed; TailBytes is how many bytes followed its last whole MEP (in a file
	// .tail).
	Recovered bool  `json:"recovered,omitempty"`
	TailBytes int64 `json:"tail_bytes,omitempty"`
}

// SegmentTotals are the sums over consecutive MEPs from the beginning of a segment.
type SegmentTotals struct {
	MEPs       uint64 `json:"meps"`
	Events     uint64 `json:"events"`
	FirstEvent uint64 `json:"first_event"` // the lowest event id
	LastEvent  uint64 `json:"last_event"`  // the highest event id; not all between need be there
	Bytes      int64  `json:"bytes"`       // to the end of the last MEP
	RunningCRC uint32 `json:"-"`           // CRC-32C of these bytes
}

// Add adds the MEP of the next entry of the segment.
func (h *SegmentTotals) Add(e Entry) {
	last := e.FirstEvent + uint64(max(e.Events, 1)) - 1
	if last < e.FirstEvent {
		last = math.MaxUint64
	}
	if h.MEPs == 0 || e.FirstEvent < h.FirstEvent {
		h.FirstEvent = e.FirstEvent
	}
	h.LastEvent = max(h.LastEvent, last)
	h.MEPs++
	h.Events += uint64(e.Events)
	h.Bytes, h.RunningCRC = e.End(), e.CRC
}

// eventSpan returns the lowest and the highest event of the MEPs; nil if they have none.
func (h *SegmentTotals) eventSpan() *Range {
	if h.Events == 0 {
		return nil
	}
	return &Range{From: h.FirstEvent, To: h.LastEvent}
}

// formatCRC returns a checksum as the manifest writes it.
func formatCRC(crc uint32) string { return fmt.Sprintf("%08x", crc) }

// SetClosed sets the fields of the manifest that are not totals.
func (s *Segment) SetClosed(id SegmentID, at time.Time) {
	s.Name, s.Number, s.CRC, s.Closed = id.Name(), id.Number, formatCRC(s.RunningCRC), at.UTC()
}

// Verdict is the control's judgement of the run at its end.
type Verdict struct {
	Verdict               string        `json:"verdict"`               // GOOD, DEGRADED, INCOMPLETE, ABORTED
	Why                   string        `json:"verdict_why,omitempty"` // a sentence; empty if nothing was lost
	Losses                []Loss        `json:"losses,omitempty"`
	EndCause              string        `json:"end_cause"`
	Cause                 string        `json:"cause,omitempty"` // why the run ended, a sentence
	EventsTriggered       uint64        `json:"events_triggered"`
	EventsBuilt           uint64        `json:"events_built"`
	EventsInDirectory     uint64        `json:"events_here"`            // in this directory, each once, when the run ended
	EventsOutput          uint64        `json:"events_output"`          // in all directories of the run
	MissingEvents         []Range       `json:"missing"`                // events that were triggered and are in no directory
	UnlistedMissingRanges uint64        `json:"missing_more,omitempty"` // ranges beyond those listed
	ConcludedAt           time.Time     `json:"concluded"`
	UnitOutages           []UnitOutages `json:"lacking,omitempty"` // readout units that were absent for a part of the run
}

// UnitOutages is a readout unit that was absent, with the events that were built with missing fragments for its
// sources. These events are among those of the MEPs from FirstMEP to LastMEP.
type UnitOutages struct {
	Node        string   `json:"node"`
	ReadoutUnit int      `json:"readout_unit"`
	FirstSource int      `json:"first_source"`
	LastSource  int      `json:"last_source"`
	MEPs        uint64   `json:"meps"`
	Events      uint64   `json:"events"`
	FirstMEP    uint64   `json:"first_mep"`
	LastMEP     uint64   `json:"last_mep"`
	Outages     []Outage `json:"gone,omitempty"` // when, in order
}

// Outage is a part of a run in which a readout unit was absent. Events are marked as lacking from the MEP that was
// issued next, but parts that were under way then are missing in earlier MEPs, too. From ReturnMEP on the MEPs are
// complete.
type Outage struct {
	FromMEP    uint64    `json:"from_mep"`
	At         time.Time `json:"at"`
	ReturnMEP  *uint64   `json:"back_mep,omitempty"` // nil: it had not returned when the run ended
	ReturnedAt time.Time `json:"back_at,omitzero"`
}

// Range is the events From to To, both included.
type Range struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
}

// Merged is the single file into which the segments were merged.
type Merged struct {
	Path   string    `json:"path"`
	Bytes  int64     `json:"bytes"`
	CRC    string    `json:"crc32c"`
	MEPs   uint64    `json:"meps"`
	Events uint64    `json:"events"`
	At     time.Time `json:"at"`
}
