package pattern

import (
	"bytes"
	"errors"
	"hash/crc32"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"ringlet/event"
	"ringlet/testkit/mfp"
	"ringlet/testkit/must"
)

// TestFillMFP builds MFPs of any shape and compares them with the parts: sizes, words, padding, CRC, bound.
func TestFillMFP(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Config{
			Seed:         rapid.Uint64().Draw(t, "seed"),
			Sources:      rapid.IntRange(1, 9).Draw(t, "sources"),
			FragmentSize: rapid.SampledFrom([]int{0, 1, 7, 8, 133, 160, 1000, 65_535, 66_000, 300_000}).Draw(t, "size"),
			Model:        Model(rapid.IntRange(0, 2).Draw(t, "model")),
			Align:        uint8(rapid.IntRange(0, 6).Draw(t, "align")),
		}
		if rapid.Bool().Draw(t, "large") {
			c.LargeFragments = LargeFragments{
				FirstSource: rapid.IntRange(0, c.Sources-1).Draw(t, "first large"),
				Sources:     rapid.IntRange(0, 3).Draw(t, "large sources"),
				Packing:     rapid.IntRange(1, 100).Draw(t, "packing"),
				MEPInterval: rapid.Uint64Range(0, 4).Draw(t, "every"),
				Factor:      rapid.IntRange(1, 9).Draw(t, "factor"),
			}
		}
		p, err := New(c)
		must.OK(t, err)
		source := uint16(rapid.IntRange(0, c.Sources-1).Draw(t, "source"))
		n := rapid.IntRange(0, 700).Draw(t, "n")
		if c.FragmentSize > 1000 {
			n %= 4
		}
		first := rapid.Uint64Max(event.EndOfRun-1000).Draw(t, "first")
		limit := p.MaxMFP(source, n)
		dst := bytes.Repeat([]byte{0xEE}, limit+64)
		size, crc, err := p.FillMFP(dst, source, first, n, true)
		must.OK(t, err)
		if size > limit {
			t.Fatalf("%d bytes exceed the bound %d", size, limit)
		}
		for i, b := range dst[size:] {
			if b != 0xEE {
				t.Fatalf("byte %d after the MFP was written", i)
			}
		}
		if want := crc32.Checksum(dst[:size], crc32.MakeTable(crc32.Castagnoli)); crc != want {
			t.Fatalf("CRC %08x, want %08x", crc, want)
		}
		m, err := event.ParseMFP(dst)
		must.OK(t, err)
		if int(m.Size()) != size || m.NumFragments() != n || m.FirstEvent() != first || m.Source() != source ||
			m.Align() != c.Align {
			t.Fatalf("header %v %v %v %v %v", m.Size(), m.NumFragments(), m.FirstEvent(), m.Source(), m.Align())
		}
		rebuilt := rebuild(p, m)
		if !bytes.Equal(rebuilt, dst[:size]) {
			t.Fatal("the MFP differs from the one built fragment by fragment")
		}
		must.OK(t, p.CheckMFP(m))
	})
}

// rebuild makes the MFP anew from Fill, one fragment at a time.
func rebuild(p *Pattern, m event.MFP) []byte {
	fragments := make([]mfp.Fragment, m.NumFragments())
	for i := range fragments {
		ev := m.FirstEvent() + uint64(i)
		data := make([]byte, p.Size(m.Source(), ev))
		p.Fill(data, m.Source(), ev)
		fragments[i] = mfp.Fragment{Type: p.FragmentType(m.Source()), Data: data}
	}
	return mfp.Build(event.MFPHeader{
		FirstEvent: m.FirstEvent(),
		Source:     m.Source(),
		Align:      m.Align(),
		Version:    Version,
	}, fragments...)
}

