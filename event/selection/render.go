package selection

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"ringlet/event"
)

// Format is how an event is written.
type Format string

// The formats.
const (
	FormatJSON Format = "json" // one object a line
	FormatHex  Format = "hex"  // for people: a line for each fragment, and its bytes
	FormatMDF  Format = "mdf"  // one record, docs/format/mdf.md
)

// Renderer writes events. The zero Renderer is ready; it is for one goroutine at a time.
type Renderer struct {
	fragments [][]byte
	sources   []event.SourceFragment
	banks     []byte
	rebuilder event.Rebuilder
}

// AppendEvent appends an event in a format. Hex and MDF need its data. If the event does not fit an MDF record, or
// lacks bytes of a fragment, which Packet.Event cuts, the error of MDF is of kind event.ErrRange and dst is returned
// unchanged.
func (r *Renderer) AppendEvent(dst []byte, f Format, e *Event) ([]byte, error) {
	switch f {
	case FormatMDF:
		return r.appendMDFRecord(dst, e)
	case FormatHex:
		return appendHex(dst, e), nil
	default:
		return appendJSON(dst, e), nil
	}
}

// appendJSON appends a line, which docs/tap.md describes.
func appendJSON(dst []byte, e *Event) []byte {
	missing := 0
	for i := range e.Fragments {
		if e.Fragments[i].Type == event.FragmentMissing {
			missing++
		}
	}
	dst = appendNumber(dst, `{"event":`, e.Number)
	dst = appendNumber(dst, `,"run":`, uint64(e.Run))
	dst = appendNumber(dst, `,"mep":`, e.MEP)
	if e.Attempt != 0 {
		dst = appendNumber(dst, `,"attempt":`, uint64(e.Attempt))
	}
	if e.Builder != "" {
		dst = appendWord(append(dst, `,"builder":`...), e.Builder)
	}
	dst = appendNumber(dst, `,"size":`, uint64(e.Size()))
	dst = appendNumber(dst, `,"missing":`, uint64(missing))
	dst = append(dst, `,"sources":[`...)
	for i := range e.Fragments {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendJSONFragment(dst, &e.Fragments[i])
	}
	return append(dst, "]}\n"...)
}

