package velo

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"ringlet/event"
)

// Fragments written by hand from docs/format/velo.md.
const (
	goldenThree = "3412 03 07 " + // event 0x1234, three clusters, board 7
		"0500 0A08 FF07 0000 " + // strip 5; strips 10 and 11; strip 2047; padding
		"E1 00 4529" // marker, none lost, 0x1234 + 0x0703 + 0x0005 + 0x080A + 0x07FF
	goldenEmpty = "FFFF 00 63 E1 00 FF62"
)

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestGoldenBoard(t *testing.T) {
	golden := unhex(t, goldenThree)
	b, err := ParseBoard(golden)
	if err != nil {
		t.Fatal(err)
	}
	if b.Event() != 0x1234 || b.Number() != 7 || b.NumClusters() != 3 || b.LostClusters() != 0 {
		t.Fatalf("event %#x, board %d, %d clusters, %d lost", b.Event(), b.Number(), b.NumClusters(), b.LostClusters())
	}
	want := []Cluster{NewCluster(5, false), NewCluster(10, true), NewCluster(2047, false)}
	for i, c := range b.Clusters() {
		if c != want[i] || c.Size() != 1+i%2 || c.HasTwoStrips() != (i == 1) {
			t.Errorf("cluster %d is %#x: strip %d, size %d", i, uint16(c), c.Strip(), c.Size())
		}
	}
	dst := bytes.Repeat([]byte{0xEE}, MaxBoardSize)
	if n := PutBoard(dst, 0x1234, 7, want, 0); !bytes.Equal(dst[:n], golden) || dst[n] != 0xEE {
		t.Errorf("% x, want % x", dst[:n], golden)
	}
	if n := PutBoard(dst, 0xFFFF, 99, nil, 0); !bytes.Equal(dst[:n], unhex(t, goldenEmpty)) {
		t.Errorf("% x", dst[:n])
	}
}

// TestOverflow: a board that has more clusters than fit says how many it left out, as far as eight bits say it.
func TestOverflow(t *testing.T) {
	var many []Cluster
	for i := range 600 {
		many = append(many, NewCluster(3*i, i%2 == 0))
	}
	dst := make([]byte, MaxBoardSize)
	for _, c := range []struct{ have, before, lost int }{
		{127, 0, 0}, {128, 0, 1}, {130, 4, 7}, {382, 0, 255}, {600, 0, 255},
	} {
		n := PutBoard(dst, 9, 3, many[:c.have], c.before)
		b, err := ParseBoard(dst[:n])
		if err != nil || b.NumClusters() != MaxClusters || b.LostClusters() != c.lost || n != MaxBoardSize {
			t.Errorf("%d clusters: %v, %d lost, %d bytes", c.have, err, b.LostClusters(), n)
		}
	}
}

func TestSetEvent(t *testing.T) {
	a, b := make([]byte, MaxBoardSize), make([]byte, MaxBoardSize)
	clusters := []Cluster{NewCluster(1, true), NewCluster(2046, true)}
	for _, id := range []uint16{0, 1, 0x7FFF, 0xFFFF} {
		n := PutBoard(a, 0xABCD, 12, clusters, 0)
		SetEvent(a[:n], id)
		if m := PutBoard(b, id, 12, clusters, 0); !bytes.Equal(a[:n], b[:m]) {
			t.Errorf("event %d: % x, want % x", id, a[:n], b[:m])
		}
	}
}

func TestRefusedBoards(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(b []byte) []byte
		kind   error
	}{
		{"too short", func(b []byte) []byte { return b[:7] }, event.ErrTruncated},
		{"cut", func(b []byte) []byte { return b[:12] }, event.ErrTruncated},
		{"longer", func(b []byte) []byte { return append(b, 0, 0, 0, 0) }, event.ErrSize},
		{"fewer clusters", func(b []byte) []byte { b[2] = 1; return b }, event.ErrSize},
		{"no marker", func(b []byte) []byte { b[12] = 0xE2; return b }, event.ErrMagic},
		{"lost without the bit", func(b []byte) []byte { b[13] = 1; return b }, event.ErrSize},
		{"the bit without lost", func(b []byte) []byte { b[2] |= 0x80; return b }, event.ErrSize},
		{"a bit that must be zero", func(b []byte) []byte { b[5] |= 0x10; return b }, event.ErrRange},
		{"beyond the last strip", func(b []byte) []byte { b[9] |= 0x08; return b }, event.ErrRange},
		{"order", func(b []byte) []byte { b[4], b[6] = 11, 10; return b }, event.ErrOrder},
		{"shared strip", func(b []byte) []byte { b[8], b[9] = 11, 0; return b }, event.ErrOrder},
		{"another event", func(b []byte) []byte { b[0]++; return b }, event.ErrChecksum},
	} {
		_, err := ParseBoard(c.change(unhex(t, goldenThree)))
		var fe *event.FormatError
		if !errors.As(err, &fe) || !errors.Is(err, c.kind) || fe.Format != "velo board" {
			t.Errorf("%s: %v, want %v", c.name, err, c.kind)
		}
	}
}

func TestParseAllocatesNothing(t *testing.T) {
	dst := make([]byte, MaxBoardSize)
	clusters := []Cluster{NewCluster(1, true), NewCluster(7, false), NewCluster(90, false)}
	sum := 0
	if a := testing.AllocsPerRun(100, func() {
		n := PutBoard(dst, 5, 3, clusters, 0)
		SetEvent(dst[:n], 6)
		b, err := ParseBoard(dst[:n])
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range b.Clusters() {
			sum += c.Strip()
		}
	}); a != 0 {
		t.Errorf("%g allocations", a)
	}
}

// FuzzParseBoard: no panic; what is accepted, written anew from the values read, is the input again, padding aside.
func FuzzParseBoard(f *testing.F) {
	f.Add(unhex(f, goldenThree))
	f.Add(unhex(f, goldenEmpty))
	full := make([]byte, MaxBoardSize)
	var many []Cluster
	for i := range 200 {
		many = append(many, NewCluster(4*i, true))
	}
	f.Add(full[:PutBoard(full, 77, 255, many, 0)])
	f.Fuzz(func(t *testing.T, in []byte) {
		b, err := ParseBoard(in)
		if err != nil {
			return
		}
		var clusters []Cluster
		for _, c := range b.Clusters() {
			clusters = append(clusters, c)
		}
		dst := make([]byte, MaxBoardSize)
		n := PutBoard(dst, b.Event(), b.Number(), clusters, b.LostClusters())
		want := bytes.Clone(in)
		if len(clusters)%2 == 1 {
			clear(want[len(want)-6 : len(want)-4])
		}
		if !bytes.Equal(dst[:n], want) {
			t.Fatalf("% x was written, % x read", dst[:n], want)
		}
	})
}

func BenchmarkParseBoard(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	dst := make([]byte, MaxBoardSize)
	var clusters []Cluster
	for i := range 18 {
		clusters = append(clusters, NewCluster(100*i+r.IntN(90), r.IntN(2) == 0))
	}
	n := PutBoard(dst, 1, 2, clusters, 0)
	for b.Loop() {
		if _, err := ParseBoard(dst[:n]); err != nil {
			b.Fatal(err)
		}
	}
}