func TestCheckMFPNamesTheDifference(t *testing.T) {
	p := mustNew(t, Config{
		Seed:         1,
		Sources:      3,
		FragmentSize: 40,
		Align:        2,
	})
	const source, first, n = 1, 5000, 10
	whole := make([]byte, p.MaxMFP(source, n))
	size, _, err := p.FillMFP(whole, source, first, n, false)
	must.OK(t, err)
	at := event.MFPHeaderSize(n)
	for i := range uint64(3) {
		at += (p.Size(source, first+i) + 3) &^ 3
	}
	for _, tc := range []struct {
		name   string
		change func(b []byte)
		want   string
	}{
		{"byte", func(b []byte) { b[at+17] ^= 0x40 }, "source 1, event 5003: byte 17 of the fragment is"},
		{"type", func(b []byte) { b[20+3] = 200 }, "source 1, event 5003: fragment type is 200, the generator wrote 77"},
		{"version", func(b []byte) { b[19] = 9 }, "source 1, event 5000: version is 9"},
		{"source", func(b []byte) { b[16] = 7 }, "source 7, event 5000: source id is 7"},
		{"event", func(b []byte) { b[9] ^= 1 }, "source 1, event 4744: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := bytes.Clone(whole[:size])
			tc.change(b)
			m, err := event.ParseMFP(b)
			must.OK(t, err)
			err = p.CheckMFP(m)
			var ce *contentError
			if !errors.As(err, &ce) || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
	err = p.CheckFragment(source, first, make([]byte, 3))
	if err == nil || !strings.Contains(err.Error(), "fragment size is 3") {
		t.Error(err)
	}
	err = p.CheckFragment(source, first, make([]byte, p.Size(source, first)))
	var ce *contentError
	if !errors.As(err, &ce) || ce.What != "byte" || ce.Got != 0 {
		t.Error(err)
	}
}

func TestFillMFPRefuses(t *testing.T) {
	p := mustNew(t, Config{Sources: 1, FragmentSize: 100})
	if _, _, err := p.FillMFP(make([]byte, 100), 0, 0, 10, false); err == nil ||
		!strings.Contains(err.Error(), "needs room for") {
		t.Error(err)
	}
	if _, _, err := p.FillMFP(make([]byte, 1<<20), 0, event.EndOfRun-5, 10, false); err == nil {
		t.Error("events beyond the end-of-run mark were written")
	}
	if _, _, err := p.FillMFP(nil, 0, 0, event.MaxPacking+1, false); err == nil {
		t.Error("more events than an MFP holds were written")
	}
}

func TestNoAllocations(t *testing.T) {
	p := mustNew(t, Config{Sources: 3, FragmentSize: defaultFragmentSize, Align: 2})
	const n = 1000
	dst := make([]byte, p.MaxMFP(2, n))
	if a := testing.AllocsPerRun(10, func() {
		size, _, _ := p.FillMFP(dst, 2, 0, n, true)
		m, err := event.ParseMFP(dst[:size])
		if err != nil || p.CheckMFP(m) != nil {
			t.Error("content differs")
		}
	}); a != 0 {
		t.Errorf("%g allocations per MFP", a)
	}
}

var sinkSize int

func benchmarkFill(b *testing.B, n int, crc bool) {
	p := mustNew(b, Config{Sources: 3, FragmentSize: defaultFragmentSize, Align: 2})
	var dst [3][]byte
	for s := range dst {
		dst[s] = make([]byte, p.MaxMFP(uint16(s), n))
	}
	total := 0
	i := 0
	for b.Loop() {
		size, _, err := p.FillMFP(dst[i%3], uint16(i%3), uint64(i*n), n, crc)
		must.OK(b, err)
		total += size
		i++
	}
	sinkSize = total
	b.SetBytes(int64(total / i))
}

func BenchmarkFill2k(b *testing.B)     { benchmarkFill(b, 2000, false) }
func BenchmarkFill2kCRC(b *testing.B)  { benchmarkFill(b, 2000, true) }
func BenchmarkFill30k(b *testing.B)    { benchmarkFill(b, 30000, false) }
func BenchmarkFill30kCRC(b *testing.B) { benchmarkFill(b, 30000, true) }

func BenchmarkCheck2k(b *testing.B) {
	p := mustNew(b, Config{Sources: 3, FragmentSize: defaultFragmentSize, Align: 2})
	dst := make([]byte, p.MaxMFP(0, 2000))
	size, _, err := p.FillMFP(dst, 0, 0, 2000, false)
	must.OK(b, err)
	m, err := event.ParseMFP(dst[:size])
	must.OK(b, err)
	b.SetBytes(int64(size))
	for b.Loop() {
		must.OK(b, p.CheckMFP(m))
	}
}
