package eudaq

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"ringlet/event"
)

// An event with two sub-events, written by hand from Event::Serialize: each field in its order, integers little-endian,
// strings, maps and vectors behind their length.
const (
	goldenTop = "6D652680 02000000 10000000 00000000 2A000000 07000000 09000000 00000000 " +
		"0000000000000000 0000000000000000 " + // type, version, flags, stream, run, event, trigger, extend, times
		"02000000 5463 " + // description "Tc"
		"00000000 00000000 02000000" // no tags, no blocks, two sub-events
	goldenTLU = "6D652680 02000000 30000000 01000000 2A000000 07000000 09000000 00000000 " +
		"0102030405060708 1112131415161718 " +
		"08000000 546C755261774576 " + // "TluRawEv"
		"01000000 01000000 50 02000000 3132 " + // a tag: "P" is "12"
		"00000000 00000000"
	goldenNI = "6D652680 02000000 00000000 02000000 2A000000 07000000 00000000 00000000 " +
		"0000000000000000 0000000000000000 " +
		"02000000 4E49 00000000 " + // "NI"
		"02000000 00000000 03000000 AABBCC 01000000 00000000 " + // blocks: 0 of three bytes, 1 of none
		"00000000"
)

func packet(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestGoldenEvent(t *testing.T) {
	b := packet(t, goldenTop+goldenTLU+goldenNI)
	e, subs, err := Parse(append(b, 1, 2, 3), nil)
	if err != nil || !HasSignature(b) || HasSignature(b[:7]) || HasSignature(b[1:]) {
		t.Fatal(err)
	}
	if !bytes.Equal(e.Bytes, b) || string(e.Description) != "Tc" || e.Flags != 16 || e.Run != 42 || e.Number != 7 ||
		e.TriggerNumber != 9 || len(subs) != 2 {
		t.Fatalf("%+v, %d sub-events", e, len(subs))
	}
	tlu, ni := subs[0], subs[1]
	if string(tlu.Description) != "TluRawEv" || tlu.Stream != 1 || tlu.BeginTime != 0x0807060504030201 ||
		tlu.EndTime != 0x1817161514131211 || !bytes.Equal(tlu.Bytes, packet(t, goldenTLU)) {
		t.Fatalf("%+v", tlu)
	}
	if string(ni.Description) != "NI" || ni.Stream != 2 || !bytes.Equal(ni.Bytes, packet(t, goldenNI)) {
		t.Fatalf("%+v", ni)
	}
	if a := testing.AllocsPerRun(10, func() { _, subs, err = Parse(b, subs) }); a != 0 || err != nil {
		t.Errorf("%g allocations", a)
	}
}

func TestRefusedEvents(t *testing.T) {
	whole := packet(t, goldenTop+goldenTLU+goldenNI)
	for n := range whole {
		if _, _, err := Parse(whole[:n], nil); !errors.Is(err, event.ErrTruncated) {
			t.Fatalf("%d of %d bytes: %v", n, len(whole), err)
		}
	}
	deep := bytes.Repeat(packet(t, goldenTop[:len(goldenTop)-8]+"01000000"), 12)
	for name, tc := range map[string]struct {
		b    []byte
		kind error
	}{
		"class":   {append([]byte{1}, whole[1:]...), event.ErrUnsupported},
		"version": {append(bytes.Clone(whole[:4]), append([]byte{3}, whole[5:]...)...), event.ErrUnsupported},
		"deep":    {append(deep, whole...), event.ErrRange},
	} {
		if _, _, err := Parse(tc.b, nil); !errors.Is(err, tc.kind) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(packet(f, goldenTop+goldenTLU+goldenNI))
	f.Add(packet(f, goldenNI))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, subs, err := Parse(b, nil)
		var fe *event.FormatError
		if err != nil {
			if !errors.As(err, &fe) || fe.Offset < 0 || fe.Offset > int64(len(b)) {
				t.Fatal(err)
			}
			return
		}
		if !bytes.HasPrefix(b, e.Bytes) {
			t.Fatal("not the event's bytes")
		}
		for _, s := range subs {
			if again, _, err := Parse(s.Bytes, nil); err != nil || !bytes.Equal(again.Bytes, s.Bytes) {
				t.Fatal("a sub-event is no event", err)
			}
		}
	})
}
