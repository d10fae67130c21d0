package selection

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"ringlet/event"
)

// Format is how an event is written.
type Format string

// The formats.
const (
	JSON Format = "json" // one object a line
	Hex  Format = "hex"  // for people: a line for each fragment, and its bytes
	MDF  Format = "mdf"  // one record, docs/format/mdf.md
)

// Renderer writes events. The zero Renderer is ready; it is for one goroutine at a time.
type Renderer struct {
	fragments [][]byte
	sources   []event.SourceFragment
	banks     []byte
	rebuilder event.Rebuilder
}

// Append appends an event in a format. Hex and MDF need its data. An event that cannot be an MDF record (a fragment is
// larger than a bank) is an error of kind event.ErrRange, and dst comes back as it was.
func (r *Renderer) Append(dst []byte, f Format, e *Event) ([]byte, error) {
	switch f {
	case MDF:
		return r.record(dst, e)
	case Hex:
		return appendHex(dst, e), nil
	default:
		return appendJSON(dst, e)
	}
}

// jsonEvent is an event in JSON; docs/tap.md describes it.
type jsonEvent struct {
	Event   uint64         `json:"event"`
	Run     uint32         `json:"run"`
	MEP     uint64         `json:"mep"`
	Attempt uint32         `json:"attempt,omitempty"`
	Builder string         `json:"builder,omitempty"`
	Size    int            `json:"size"`
	Missing int            `json:"missing"`
	Sources []jsonFragment `json:"sources"`
}

type jsonFragment struct {
	Source  uint16     `json:"source"`
	Type    string     `json:"type"`
	TypeID  uint8      `json:"type_id"`
	Version uint8      `json:"version"`
	Size    int        `json:"size"`
	Missing bool       `json:"missing,omitempty"`
	Data    *string    `json:"data,omitempty"` // nil: not asked for; empty: there is none
	Banks   []jsonBank `json:"banks,omitempty"`
}

type jsonBank struct {
	Type    string `json:"type"`
	TypeID  uint8  `json:"type_id"`
	Version uint8  `json:"version"`
	Source  int16  `json:"source"`
	Size    int    `json:"size"`
}

// appendJSON appends a line.
func appendJSON(dst []byte, e *Event) ([]byte, error) {
	out := jsonEvent{
		Event:   e.Number,
		Run:     e.Run,
		MEP:     e.MEP,
		Attempt: e.Attempt,
		Builder: e.Builder,
		Size:    e.Size(),
		Sources: make([]jsonFragment, 0, len(e.Fragments)),
	}
	for i := range e.Fragments {
		f := &e.Fragments[i]
		j := jsonFragment{
			Source:  f.Source,
			Type:    f.Type.String(),
			TypeID:  uint8(f.Type),
			Version: f.Version,
			Size:    f.Size,
			Missing: f.Type == event.FragmentMissing,
		}
		if j.Missing {
			out.Missing++
		}
		if f.Data != nil {
			digits := hex.EncodeToString(f.Data)
			j.Data = &digits
		}
		for c := banksOf(f); c.Next(); {
			b := c.Bank()
			j.Banks = append(j.Banks, jsonBank{b.Type().String(), uint8(b.Type()), b.Version(), b.SourceID(), len(b.Data())})
		}
		out.Sources = append(out.Sources, j)
	}
	line, err := json.Marshal(&out)
	if err != nil {
		return dst, err // of numbers and strings: not reached
	}
	return append(append(dst, line...), '\n'), nil
}

// banksOf walks the raw banks of a fragment that holds such, and nothing of any other.
func banksOf(f *Fragment) event.BankCursor {
	if f.Type != event.FragmentContainer {
		return event.NewBankCursor(nil)
	}
	return event.NewBankCursor(f.Data)
}

// appendHex appends a line for the event and for each fragment, with its bytes as hexdump -C has them.
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

// record appends an MDF record. A replayed event with all its fragments becomes the record that it came from, byte for
// byte; one with some of them becomes a record of their banks.
func (r *Renderer) record(dst []byte, e *Event) ([]byte, error) {
	r.fragments, r.sources = r.fragments[:0], r.sources[:0]
	replayed := false
	for i := range e.Fragments {
		f := &e.Fragments[i]
		replayed = replayed || f.Type == event.FragmentContainer
		r.fragments = append(r.fragments, f.Data)
		r.sources = append(r.sources, event.SourceFragment{Type: f.Type, Version: f.Version, Source: f.Source, Data: f.Data})
	}
	header := event.MDFHeader{
		Run:   e.Run,
		Orbit: uint32(e.Number / event.BunchesPerOrbit),
		Bunch: uint32(e.Number % event.BunchesPerOrbit),
	}
	if !replayed {
		return event.AppendRecordFromFragments(dst, header, r.sources)
	}
	if whole, err := r.rebuilder.Append(dst, r.fragments); err == nil {
		return whole, nil
	}
	r.banks = r.banks[:0]
	for i := range e.Fragments {
		c := banksOf(&e.Fragments[i])
		for c.Next() {
			if c.Bank().Type() != event.RecordBank { // of a record that this is not
				r.banks = append(r.banks, c.Raw()...)
			}
		}
		if err := c.Err(); err != nil {
			return dst, err
		}
	}
	for i := range header.TriggerMask {
		header.TriggerMask[i] = 1<<32 - 1
	}
	header.DataType = event.MDFBanks
	return event.AppendRecord(dst, header, r.banks)
}
