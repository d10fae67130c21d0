package conversion_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"ringlet/convert/conversion"
	"ringlet/event"
	"ringlet/lab/gen"
	"ringlet/recording"
	"ringlet/testkit/mfp"
)

const (
	packing = 5
	sources = 4
)

// convert is Run with what most tests want.
func convert(t testing.TB, output string, change func(*conversion.Options), inputs ...string) conversion.Result {
	t.Helper()
	r, err := run(output, change, inputs...)
	ok(t, err)
	return r
}

func run(output string, change func(*conversion.Options), inputs ...string) (conversion.Result, error) {
	o := conversion.Options{
		Inputs:    inputs,
		Output:    output,
		MaxUnit:   64 << 20,
		PartBytes: 1 << 30,
	}
	if change != nil {
		change(&o)
	}
	return conversion.Run(context.Background(), o)
}

// generated writes a file of generated data.
func generated(t testing.TB, format recording.Format, events uint64, size int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x."+format.String())
	_, err := gen.Generate(context.Background(), gen.Config{
		Path:         path,
		Format:       format,
		Events:       events,
		Packing:      100,
		Streams:      3,
		FragmentSize: size,
		Seed:         1,
		Run:          7,
	})
	ok(t, err)
	return path
}

// fragments is a MEP of random fragments: missing ones, empty ones, and now and then the largest. It gives its rows.
func fragments(rnd *rand.Rand, first uint64, run uint32) (mep []byte, rows []row) {
	mep = make([]byte, event.MEPHeaderSize(sources))
	var ids []uint16
	var offsets []uint32
	rows = make([]row, packing*sources)
	for s := range sources {
		var list []mfp.Fragment
		for i := range packing {
			f := mfp.Fragment{Type: event.BankType(rnd.IntN(80)), Data: make([]byte, rnd.IntN(300))}
			switch rnd.IntN(20) {
			case 0:
				f = mfp.Fragment{Type: event.FragmentMissing}
			case 1:
				f.Data = make([]byte, event.MaxNarrowFragment)
			case 2:
				f.Data = nil
			}
			if s == 1 {
				f.Words = event.Words{HasTrigger: i%2 > 0, Trigger: uint64(i % 2 * 7), HasStamp: i == 0}
			}
			for k := range f.Data {
				f.Data[k] = byte(rnd.Uint32())
			}
			list = append(list, f)
			rows[i*sources+s] = row{
				Run:     run,
				Event:   first + uint64(i),
				Source:  uint16(s * 20000),
				Type:    uint8(f.Type),
				Version: uint8(s),
				Missing: f.Type == event.FragmentMissing,
				Data:    f.Data,
			}
			if f.Words.HasTrigger {
				rows[i*sources+s].Trigger = new(f.Words.Trigger)
			}
			if f.Words.HasStamp {
				rows[i*sources+s].Stamp = new(f.Words.Stamp)
			}
		}
		ids, offsets = append(ids, uint16(s*20000)), append(offsets, uint32(len(mep)/4))
		mep = append(mep, mfp.Build(event.MFPHeader{
			FirstEvent: first,
			Source:     uint16(s * 20000),
			Align:      2,
			Version:    uint8(s),
		}, list...)...)
	}
	if _, err := event.PutMEPHeader(mep, ids, offsets, uint32(len(mep)/4)); err != nil {
		panic(err)
	}
	return mep, rows
}

// newFile writes bytes to a new file.
func newFile(t testing.TB, name string, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	ok(t, os.WriteFile(path, b, 0o666))
	return path
}

// meps is a file of MEPs, and its rows.
func meps(t testing.TB, n int) (path string, rows []row) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(1, 1))
	var b []byte
	for k := range n {
		m, r := fragments(rnd, uint64(k*packing), 0)
		b, rows = append(b, m...), append(rows, r...)
	}
	return newFile(t, "x.mep", b), rows
}

// recorded is the directory of a run with n MEPs in a segment of each of two builder units, out of order, and its rows.
func recorded(t testing.TB, format recording.Format, n int) (dir string, rows []row) {
	t.Helper()
	return recordedFrom(t, t.TempDir(), 123, format, 0, n)
}

