package placing

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// golden reads testdata/messages.golden: bytes written by hand from docs/format/placing.md, by message.
func golden(t testing.TB) map[string][]byte {
	t.Helper()
	text, err := os.ReadFile("testdata/messages.golden")
	if err != nil {
		t.Fatal(err)
	}
	messages, name := map[string][]byte{}, ""
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		line = strings.TrimSpace(line)
		if before, ok := strings.CutSuffix(line, ":"); ok {
			name = before
			continue
		}
		b, err := hex.DecodeString(strings.ReplaceAll(line, " ", ""))
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		messages[name] = append(messages[name], b...)
	}
	delete(messages, "")
	return messages
}

var announces = map[string]Announce{
	"announce of two MFPs": {
		RU: 3, FirstStream: 6, StreamCount: 9, Slot: 5, Attempt: 1, MEP: 0x42, Entries: []Entry{{10000, 0xdeadbeef},
			{65536, 0}},
	},
	"announce with every field at its largest": {
		RU: 65535, FirstStream: 65534, StreamCount: 65535, Slot: 1<<32 - 1, Attempt: 1<<32 - 1, MEP: 1<<64 - 2,
		Entries: []Entry{{1<<32 - 1, 1<<32 - 1}},
	},
}

var grants = map[string]Grant{
	"grant of 75536 bytes": {Slot: 5, Attempt: 1, MEP: 0x42, Window: 7, Gen: 2, Length: 75536},
}

var standings = map[string]PreGrants{
	"standing grants of two slots": {FirstSlot: 240, Refs: []Ref{{7, 2}, {1<<32 - 1, 1<<32 - 1}}},
}

var tags = map[string][]uint64{
	"tag of three words":                     {9, 0x42, 0x2_01_000005},
	"tag that two readout units have served": {9, 0x42, 0x1_02_01_000005, 5},
}

func TestGolden(t *testing.T) {
	messages := golden(t)
	if known := len(announces) + len(grants) + len(standings) + len(tags) + 2; len(messages) != known {
		t.Errorf("the golden file has %d messages, %d are known here", len(messages), known)
	}
	if err := ParseWindowRequest(messages["question"]); err != nil ||
		!bytes.Equal(AppendWindowRequest(nil), messages["question"]) {
		t.Errorf("the question is read as %v and written as %x", err, AppendWindowRequest(nil))
	}
	if n, err := ParseQuiesced(messages["settlement of two exclusions"]); err != nil || n != 2 ||
		!bytes.Equal(AppendQuiesced(nil, 2), messages["settlement of two exclusions"]) {
		t.Errorf("the quiesced message is read as %d, %v and written as %x", n, err, AppendQuiesced(nil, 2))
	}
	for name, words := range tags {
		var tagBuf [MaxTagWords]uint64
		if back, err := ParseTag(&tagBuf, messages[name]); err != nil || !slices.Equal(back, words) {
			t.Errorf("%s is read as %v %x", name, err, back)
		}
		if got := AppendTag(nil, words); !bytes.Equal(got, messages[name]) {
			t.Errorf("%s is\n%x, not\n%x", name, got, messages[name])
		}
	}
	for name, s := range standings {
		var back PreGrants
		if err := back.Parse(messages[name]); err != nil || cmp.Diff(s, back) != "" {
			t.Errorf("%s is read as %v %s", name, err, cmp.Diff(s, back))
		}
		if got := s.Append(nil); !bytes.Equal(got, messages[name]) {
			t.Errorf("%s is\n%x, not\n%x", name, got, messages[name])
		}
	}
	for name, a := range announces {
		var back Announce
		if err := back.Parse(messages[name]); err != nil || cmp.Diff(a, back) != "" {
			t.Errorf("%s is read as %v %s", name, err, cmp.Diff(a, back))
		}
		if got := a.Append(nil); !bytes.Equal(got, messages[name]) {
			t.Errorf("%s is\n%x, not\n%x", name, got, messages[name])
		}
	}
	for name, g := range grants {
		var back Grant
		if err := back.Parse(messages[name]); err != nil || g != back {
			t.Errorf("%s is read as %v %+v", name, err, back)
		}
		if got := g.Append(nil); !bytes.Equal(got, messages[name]) {
			t.Errorf("%s is\n%x, not\n%x", name, got, messages[name])
		}
	}
}

