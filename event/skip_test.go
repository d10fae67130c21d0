package event_test

import (
	"errors"
	"io"
	"testing"

	"pgregory.net/rapid"

	"ringlet/event"
)

// TestSkippingInPartsIsSkipping holds that a search for the next record that looks at a few bytes at a time finds the
// same one.
func TestSkippingInPartsIsSkipping(t *testing.T) {
	_, whole := records(t, 6)
	rapid.Check(t, func(t *rapid.T) {
		var b []byte
		for range rapid.IntRange(1, 5).Draw(t, "stretches") {
			from := rapid.IntRange(0, len(whole)).Draw(t, "from")
			b = append(b, whole[from:rapid.IntRange(from, len(whole)).Draw(t, "to")]...)
			b = append(b, make([]byte, rapid.IntRange(0, 200).Draw(t, "zeros"))...)
		}
		most := rapid.IntRange(0, 300).Draw(t, "most")
		at, parts := event.NewMDFCursor(b, true), event.NewMDFCursor(b, true)
		for {
			r, err := at.Next()
			other, errParts := parts.Next()
			if len(r) != len(other) || (err == nil) != (errParts == nil) || at.Index() != parts.Index() ||
				at.Offset() != parts.Offset() {
				t.Fatalf("record %d at %d: %v; in parts %d at %d: %v", at.Index(), at.Offset(), err, parts.Index(), parts.Offset(),
					errParts)
			}
			if errors.Is(err, io.EOF) {
				return
			}
			if err == nil {
				continue
			}
			remaining, sum, done := at.Skip(), int64(0), false
			for !done {
				var n int64
				if n, done = parts.SkipSome(most); n <= 0 {
					t.Fatalf("a part of the search got %d bytes on", n)
				}
				sum += n
				if !done {
					if _, again := parts.Next(); !errors.Is(again, errParts) {
						t.Fatalf("in the middle of a search Next gives %v", again)
					}
				}
			}
			if sum != remaining {
				t.Fatalf("%d bytes were left out, %d in parts", remaining, sum)
			}
			if n, done := parts.SkipSome(most); n != 0 || !done {
				t.Fatal("there is nothing to skip, and something was")
			}
		}
	})
}