// recordedFrom is a run whose first events are others. Each run has the same fragments of an event.
func recordedFrom(t testing.TB, in string, run uint32, format recording.Format, from, n int) (dir string, rows []row) {
	t.Helper()
	dir = recording.RunDir(in, run)
	ok(t, os.Mkdir(dir, 0o777))
	key := recording.Key{1, 2, byte(run)}
	m := recording.Manifest{
		Version: 1,
		Run:     run,
		Key:     key,
		ID:      "00112233445566778899aabbccddeeff",
		Format:  format,
		Packing: packing,
	}
	rnd := rand.New(rand.NewPCG(2, 2))
	all := make([][]byte, n)
	for range from {
		fragments(rnd, 0, run)
	}
	for k := range all {
		mep, r := fragments(rnd, uint64((from+k)*packing), run)
		all[k] = as(t, format, mep, r)
		if format == recording.FormatMDF {
			for i := range r {
				r[i].Orbit, r[i].Bunch = uint32(from+k), uint32(i/sources)
				r[i].Trigger, r[i].Stamp = nil, nil // a record has no place for them
			}
		}
		rows = append(rows, r...)
	}
	order := rnd.Perm(n)
	for b := range 2 {
		id := recording.SegmentID{Builder: b, Number: 1, Format: format}
		var data []byte
		index := (&recording.Header{Segment: id, Run: run, Key: key}).Append(nil)
		var s recording.Segment
		for _, k := range order[b*n/2 : (b+1)*n/2] {
			e := recording.Entry{
				MEP:        uint64(from + k),
				FirstEvent: uint64((from + k) * packing),
				Offset:     int64(len(data)),
				Length:     int64(len(all[k])),
				Events:     packing,
				Attempt:    1,
			}
			data = append(data, all[k]...)
			e.CRC = crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
			index = e.Append(index)
			s.Add(e)
		}
		s.SetClosed(id, time.Time{})
		m.Builders = append(m.Builders, recording.Builder{
			Index:    b,
			State:    recording.StateFinished,
			Segments: []recording.Segment{s},
		})
		ok(t, os.WriteFile(filepath.Join(dir, id.Name()), data, 0o666))
		ok(t, os.WriteFile(filepath.Join(dir, id.Index()), index, 0o666))
	}
	b, err := json.Marshal(m)
	ok(t, err)
	ok(t, os.WriteFile(filepath.Join(dir, recording.ManifestName), b, 0o666))
	return dir, rows
}

// as is a MEP in another format. Banks hold a little less than fragments: the largest are chains of banks.
func as(t testing.TB, format recording.Format, mep []byte, rows []row) (b []byte) {
	t.Helper()
	switch format {
	case recording.FormatMEP:
		return mep
	case recording.FormatMFP:
		p, err := event.ParseMEP(mep)
		ok(t, err)
		for f, err := range p.MFPs() {
			ok(t, err)
			b = append(b, f.Bytes()...)
		}
		return b
	}
	for i, one := range slices.Collect(slices.Chunk(rows, sources)) {
		var list []event.SourceFragment
		for k := range one {
			r := &one[k]
			list = append(list, event.SourceFragment{
				Type:    event.BankType(r.Type),
				Version: r.Version,
				Source:  r.Source,
				Data:    r.Data,
			})
		}
		var err error
		b, err = event.AppendRecordFromFragments(b, event.MDFHeader{
			Run:   one[0].Run,
			Orbit: uint32(one[0].Event / packing),
			Bunch: uint32(i),
		}, list)
		ok(t, err)
	}
	return b
}

// containers is a file with one MEP of replayed records: two banks in a container of each of two sources, and a
// fragment that is none. spoil spoils the last container.
func containers(t testing.TB, spoil bool) string {
	t.Helper()
	var a, b []byte
	for i, at := range []*[]byte{&a, &a, &b, &b} {
		var err error
		*at, err = event.AppendBank(*at, event.BankType(60+i), uint8(i), int16(-i), bytes.Repeat([]byte{byte(i)}, 5*i))
		ok(t, err)
	}
	if spoil {
		binary.LittleEndian.PutUint16(b, 0)
	}
	mep := make([]byte, event.MEPHeaderSize(3))
	var offsets []uint32
	for s, f := range []mfp.Fragment{
		{Type: event.FragmentContainer, Data: a}, {Type: 9, Data: a}, {Type: event.FragmentContainer, Data: b}} {
		offsets = append(offsets, uint32(len(mep)/4))
		mep = append(mep, mfp.Build(event.MFPHeader{FirstEvent: 5, Source: uint16(s), Align: 2}, f)...)
	}
	_, err := event.PutMEPHeader(mep, []uint16{0, 1, 2}, offsets, uint32(len(mep)/4))
	ok(t, err)
	return newFile(t, "x.mep", mep)
}
