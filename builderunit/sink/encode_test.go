package sink

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"ringlet/event"
	"ringlet/event/pattern"
	"ringlet/recording"
	"ringlet/testkit/mfp"
	"ringlet/testkit/must"
)

// forgetful is an outlet whose bytes go nowhere.
type forgetful struct {
	stream stream
	taken  int64
}

func (f *forgetful) flushBuffer() error {
	f.taken += int64(len(f.stream.buf))
	f.stream.buf = f.stream.buf[:0]
	return nil
}

func (f *forgetful) writeLarge(p []byte) error {
	f.taken += int64(len(p))
	return nil
}

// discarding is an output whose bytes go nowhere.
func discarding() *forgetful {
	f := &forgetful{}
	f.stream = newStream("nowhere", f)
	return f
}

// fragmentsMEP makes the first MEP of n events of sources with fragments of about size bytes.
func fragmentsMEP(t must.TB, sources, size, n int) (Meta, []byte) {
	t.Helper()
	p, err := pattern.New(pattern.Config{
		Seed:         1,
		Sources:      sources,
		FragmentSize: size,
		Align:        2,
	})
	must.OK(t, err)
	buf := make([]byte, event.MEPHeaderSize(sources))
	var ids []uint16
	var offsets []uint32
	for s := range uint16(sources) {
		mfp := make([]byte, p.MaxMFP(s, n))
		size, _, err := p.FillMFP(mfp, s, 0, n, false)
		must.OK(t, err)
		ids, offsets = append(ids, s), append(offsets, uint32(len(buf)/4))
		buf = append(buf, mfp[:size]...)
		buf = append(buf, make([]byte, -len(buf)&3)...)
	}
	if _, err := event.PutMEPHeader(buf, ids, offsets, uint32(len(buf)/4)); err != nil {
		t.Fatal(err)
	}
	return Meta{Run: 9, Events: n}, buf
}

// oneByOne is what the records of a MEP of generated data are, each with a checksum of its own.
func oneByOne(t must.TB, m Meta, mep []byte) (out []byte) {
	t.Helper()
	packet, err := event.ParseMEP(mep)
	must.OK(t, err)
	for i := range m.Events {
		var fragments []event.SourceFragment
		for k := range packet.NumMFPs() {
			p, err := packet.MFP(k)
			must.OK(t, err)
			fragments = append(fragments, event.SourceFragment{
				Type:    p.FragmentType(i),
				Version: p.Version(),
				Source:  p.Source(),
				Data:    p.Fragment(i),
			})
		}
		id := m.FirstEvent + uint64(i)
		h := event.MDFHeader{
			Run:   m.Run,
			Orbit: uint32(id / event.BunchesPerOrbit),
			Bunch: uint32(id % event.BunchesPerOrbit),
		}
		out, err = event.AppendRecordFromFragments(out, h, fragments)
		must.OK(t, err)
	}
	return out
}

// TestEncodeSealsEveryRecord holds that records whose checksums are computed together are those computed one by one: in
// a batch that is not full, in many, in one that grows for want of records, and over what the buffer holds already.
func TestEncodeSealsEveryRecord(t *testing.T) {
	for _, k := range []struct{ sources, size, events int }{
		{3, 50, 1}, {3, 50, 7}, {12, 50, 1000}, {40, 1000, 30}, {400, 1000, 9},
	} {
		t.Run(fmt.Sprint(k), func(t *testing.T) {
			m, mep := fragmentsMEP(t, k.sources, k.size, k.events)
			want := oneByOne(t, m, mep)
			got := &collector{}
			got.stream = newStream("memory", got)
			out := &got.stream
			var e encoder
			for range 3 {
				must.OK(t, e.write(out, recording.FormatMDF, m, mep))
			}
			must.OK(t, out.flush())
			if !bytes.Equal(got.data, bytes.Repeat(want, 3)) {
				t.Errorf("%d bytes, not the %d that three times the records have", len(got.data), 3*len(want))
			}
		})
	}
}

// TestEncodeLeavesReplayedChecksumsAlone has a MEP in which an event without a checksum of its own stands among
// generated ones: it comes out without.
func TestEncodeLeavesReplayedChecksumsAlone(t *testing.T) {
	bank, err := event.AppendBank(nil, 16, 0, 5, []byte("replayed"))
	must.OK(t, err)
	record, err := event.AppendRecord(nil, event.MDFHeader{DataType: event.MDFTypeBanks}, bank)
	must.OK(t, err)
	binary.LittleEndian.PutUint32(record[12:], 0)
	fragment, err := event.AppendRecordBank(nil, event.Record(record).Header(), []uint16{0})
	must.OK(t, err)
	fragment = append(fragment, bank...)

	const events, replayed = 9, 4
	var fragments []mfp.Fragment
	var want []byte
	for i := range events {
		kind, data := event.BankType(9), []byte{byte(i)}
		if i == replayed {
			kind, data = event.FragmentContainer, fragment
			want = append(want, record...)
		} else if want, err = event.AppendRecordFromFragments(want, event.MDFHeader{Run: 9, Bunch: uint32(i)},
			[]event.SourceFragment{{Type: kind, Data: data}}); err != nil {
			t.Fatal(err)
		}
		fragments = append(fragments, mfp.Fragment{Type: kind, Data: data})
	}
	mep := append(make([]byte, event.MEPHeaderSize(1)), mfp.Build(event.MFPHeader{Align: 2}, fragments...)...)
	mep = append(mep, make([]byte, -len(mep)&3)...)
	if _, err := event.PutMEPHeader(mep, []uint16{0}, []uint32{uint32(event.MEPHeaderSize(1) / 4)},
		uint32(len(mep)/4)); err != nil {
		t.Fatal(err)
	}
	out := &discarding().stream
	var e encoder
	must.OK(t, e.write(out, recording.FormatMDF, Meta{Run: 9, Events: events}, mep))
	if !bytes.Equal(out.buf, want) {
		t.Errorf("%x\nwant\n%x", out.buf, want)
	}
}

// BenchmarkEncode is MEPs becoming MDF without a disk. The rate is that of the bytes of the output.
func BenchmarkEncode(b *testing.B) {
	const sources, events = 12, 1000
	for _, size := range []int{50, 133, 1000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			m, mep := fragmentsMEP(b, sources, size, events)
			to := discarding()
			out := &to.stream
			var e encoder
			must.OK(b, e.write(out, recording.FormatMDF, m, mep))
			b.SetBytes(to.taken + int64(len(out.buf)))
			b.ReportAllocs()
			for b.Loop() {
				must.OK(b, e.write(out, recording.FormatMDF, m, mep))
			}
		})
	}
}
