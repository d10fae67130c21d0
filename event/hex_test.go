package event_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ringlet/event"
	"ringlet/testkit/must"
)

// hexFile reads a golden file: hex bytes, blanks ignored, '#' to the end of
// the line a comment. The files are written by hand, never by this package.
func hexFile(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	must.OK(t, err)
	var b []byte
	for i, line := range strings.Split(string(text), "\n") {
		line, _, _ = strings.Cut(line, "#")
		part, err := hex.DecodeString(strings.Join(strings.Fields(line), ""))
		if err != nil {
			t.Fatalf("%s:%d: %v", name, i+1, err)
		}
		b = append(b, part...)
	}
	return b
}

// sameBytes fails with both sides in hex where they differ.
func sameBytes(t testing.TB, what string, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Errorf("%s:\n got % X\nwant % X", what, got, want)
	}
}

// wantFormatError fails unless err is a *FormatError of the given kind, field
// and offset.
func wantFormatError(t testing.TB, err, kind error, field string, offset int64) {
	t.Helper()
	var fe *event.FormatError
	switch {
	case !errors.As(err, &fe):
		t.Errorf("got %v, want a FormatError about %s", err, field)
	case !errors.Is(err, kind) || fe.Field != field || fe.Offset != offset:
		t.Errorf("got %q (kind %v, field %q, offset %d), want kind %v, field %q, offset %d",
			err, fe.Err, fe.Field, fe.Offset, kind, field, offset)
	}
}

// zeroPadding clears the padding of a packet that was parsed, the only bytes
// that do not survive a rebuild.
func zeroMFPPadding(p event.MFP) []byte {
	b := bytes.Clone(p.Bytes())
	for i := event.MFPFixedSize + p.NumFragments(); i%4 != 0; i++ {
		b[i] = 0
	}
	end := event.MFPHeaderSize(p.NumFragments())
	if p.IsWide() {
		end = event.WideMFPHeaderSize(p.NumFragments())
		if p.IsWorded() {
			end = event.WordedMFPHeaderSize(p.NumFragments())
		}
	} else if p.NumFragments()%2 == 1 {
		clear(b[end-2:][:2])
	}
	for c := p.Cursor(); c.Next(); {
		clear(b[end:c.Offset()])
		end = c.Offset() + len(c.Data())
	}
	clear(b[end:])
	return b
}

// inside fails unless view lies inside b, by address.
func inside(t testing.TB, b, view []byte) {
	t.Helper()
	if len(view) == 0 {
		return
	}
	for at := range b {
		if &b[at] == &view[0] {
			if at+len(view) > len(b) {
				t.Errorf("a view of %d bytes at %d reaches beyond the %d of the input", len(view), at, len(b))
			}
			return
		}
	}
	t.Error("a view does not point into the input")
}