// TestDocumentAgrees compares the numbers in docs/format/placing.md with those of the code.
func TestDocumentAgrees(t *testing.T) {
	text, err := os.ReadFile("../../docs/format/placing.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, phrase := range []string{
		fmt.Sprintf("# Placing messages, version %d", messageVersion),
		fmt.Sprintf("| %d | a barrier message", KindBarrier),
		fmt.Sprintf("| 0 | u8 kind | %d |", KindAnnounce),
		fmt.Sprintf("| 0 | u8 kind | %d |", KindGrant),
		fmt.Sprintf("| 0 | u8 kind | %d |", KindWindowRequest),
		fmt.Sprintf("| 0 | u8 kind | %d |", KindPreGrants),
		fmt.Sprintf("| 0 | u8 kind | %d |", KindTag),
		fmt.Sprintf("| 0 | u8 kind | %d |", KindQuiesced),
		fmt.Sprintf("## Quiesced: %d bytes", QuiescedSize),
		fmt.Sprintf("## Tag: %d + 8·n bytes", tagHeaderSize),
		fmt.Sprintf("n ≤ %d words", MaxTagWords),
		fmt.Sprintf("## Window request: %d bytes", windowRequestSize),
		fmt.Sprintf("## Pre-grants: %d + %d·n bytes", preGrantsHeaderSize, preGrantSize),
		fmt.Sprintf("n ≤ %d slots", MaxPreGrants),
		fmt.Sprintf("| 1 | u8 version | %d. ", messageVersion),
		fmt.Sprintf("## Announce: %d + %d·n bytes", announceHeaderSize, announceEntrySize),
		fmt.Sprintf("## Grant: %d bytes", grantSize),
		fmt.Sprintf("at most %d bytes", maxSignalSize),
		fmt.Sprintf("n ≤ %d", MaxEntries),
	} {
		if !strings.Contains(string(text), phrase) {
			t.Errorf("docs/format/placing.md does not say %q", phrase)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	messages := golden(t)
	announce, grant := messages["announce of two MFPs"], messages["grant of 75536 bytes"]
	windowRequest, preGrants := messages["question"], messages["standing grants of two slots"]
	var tagBuf [MaxTagWords]uint64
	tag, parseTag := messages["tag of three words"], func(b []byte) error { _, err := ParseTag(&tagBuf, b); return err }
	quiesced, parseQuiesced := messages["settlement of two exclusions"],
		func(b []byte) error { _, err := ParseQuiesced(b); return err }
	change := func(b []byte, at int, v byte) []byte {
		b = bytes.Clone(b)
		b[at] = v
		return b
	}
	var a Announce
	var g Grant
	var s PreGrants
	for name, tc := range map[string]struct {
		parse func([]byte) error
		b     []byte
		says  string
	}{
		"announce, nothing":           {a.Parse, nil, "0 bytes"},
		"tag, kind":                   {parseTag, change(tag, 0, 5), "kind 5"},
		"tag, version":                {parseTag, change(tag, 1, 2), "version 2"},
		"tag, reserved":               {parseTag, change(tag, 7, 1), "byte 7"},
		"tag, part of a word":         {parseTag, tag[:len(tag)-1], "31 bytes"},
		"tag, too long":               {parseTag, AppendTag(nil, make([]uint64, MaxTagWords+1)), "168 bytes"},
		"announce, half a header":     {a.Parse, announce[:31], "at least 32"},
		"announce, half an entry":     {a.Parse, announce[:44], "44 bytes with 2 sizes"},
		"announce, a byte more":       {a.Parse, append(bytes.Clone(announce), 0), "49 bytes with 2 sizes"},
		"announce, kind of a grant":   {a.Parse, change(announce, 0, 3), "kind 3, not 2"},
		"announce, another version":   {a.Parse, change(announce, 1, 2), "version 2"},
		"announce, reserved set":      {a.Parse, change(announce, 31, 1), "reserved byte 31"},
		"announce, more than it has":  {a.Parse, change(announce, 24, 3), "3 sizes"},
		"announce, too many streams":  {a.Parse, change(announce, 6, 7), "from stream 6 on, of 7"},
		"announce, 64 Ki sizes":       {a.Parse, change(announce, 25, 0xff), "sizes"},
		"grant, nothing":              {g.Parse, nil, "0 bytes"},
		"grant, a byte less":          {g.Parse, grant[:39], "at least 40"},
		"grant, a byte more":          {g.Parse, append(bytes.Clone(grant), 0), "41 bytes, not 40"},
		"grant, another version":      {g.Parse, change(grant, 1, 0), "version 0"},
		"grant, reserved set":         {g.Parse, change(grant, 2, 9), "reserved byte 2 is 9"},
		"grant, reserved end set":     {g.Parse, change(grant, 39, 9), "reserved byte 39"},
		"question, nothing":           {ParseWindowRequest, nil, "0 bytes"},
		"question, a byte more":       {ParseWindowRequest, append(bytes.Clone(windowRequest), 0), "9 bytes, not 8"},
		"question, another kind":      {ParseWindowRequest, change(windowRequest, 0, 5), "kind 5, not 4"},
		"question, reserved set":      {ParseWindowRequest, change(windowRequest, 7, 1), "reserved byte 7 is 1"},
		"pre-grants, half a header":   {s.Parse, preGrants[:7], "at least 8"},
		"pre-grants, half a grant":    {s.Parse, preGrants[:20], "for 2 slots from slot 240 on, in 20 bytes"},
		"pre-grants, another version": {s.Parse, change(preGrants, 1, 3), "version 3"},
		"pre-grants, none":            {s.Parse, change(preGrants[:8], 2, 0), "for 0 slots"},
		"pre-grants, too many":        {s.Parse, change(preGrants, 2, 121), "for 121 slots"},
		"quiesced, nothing":           {parseQuiesced, nil, "0 bytes"},
		"quiesced, a byte more":       {parseQuiesced, append(bytes.Clone(quiesced), 0), "9 bytes, not 8"},
		"quiesced, another kind":      {parseQuiesced, change(quiesced, 0, 4), "kind 4, not 7"},
		"quiesced, reserved set":      {parseQuiesced, change(quiesced, 3, 1), "reserved byte 3"},
		"quiesced, of none":           {parseQuiesced, change(quiesced, 4, 0), "exclusion 0"},
		"pre-grants, slots wrap": {s.Parse, []byte{5, 1, 1, 0, 255, 255, 255, 255, 1, 0, 0, 0, 1, 0, 0, 0},
			"from slot 4294967295"},
	} {
		if err := tc.parse(tc.b); !errors.Is(err, ErrBadMessage) || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v, it should say %q", name, err, tc.says)
		}
	}
}

func TestLargestMessageFitsASignal(t *testing.T) {
	a := Announce{StreamCount: MaxEntries, Entries: make([]Entry, MaxEntries)}
	b := a.Append(nil)
	if len(b) > maxSignalSize || len(b)+announceEntrySize <= maxSignalSize {
		t.Errorf("%d entries make %d bytes of the %d of a signal", MaxEntries, len(b), maxSignalSize)
	}
	if err := a.Parse(b); err != nil {
		t.Error(err)
	}
	s := PreGrants{Refs: make([]Ref, MaxPreGrants)}
	if b = s.Append(b[:0]); len(b) > maxSignalSize {
		t.Errorf("%d pre-grants make %d bytes", MaxPreGrants, len(b))
	}
}

func TestNoAllocations(t *testing.T) {
	a := Announce{StreamCount: 4, Entries: make([]Entry, 4)}
	g := Grant{Length: 1}
	b := make([]byte, 0, maxSignalSize)
	if n := testing.AllocsPerRun(100, func() {
		b = a.Append(b[:0])
		err := a.Parse(b)
		b = g.Append(b[:0])
		if err = errors.Join(err, g.Parse(b)); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzParse(f *testing.F) {
	for _, b := range golden(f) {
		f.Add(b)
	}
	f.Add([]byte{2})
	f.Fuzz(func(t *testing.T, b []byte) {
		var a Announce
		if err := a.Parse(b); err != nil && !errors.Is(err, ErrBadMessage) {
			t.Errorf("untyped error %v", err)
		} else if err == nil && !bytes.Equal(a.Append(nil), b) {
			t.Errorf("%x is encoded again as %x", b, a.Append(nil))
		}
		var g Grant
		if err := g.Parse(b); err != nil && !errors.Is(err, ErrBadMessage) {
			t.Errorf("untyped error %v", err)
		} else if err == nil && !bytes.Equal(g.Append(nil), b) {
			t.Errorf("%x is encoded again as %x", b, g.Append(nil))
		}
		var s PreGrants
		if err := s.Parse(b); err != nil && !errors.Is(err, ErrBadMessage) {
			t.Errorf("untyped error %v", err)
		} else if err == nil && !bytes.Equal(s.Append(nil), b) {
			t.Errorf("%x is encoded again as %x", b, s.Append(nil))
		}
		var tagBuf [MaxTagWords]uint64
		if words, err := ParseTag(&tagBuf, b); err != nil && !errors.Is(err, ErrBadMessage) {
			t.Errorf("untyped error %v", err)
		} else if err == nil && !bytes.Equal(AppendTag(nil, words), b) {
			t.Errorf("%x is encoded again as %x", b, AppendTag(nil, words))
		}
		if n, err := ParseQuiesced(b); err != nil && !errors.Is(err, ErrBadMessage) {
			t.Errorf("untyped error %v", err)
		} else if err == nil && !bytes.Equal(AppendQuiesced(nil, n), b) {
			t.Errorf("%x is encoded again as %x", b, AppendQuiesced(nil, n))
		}
		if err := ParseWindowRequest(b); err != nil && !errors.Is(err, ErrBadMessage) {
			t.Errorf("untyped error %v", err)
		} else if err == nil && !bytes.Equal(AppendWindowRequest(nil), b) {
			t.Errorf("%x is encoded again as %x", b, AppendWindowRequest(nil))
		}
	})
}
