package placing

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// unhex reads golden bytes written by hand from docs/format/placing.md.
func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const goldenAnnounce = `
	02 00 0300 0600 0900  05000000 01000000  4200000000000000  0200 000000000000
	10270000 efbeadde  00000100 00000000`

const goldenGrant = `
	03 00 00 00 05000000 01000000 07000000 4200000000000000 02000000 10270100 0000000000000000`

func TestGolden(t *testing.T) {
	a := Announce{RU: 3, First: 6, Streams: 9, Slot: 5, Attempt: 1, MEP: 0x42, Entries: []Entry{{10000, 0xdeadbeef}, {65536, 0}}}
	want := unhex(t, goldenAnnounce)
	if got := a.Append(nil); !bytes.Equal(got, want) {
		t.Errorf("announce is\n%x, not\n%x", got, want)
	}
	var back Announce
	if err := back.Parse(want); err != nil || cmp.Diff(a, back) != "" {
		t.Errorf("%v %s", err, cmp.Diff(a, back))
	}
	g := Grant{Slot: 5, Attempt: 1, MEP: 0x42, Window: 7, Gen: 2, Length: 75536}
	want = unhex(t, goldenGrant)
	if got := g.Append(nil); !bytes.Equal(got, want) {
		t.Errorf("grant is\n%x, not\n%x", got, want)
	}
	var gback Grant
	if err := gback.Parse(want); err != nil || g != gback {
		t.Errorf("%v %+v", err, gback)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte{2})
	f.Add((&Announce{Streams: 2, Entries: make([]Entry, 2)}).Append(nil))
	f.Add((&Grant{}).Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var a Announce
		if err := a.Parse(b); err != nil && !errors.Is(err, ErrMessage) {
			t.Errorf("untyped error %v", err)
		} else if err == nil {
			var again Announce
			if err := again.Parse(a.Append(nil)); err != nil || cmp.Diff(a, again) != "" {
				t.Errorf("%v %s", err, cmp.Diff(a, again))
			}
		}
		var g Grant
		if err := g.Parse(b); err != nil && !errors.Is(err, ErrMessage) {
			t.Errorf("untyped error %v", err)
		}
	})
}
