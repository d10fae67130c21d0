package inspect

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"ringlet/event"
)

// field is one named value of a line.
type field struct {
	name  string
	value any
}

// dump is the visitor of ModeDump: a line for each item, indented by depth, or a JSON object with the same names in the
// same order.
type dump struct {
	*unitCounts
	out  *bufio.Writer // keeps its first error, which Flush returns
	json bool
}

// line writes one line: kind and index, then the fields.
func (d *dump) line(depth int, kind string, index int64, offset int64, fields ...field) {
	if d.json {
		d.jsonLine(kind, append([]field{{"index", index}, {"offset", offset}}, fields...))
		return
	}
	fmt.Fprintf(d.out, "%s%s %d at %d:", strings.Repeat("  ", depth), kind, index, offset)
	comma := ""
	for _, f := range fields {
		fmt.Fprintf(d.out, "%s %s %v", comma, f.name, f.value)
		comma = ","
	}
	fmt.Fprintln(d.out)
}

func (d *dump) jsonLine(kind string, fields []field) {
	fmt.Fprintf(d.out, `{"kind":%q`, kind)
	for _, f := range fields {
		value, err := json.Marshal(f.value)
		if err != nil {
			value = fmt.Appendf(nil, "%q", err) // not reached: the values are numbers and strings
		}
		fmt.Fprintf(d.out, `,%q:%s`, strings.ReplaceAll(f.name, " ", "_"), value)
	}
	fmt.Fprintln(d.out, "}")
}

func (d *dump) visit(u *unit) error {
	switch d.format {
	case FormatMDF:
		d.record(u)
	case FormatMEP:
		d.mep(u)
	default:
		d.mfp(0, u.mfp, u.index, u.offset)
	}
	return nil
}

func (d *dump) record(u *unit) {
	r := u.record
	h := r.HeaderFields()
	d.line(0, "record", u.index, u.offset,
		field{"size", r.Size()}, field{"version", r.Version()}, field{"run", h.Run}, field{"orbit", h.Orbit},
		field{"bunch", h.Bunch},
		field{"mask", fmt.Sprintf("%08X", h.TriggerMask)}, field{"compression", h.Compression},
		field{"data type", h.DataType},
		field{"checksum", fmt.Sprintf("0x%08X", h.Checksum)})
	banks, err := r.Banks()
	if err != nil {
		d.noteProblem(1, u.locate(err))
		return
	}
	if d.banks(1, banks, u.offset+int64(r.HeaderSize())) != nil {
		d.noteProblem(1, u.locate(r.CheckBanks()))
	}
}

// banks writes a line for each bank, the first of which begins at base, and returns the error that ended the walk.
func (d *dump) banks(depth int, c event.BankCursor, base int64) error {
	joined := event.JoinBanks(c)
	for i := int64(0); joined.Next(); i++ {
		f := joined.Fragment()
		fields := []field{{"type", typeName(f.Type)}, {"version", f.Version}, {"source", int16(f.Source)},
			{"length", event.BankHeaderSize + len(f.Data)}}
		if n := joined.Banks(); n > 1 {
			fields = append(fields, field{"banks", n})
		}
		if isBoard(f.Type, f.Version) {
			fields = append(fields, boardFields(f.Data)...)
		}
		d.line(depth, "bank", i, base+int64(joined.Offset()), fields...)
	}
	return joined.Err()
}

func (d *dump) mep(u *unit) {
	p := u.mep
	d.line(0, "mep", u.index, u.offset, field{"size", u.size()}, field{"mfps", p.NumMFPs()})
	for i := range p.NumMFPs() {
		f, err := p.MFP(i)
		if err != nil {
			d.noteProblem(1, u.locate(err))
			return
		}
		d.mfp(1, f, int64(i), u.offset+int64(p.Offset(i)))
	}
}

func (d *dump) mfp(depth int, f event.MFP, index, offset int64) {
	if f.IsEndOfRun() {
		d.line(depth, "mfp", index, offset, field{"size", f.Size()}, field{"source", f.Source()},
			field{"fragments", "none, end of run"})
		return
	}
	d.line(depth, "mfp", index, offset, field{"size", f.Size()}, field{"source", f.Source()},
		field{"first event", f.FirstEvent()}, field{"fragments", f.NumFragments()}, field{"align", f.Align()},
		field{"version", f.Version()})
	for c := f.Cursor(); c.Next(); {
		at := offset + int64(c.Offset())
		fields := []field{{"event", c.Event()}, {"type", typeName(c.Type())}, {"size", len(c.Data())}}
		if w := f.Words(c.Index()); w.HasTrigger {
			fields = append(fields, field{"trigger", w.Trigger})
		}
		if w := f.Words(c.Index()); w.HasStamp {
			fields = append(fields, field{"stamp", w.Stamp})
		}
		if isBoard(c.Type(), f.Version()) {
			fields = append(fields, boardFields(c.Data())...)
		}
		d.line(depth+1, "fragment", int64(c.Index()), at, fields...)
		if c.Type() != event.FragmentContainer {
			continue
		}
		if err := d.banks(depth+2, event.NewBankCursor(c.Data()), at); err != nil {
			d.noteProblem(depth+2, event.LocateError(err, event.NoRecord, at))
		}
	}
}

// noteProblem counts a problem and writes it at its place.
func (d *dump) noteProblem(depth int, err error) {
	d.problem(err)
	if d.json {
		d.jsonLine("problem", []field{{"reason", err.Error()}})
		return
	}
	fmt.Fprintf(d.out, "%sproblem: %v\n", strings.Repeat("  ", depth), err)
}

func (d *dump) noteBad(err error) bool       { d.noteProblem(0, err); return false }
func (d *dump) noteSkipped(int64)            {}
func (d *dump) finish(io.Writer, bool) error { return nil }

// typeName is a type's name with its number, or only the number.
func typeName(t event.BankType) string {
	if name, number := t.String(), fmt.Sprint(uint8(t)); name != number {
		return name + " (" + number + ")"
	}
	return t.String()
}