// appendJSONFragment appends the object of a fragment. The field data is absent if Data is nil, and "" for an empty
// fragment.
func appendJSONFragment(dst []byte, f *Fragment) []byte {
	dst = appendNumber(dst, `{"source":`, uint64(f.Source))
	dst = appendJSONType(append(dst, ','), f.Type, f.Version)
	dst = appendNumber(dst, `,"size":`, uint64(f.Size))
	if f.Type == event.FragmentMissing {
		dst = append(dst, `,"missing":true`...)
	}
	if f.Data != nil {
		dst = append(hex.AppendEncode(append(dst, `,"data":"`...), f.Data), '"')
	}
	n := 0
	for c := banksOf(f); c.Next(); n++ {
		b := c.Bank()
		dst = append(dst, map[bool]string{true: `,"banks":[{`, false: `,{`}[n == 0]...)
		dst = appendJSONType(dst, b.Type(), b.Version())
		dst = strconv.AppendInt(append(dst, `,"source":`...), int64(b.SourceID()), 10)
		dst = append(appendNumber(dst, `,"size":`, uint64(len(b.Data()))), '}')
	}
	if n > 0 {
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

// appendJSONType appends the three fields that say what a fragment or a bank is.
func appendJSONType(dst []byte, t event.BankType, version uint8) []byte {
	dst = appendWord(append(dst, `"type":`...), t.String())
	dst = appendNumber(dst, `,"type_id":`, uint64(t))
	return appendNumber(dst, `,"version":`, uint64(version))
}

func appendNumber(dst []byte, name string, n uint64) []byte {
	return strconv.AppendUint(append(dst, name...), n, 10)
}

// appendWord appends a string of JSON. Nearly all names need no escapes: only the others go through json.Marshal.
func appendWord(dst []byte, s string) []byte {
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && c != '-' && c != '_' && c != '.' {
			word, _ := json.Marshal(s) // cannot fail for a string
			return append(dst, word...)
		}
	}
	return append(append(append(dst, '"'), s...), '"')
}

// banksOf walks the raw banks of a FragmentContainer; for any other fragment it walks none.
func banksOf(f *Fragment) event.BankCursor {
	if f.Type != event.FragmentContainer {
		return event.NewBankCursor(nil)
	}
	return event.NewBankCursor(f.Data)
}

// appendHex appends a line for the event and one for each fragment, with the bytes as hexdump -C prints them.
func appendHex(dst []byte, e *Event) []byte {
	by := ""
	if e.Builder != "" {
		by = " by " + e.Builder
	}
	dst = fmt.Appendf(dst, "event %d of run %d: %d bytes of %d sources, MEP %d%s\n", e.Number, e.Run, e.Size(),
		len(e.Fragments), e.MEP, by)
	for i := range e.Fragments {
		f := &e.Fragments[i]
		dst = fmt.Appendf(dst, "  source %d: %s, version %d, %d bytes\n", f.Source, typeName(f.Type), f.Version, f.Size)
		for c := banksOf(f); c.Next(); {
			b := c.Bank()
			dst = fmt.Appendf(dst, "    bank at %d: %s, version %d, source %d, %d bytes\n", c.Offset(), typeName(b.Type()),
				b.Version(), b.SourceID(), len(b.Data()))
		}
		if n := len(f.Data); n < f.Size && n > 0 {
			dst = fmt.Appendf(dst, "    the first %d bytes:\n", n)
		}
		for line := range strings.Lines(hex.Dump(f.Data)) {
			dst = append(append(dst, "    "...), line...)
		}
	}
	return dst
}

// typeName is a type's name with its number, or the number alone.
func typeName(t event.BankType) string {
	if name, number := t.String(), fmt.Sprint(uint8(t)); name != number {
		return name + " (" + number + ")"
	}
	return t.String()
}

// appendMDFRecord appends an MDF record. From all fragments of a replayed event it makes the original record, byte for
// byte; from some of them it makes a record of their banks.
func (r *Renderer) appendMDFRecord(dst []byte, e *Event) ([]byte, error) {
	r.fragments, r.sources = r.fragments[:0], r.sources[:0]
	replayed := false
	for i := range e.Fragments {
		f := &e.Fragments[i]
		if len(f.Data) < f.Size {
			return dst, fmt.Errorf("event %d: only %d of %d bytes of source %d are shown, too few for a record: take hex or "+
				"json, or read the file of the run: %w", e.Number, len(f.Data), f.Size, f.Source, event.ErrRange)
		}
		replayed = replayed || f.Type == event.FragmentContainer
		r.fragments = append(r.fragments, f.Data)
		r.sources = append(r.sources, event.SourceFragment{
			Type:    f.Type,
			Version: f.Version,
			Source:  f.Source,
			Data:    f.Data,
		})
	}
	header := event.MDFHeader{
		Run:   e.Run,
		Orbit: uint32(e.Number / event.BunchesPerOrbit),
		Bunch: uint32(e.Number % event.BunchesPerOrbit),
	}
	if !replayed {
		return event.AppendRecordFromFragments(dst, header, r.sources)
	}
	if complete, err := r.rebuilder.Append(dst, r.fragments); err == nil {
		return complete, nil
	}
	r.banks = r.banks[:0]
	for i := range e.Fragments {
		c := banksOf(&e.Fragments[i])
		for c.Next() {
			if c.Bank().Type() != event.RecordBank { // it describes the original record
				r.banks = append(r.banks, c.RawBank()...)
			}
		}
		if err := c.Err(); err != nil {
			return dst, err
		}
	}
	for i := range header.TriggerMask {
		header.TriggerMask[i] = 1<<32 - 1
	}
	header.DataType = event.MDFTypeBanks
	return event.AppendRecord(dst, header, r.banks)
}
