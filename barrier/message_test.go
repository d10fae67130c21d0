package barrier

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"strings"
	"testing"
)

// goldenMessages are the messages of testdata/messages.golden by name.
var goldenMessages = map[string]Message{
	"arrive": {Kind: kindArrive, From: 3, To: 2, Epoch: 7, Lag: Lag{LastRank: 3, AfterSecondLast: unknownLag,
		MinOffer: 5}},
	"release": {Kind: kindRelease, From: 0, To: 4, Epoch: 0x0123456789abcdef,
		Lag: Lag{
			LastRank:        0x1234,
			AfterSecondLast: 1500,
			AfterFirst:      70000,
			MinOffer:        unknownLag,
		}},
	"query":        {Kind: kindQuery, From: 1, To: 0, Origin: 1, Epoch: 1<<32 - 1},
	"query path":   {Kind: kindQuery, From: 4, To: 0, Origin: 1, Epoch: 9, Path: 6},
	"reply sent":   {Kind: kindReply, From: 0, To: 4, Origin: 1, Epoch: 9, Rank: 0, Status: statusSent, Path: 0x8002},
	"reply absent": {Kind: kindReply, From: 2, To: 0, Origin: 1, Epoch: 9, Rank: 2, Status: statusAbsent},
	"reply waiting": {Kind: kindReply, From: 65534, To: 65535, Origin: 0x1234, Epoch: 256, Rank: 65534, WaitsFor: 65532,
		Status: statusWaiting},
	"reply left": {Kind: kindReply, From: 0, To: 3, Origin: 3, Epoch: 5, Rank: 0, Status: statusReleased},
}

// golden reads the bytes of each named message.
func golden(t testing.TB) map[string][]byte {
	t.Helper()
	text, err := os.ReadFile("testdata/messages.golden")
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string][]byte)
	name := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		switch {
		case line == "" || line[0] == '#':
		case line[0] != ' ':
			name = line
		default:
			b, err := hex.DecodeString(strings.ReplaceAll(line, " ", ""))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			found[name] = b
		}
	}
	return found
}

func TestGoldenMessages(t *testing.T) {
	files := golden(t)
	if len(files) != len(goldenMessages) {
		t.Fatalf("%d messages in the golden file, %d expected", len(files), len(goldenMessages))
	}
	for name, m := range goldenMessages {
		if got := wireOf(m); !bytes.Equal(got, files[name]) {
			t.Errorf("%s:\n got %x\nwant %x", name, got, files[name])
		}
		back, err := parseMessage(files[name])
		if err != nil || back != m {
			t.Errorf("%s reads back as %+v, %v", name, back, err)
		}
	}
}

func TestParseMessageRefuses(t *testing.T) {
	valid := golden(t)
	with := func(name string, off int, b byte) []byte {
		c := bytes.Clone(valid[name])
		c[off] = b
		return c
	}
	for _, c := range []struct {
		name string
		b    []byte
		want string
	}{
		{"nothing", nil, "is 0 bytes long, it must be 28"},
		{"too short", valid["arrive"][:23], "is 23 bytes long"},
		{"too long", append(bytes.Clone(valid["arrive"]), 0), "is 29 bytes long"},
		{"version 5", with("arrive", 0, 5), "has version 5"},
		{"version 1", with("arrive", 0, 1), "has version 1, this node speaks version 4"},
		{"kind 0", with("arrive", 1, 0), "has unknown kind 0"},
		{"kind 5", with("arrive", 1, 5), "has unknown kind 5"},
		{"query with waits", with("query", 18, 1), "of kind query carries fields of a reply"},
		{"query with standing", with("query", 20, 1), "of kind query carries fields of a reply"},
		{"reply without standing", with("reply left", 20, 0), "has unknown standing 0"},
		{"reply of standing 5", with("reply left", 20, 5), "has unknown standing 5"},
		{"absent that waits", with("reply absent", 18, 1), "is absent but names a rank it waits for"},
		{"reserved", with("query", 21, 1), "reserved"},
	} {
		_, err := parseMessage(c.b)
		var format *formatError
		if !errors.As(err, &format) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func FuzzParseMessage(f *testing.F) {
	for _, b := range golden(f) {
		f.Add(b)
		f.Add(b[:len(b)-1])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parseMessage(b)
		if err != nil {
			var format *formatError
			if !errors.As(err, &format) {
				t.Fatalf("%T: %v", err, err)
			}
			return
		}
		if again := wireOf(m); !bytes.Equal(again, b) {
			t.Fatalf("%x re-encodes as %x", b, again)
		}
		_ = m.String()
	})
}

// FuzzReceive feeds a core whatever parses, before and after it enters: it never
// panics, and never leaves an epoch that it has not entered.
func FuzzReceive(f *testing.F) {
	for _, b := range golden(f) {
		f.Add(uint8(2), uint8(5), uint8(2), b)
		f.Add(uint8(3), uint8(5), uint8(4), b)
	}
	f.Fuzz(func(t *testing.T, kind, n, rank uint8, b []byte) {
		c, err := NewCore(Kind(kind), int(n), int(rank))
		if err != nil {
			return
		}
		var a Actions
		feed := func() {
			for rest := b; len(rest) >= MessageSize; rest = rest[MessageSize:] {
				if m, err := parseMessage(rest[:MessageSize]); err == nil {
					_ = c.Receive(m, 0, &a)
				}
			}
		}
		feed()
		if a.Released || c.currentEpoch() != 0 {
			t.Fatal("left an epoch that was never entered")
		}
		if err := c.enter(0, 0, &a); err != nil {
			t.Fatal(err)
		}
		c.startInquiry(&a)
		feed()
		if c.currentEpoch() > 1 {
			t.Fatal("left an epoch that was never entered")
		}
	})
}

// wireOf is a message as it travels.
func wireOf(m Message) []byte {
	b := make([]byte, MessageSize)
	putMessage(b, m)
	return b
}
