package histogram

import (
	"bytes"
	"testing"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
	"pgregory.net/rapid"
)

// TestTheLibraryReadsIt has the library read what was written here, beside what it writes itself.
func TestTheLibraryReadsIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lowest := rapid.Int64Range(1, 100).Draw(t, "lowest")
		h := hdr.New(lowest, rapid.Int64Range(2*lowest, 1<<40).Draw(t, "highest"), rapid.IntRange(1, 3).Draw(t, "digits"))
		for range rapid.IntRange(0, 30).Draw(t, "values") {
			v := rapid.Int64Range(0, h.HighestTrackableValue()).Draw(t, "value")
			n := rapid.OneOf(rapid.Int64Range(1, 3), rapid.Int64Range(1, 1<<58)).Draw(t, "times")
			if err := h.RecordValues(v, n); err != nil {
				t.Fatal(err)
			}
		}
		got, err := hdr.Decode(Encode(h))
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := h.Encode(hdr.V2CompressedEncodingCookieBase)
		if err != nil {
			t.Fatal(err)
		}
		want, err := hdr.Decode(theirs)
		if err != nil {
			t.Fatal(err)
		}
		if !got.Equals(h) || !got.Equals(want) || got.TotalCount() != h.TotalCount() {
			t.Fatalf("%+v is not %+v", got.Export(), h.Export())
		}
	})
}

// TestMemoryIsUsedAgain has a second histogram written with the memory of the first.
func TestMemoryIsUsedAgain(t *testing.T) {
	h := hdr.New(1, 1<<32, 2)
	for i := range int64(1000) {
		if err := h.RecordValue(i * i); err != nil {
			t.Fatal(err)
		}
	}
	first := Encode(h)
	if second := Encode(h); !bytes.Equal(first, second) {
		t.Error("the same histogram is written in two ways")
	}
}

func BenchmarkEncode(b *testing.B) {
	h := hdr.New(1, 3_600_000_000, 2)
	for i := range int64(100_000) {
		if err := h.RecordValue(i % 7919); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("here", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			b.SetBytes(int64(len(Encode(h))))
		}
	})
	b.Run("library", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			out, err := h.Encode(hdr.V2CompressedEncodingCookieBase)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(out)))
		}
	})
}
