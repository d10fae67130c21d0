package inspect

import (
	"errors"
	"fmt"
	"io"

	"ringlet/event"
	"ringlet/recording"
)

// maxFindings bounds the problems that a verification names; it counts the rest.
const maxFindings = 1000

// verify is the visitor of ModeVerify.
type verify struct {
	*unitCounts
	findings     []finding
	skippedBytes int64 // bytes left out behind bad units
	unsigned     int64 // records without checksum
	nextEventID  map[uint16]uint64
	rebuilder    event.Rebuilder
	rebuilt      []byte
	cursors      []event.FragmentCursor
	fragments    [][]byte
}

// finding is one problem as printed.
type finding struct {
	Format string `json:"format"`
	Record int64  `json:"record"`
	Offset int64  `json:"offset"`
	Field  string `json:"field,omitempty"`
	Reason string `json:"reason"`
	text   string
}

func newVerify(c *unitCounts) *verify {
	return &verify{unitCounts: c, nextEventID: map[uint16]uint64{}}
}

// found counts a problem and keeps it for the report.
func (v *verify) found(err error) {
	if err == nil {
		return
	}
	v.problem(err)
	if len(v.findings) == maxFindings {
		return
	}
	f := finding{Record: event.NoRecord, Reason: err.Error(), text: err.Error()}
	var fe *event.FormatError
	if errors.As(err, &fe) {
		f = finding{
			Format: fe.Format,
			Record: fe.Record,
			Offset: fe.Offset,
			Field:  fe.Field,
			Reason: fe.Reason,
			text:   err.Error(),
		}
	}
	v.findings = append(v.findings, f)
}

func (v *verify) visit(u *unit) error {
	switch v.format {
	case FormatMDF:
		if u.record.StoredChecksum() == 0 {
			v.unsigned++
		}
		v.found(u.locate(u.record.CheckBanks()))
		v.found(u.locate(u.record.CheckChecksum()))
	case FormatMEP:
		if err := u.mep.Verify(); err != nil {
			v.found(u.locate(err))
			return nil
		}
		v.replayed(u)
	default:
		v.checkOrder(u)
		v.checkContainers(u, u.mfp, 0)
	}
	return nil
}

// checkOrder checks that the packets of a source ascend without overlap, and that none follows its end of run. Gaps are
// allowed: a file may hold a part.
func (v *verify) checkOrder(u *unit) {
	f := u.mfp
	first, source := f.FirstEvent(), f.Source()
	if next, known := v.nextEventID[source]; known && (first < next || next == event.EndOfRun) {
		reason := fmt.Sprintf("source %d goes on at event %d, where %d is the lowest that may follow", source, first, next)
		if next == event.EndOfRun {
			reason = fmt.Sprintf("source %d sends another packet after its end of run", source)
		}
		v.found(&event.FormatError{
			Format: event.FormatMFP,
			Field:  "first event id",
			Reason: reason,
			Record: u.index,
			Offset: u.offset + 8,
			Err:    event.ErrOrder,
		})
	}
	v.nextEventID[source] = first + uint64(f.NumFragments())
}

// checkContainers checks the banks in the container fragments of f, which begins at byte at of the unit.
func (v *verify) checkContainers(u *unit, f event.MFP, at int) {
	for c := f.Cursor(); c.Next(); {
		if c.Type() != event.FragmentContainer {
			continue
		}
		banks := event.NewBankCursor(c.Data())
		for banks.Next() { // walking is checking
		}
		v.found(event.LocateError(banks.Err(), u.index, u.offset+int64(at+c.Offset())))
	}
}

// replayed checks the containers of a MEP. If the MEP is of replayed data and its containers are valid, it rebuilds the
// records and checks them.
func (v *verify) replayed(u *unit) {
	p, before := u.mep, v.problems
	v.cursors = v.cursors[:0]
	for i := range p.NumMFPs() {
		f, err := p.MFP(i)
		if err != nil {
			v.found(u.locate(err))
			return
		}
		v.checkContainers(u, f, p.Offset(i))
		v.cursors = append(v.cursors, f.Cursor())
	}
	if p.NumMFPs() == 0 || p.Source(0) != 0 || v.problems > before {
		return
	}
	for v.nextEvent() {
		if v.allContainers() {
			v.event(u)
		}
	}
}

// nextEvent steps all cursors; the MFPs of a verified MEP have the same number of fragments.
func (v *verify) nextEvent() bool {
	more := true
	for i := range v.cursors {
		more = v.cursors[i].Next() && more
	}
	return more
}

// allContainers gathers the event's fragments, and says whether all are containers.
func (v *verify) allContainers() bool {
	v.fragments = v.fragments[:0]
	for i := range v.cursors {
		if v.cursors[i].Type() != event.FragmentContainer {
			return false
		}
		v.fragments = append(v.fragments, v.cursors[i].Data())
	}
	return true
}

// event rebuilds the event's record from the gathered fragments, and checks it.
func (v *verify) event(u *unit) {
	var err error
	if v.rebuilt, err = v.rebuilder.Append(v.rebuilt[:0], v.fragments); err == nil {
		var r event.Record
		if r, err = event.ParseRecord(v.rebuilt); err == nil {
			err = r.Verify()
		}
	}
	var fe *event.FormatError
	if errors.As(err, &fe) {
		v.found(&event.FormatError{
			Format: event.FormatMEP,
			Field:  "replayed record",
			Record: u.index,
			Offset: u.offset,
			Err:    fe.Err,
			Reason: fmt.Sprintf("event %d cannot be put together: %v", v.cursors[0].Event(), err),
		})
	}
}

func (v *verify) noteBad(err error) bool  { v.found(err); return true }
func (v *verify) noteSkipped(bytes int64) { v.skippedBytes += bytes }

// verdict is the result of a verification as printed.
type verdict struct {
	File     string    `json:"file"`
	Format   Format    `json:"format"`
	OK       bool      `json:"ok"`
	Units    int64     `json:"units"`
	BadUnits int64     `json:"bad_units"`
	Bytes    int64     `json:"bytes"`
	Skipped  int64     `json:"skipped_bytes"`
	Unsigned int64     `json:"records_without_checksum"`
	Problems int64     `json:"problems"`
	Named    []finding `json:"named"`

	Opened *recording.OpenSegment `json:"open_segment,omitempty"`
}

func (v *verify) finish(out io.Writer, asJSON bool) error {
	if asJSON {
		return writeJSON(out, verdict{
			File:     v.path,
			Format:   v.format,
			OK:       v.problems == 0,
			Units:    v.units,
			BadUnits: v.badUnits,
			Bytes:    v.bytes,
			Skipped:  v.skippedBytes,
			Unsigned: v.unsigned,
			Problems: v.problems,
			Named:    append([]finding{}, v.findings...),
			Opened:   v.opened,
		})
	}
	for _, f := range v.findings {
		fmt.Fprintf(out, "%s: %s\n", v.path, f.text)
	}
	if more := v.problems - int64(len(v.findings)); more > 0 {
		fmt.Fprintf(out, "%s: and %d more\n", v.path, more)
	}
	_, err := fmt.Fprintf(out,
		"%s: %s, %d units of %d bytes, %d without checksum, %d bad units, %d bytes skipped, %d problems\n",
		v.path, v.format, v.units, v.bytes, v.unsigned, v.badUnits, v.skippedBytes, v.problems)
	return err
}
