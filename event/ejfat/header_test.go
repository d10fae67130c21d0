package ejfat

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// packet is bytes in hex, blanks between.
func packet(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Packets written by hand from the definition of the headers: a segment of 3 bytes at 5 of a buffer of 8, data id
// 0x0102, event 0x1122334455667788.
const (
	goldenSegment  = "1000 0102 00000005 00000008 1122334455667788 616263"
	goldenBalancer = "4C42 02 01 0000 BEEF 1122334455667788"
	goldenTick     = "4C42 02 01 0000 BEEF 000644A1B2C3D4E5" // its number is a time, as E2SAR sends it unless told
	goldenSync     = "4C43 01 00 00000007 1122334455667788 000003E8 17B1C2D3E4F50617"
)

func TestGoldenPackets(t *testing.T) {
	want := Segment{
		DataID: 0x0102,
		Offset: 5,
		Length: 8,
		Event:  0x1122334455667788,
		Data:   []byte("abc"),
	}
	for _, text := range []string{goldenSegment, goldenBalancer + goldenSegment, goldenTick + goldenSegment} {
		got, err := ParseSegment(packet(t, text))
		if err != nil || !cmp.Equal(got, want) {
			t.Errorf("%s: %v, %s", text, err, cmp.Diff(want, got))
		}
	}
	made := AppendSegment(AppendBalancer(nil, want.Event, 0xBEEF), want)
	if !bytes.Equal(made, packet(t, goldenBalancer+goldenSegment)) {
		t.Errorf("made % x", made)
	}
	sync := Sync{
		Source: 7,
		Event:  0x1122334455667788,
		Rate:   1000,
		Time:   0x17B1C2D3E4F50617,
	}
	if made := AppendSync(nil, sync); !bytes.Equal(made, packet(t, goldenSync)) || !IsSync(made) {
		t.Errorf("made % x", made)
	}
	if got, err := ParseSync(packet(t, goldenSync)); err != nil || got != sync {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestRefused(t *testing.T) {
	for text, want := range map[string]error{
		"":             errTruncated,
		"10":           errTruncated,
		"4C42 02":      errTruncated,
		goldenBalancer: errTruncated,
		goldenSync:     errVersion,
		"4C42 04 01 0000 BEEF 1122334455667788" + goldenSegment: errVersion,
		"4C42 02 02 0000 BEEF 1122334455667788" + goldenSegment: errVersion,
		"2000 0102 00000005 00000008 1122334455667788 616263":   errDraft,
		"3000 0102 00000005 00000008 1122334455667788 616263":   errVersion,
		"1000 0102 00000006 00000008 1122334455667788 616263":   errSize,
		"1000 0102 00000009 00000008 1122334455667788":          errSize,
		"1000 0102 00000005 00000008 1122334455667788":          errSize,
		"1000 0102 FFFFFFFF 00000008 1122334455667788 61":       errSize,
	} {
		_, err := ParseSegment(packet(t, text))
		var typed *packetError
		if !errors.Is(err, want) || !errors.As(err, &typed) {
			t.Errorf("%q: %v, want %v", text, err, want)
		}
	}
	for text, want := range map[string]error{
		"4C43":                     errTruncated,
		goldenSync + "00":          errTruncated,
		"4C42" + goldenSync[4:]:    errMagic,
		"4C43 02" + goldenSync[7:]: errVersion,
	} {
		if _, err := ParseSync(packet(t, text)); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", text, err, want)
		}
	}
}

func TestThereAndBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.SliceOfN(rapid.Byte(), 1, 100).Draw(t, "data")
		offset := rapid.Uint32Range(0, 1<<30).Draw(t, "offset")
		want := Segment{
			DataID: rapid.Uint16().Draw(t, "id"),
			Offset: offset,
			Length: offset + uint32(len(data)) + rapid.Uint32Range(0, 1<<30).Draw(t, "rest"),
			Event:  rapid.Uint64().Draw(t, "event"),
			Data:   data,
		}
		got, err := ParseSegment(AppendSegment(AppendBalancer(nil, want.Event, 1), want))
		if err != nil || !cmp.Equal(got, want) {
			t.Fatalf("%v: %s", err, cmp.Diff(want, got))
		}
	})
}

func FuzzParseSegment(f *testing.F) {
	f.Add(packet(f, goldenSegment))
	f.Add(packet(f, goldenBalancer+goldenSegment))
	f.Add(packet(f, goldenSync))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := ParseSegment(b)
		if err != nil {
			var typed *packetError
			if !errors.As(err, &typed) || typed.Error() == "" {
				t.Fatalf("untyped: %v", err)
			}
			return
		}
		if uint64(s.Offset)+uint64(len(s.Data)) > uint64(s.Length) {
			t.Fatalf("%d bytes at %d of %d", len(s.Data), s.Offset, s.Length)
		}
		if _, err := ParseSync(b); err == nil {
			t.Fatal("a segment and a synchronisation message")
		}
	})
}

func BenchmarkParseSegment(b *testing.B) {
	p := packet(b, goldenBalancer+goldenSegment)
	sum := 0
	for b.Loop() {
		s, err := ParseSegment(p)
		if err != nil {
			b.Fatal(err)
		}
		sum += len(s.Data)
	}
	if sum == 0 {
		b.Fatal("nothing was read")
	}
}
