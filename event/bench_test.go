package event_test

import (
	"encoding/binary"
	"testing"

	"ringlet/event"
	"ringlet/testkit/mfp"
	"ringlet/testkit/must"
)

// benchMFP is a packet like the detector's: n fragments around 133 bytes
// (LHCb-EB §V.A), padded to 8.
func benchMFP(b *testing.B, n int) []byte {
	b.Helper()
	fragments := make([]mfp.Fragment, n)
	for i := range fragments {
		fragments[i] = mfp.Fragment{Type: 9, Data: make([]byte, 100+i*31%67)}
	}
	return mfp.Build(event.MFPHeader{Align: 3}, fragments...)
}

const baselinePacking = 30000 // LHCb-EB §II.A

func BenchmarkParseMFP(b *testing.B) {
	packet := benchMFP(b, baselinePacking)
	b.ReportAllocs()
	for b.Loop() {
		p, err := event.ParseMFP(packet)
		must.OK(b, err)
		sink += uint64(p.NumFragments())
	}
	perFragment(b, baselinePacking)
}

func BenchmarkFragmentsCursor(b *testing.B) {
	p, err := event.ParseMFP(benchMFP(b, baselinePacking))
	must.OK(b, err)
	b.ReportAllocs()
	for b.Loop() {
		for c := p.Cursor(); c.Next(); {
			sink += uint64(len(c.Data()))
		}
	}
	perFragment(b, baselinePacking)
}

func BenchmarkFragmentsAll(b *testing.B) {
	p, err := event.ParseMFP(benchMFP(b, baselinePacking))
	must.OK(b, err)
	b.ReportAllocs()
	for b.Loop() {
		for _, data := range p.Fragments() {
			sink += uint64(len(data))
		}
	}
	perFragment(b, baselinePacking)
}

func BenchmarkMDFChecksum(b *testing.B) {
	record := make([]byte, 201<<10) // the sample's mean event
	for i := range record {
		record[i] = byte(i * 37)
	}
	b.SetBytes(int64(len(record)))
	b.ReportAllocs()
	for b.Loop() {
		sink += uint64(event.MDFChecksum(record))
	}
}

// BenchmarkMDFChecksumPlain is the definition, to measure the gain against.
func BenchmarkMDFChecksumPlain(b *testing.B) {
	record := make([]byte, 201<<10)
	b.SetBytes(int64(len(record)))
	for b.Loop() {
		sink += uint64(checksum(record))
	}
}

func BenchmarkPutMEPHeader(b *testing.B) {
	const m = 1000 // about LHCb's number of sources
	sources, offsets := make([]uint16, m), make([]uint32, m)
	for i := range m {
		sources[i], offsets[i] = uint16(i), uint32(event.MEPHeaderSize(m)/4+i*1000)
	}
	dst := make([]byte, event.MEPHeaderSize(m))
	b.ReportAllocs()
	for b.Loop() {
		n, err := event.PutMEPHeader(dst, sources, offsets, 1<<24)
		must.OK(b, err)
		sink += uint64(n) + uint64(binary.LittleEndian.Uint32(dst[4:]))
	}
}

func BenchmarkRebuilder(b *testing.B) {
	c := event.NewMDFCursor(sample(b), false)
	r, err := c.Next()
	must.OK(b, err)
	fragments := split(b, r, func(i int, _ event.Bank) uint16 { return uint16(i % 12) }, 12)
	var rb event.Rebuilder
	dst := make([]byte, 0, len(r))
	b.SetBytes(int64(len(r)))
	b.ReportAllocs()
	for b.Loop() {
		out, err := rb.Append(dst, fragments)
		must.OK(b, err)
		sink += uint64(len(out))
	}
}

func perFragment(b *testing.B, n int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/fragment")
}
