package recording

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"ringlet/testkit/must"
)

// readInOrder is all recorded MEPs from one on, with their data copied.
func readInOrder(t testing.TB, c *Contents, from uint64) (parts []RecordedMEP) {
	t.Helper()
	must.OK(t, c.EachInOrder(context.Background(), from, func(p *RecordedMEP) error {
		kept := *p
		kept.Data = bytes.Clone(p.Data)
		parts = append(parts, kept)
		return nil
	}))
	return parts
}

func TestInOrderIsWhatMergeMakes(t *testing.T) {
	for _, f := range []Format{FormatMEP, FormatMDF, FormatMFP} {
		r := newRig(t, must.MemoryDir(t), f)
		r.scattered(rand.New(rand.NewPCG(1, 2)), 3, 300)
		c := read(t, r.done())
		for _, from := range []uint64{0, 1, 150, 299, 300} {
			var got []byte
			for _, p := range readInOrder(t, c, from) {
				if p.Err != nil || p.Unproven || p.Format != f {
					t.Fatalf("%s, MEP %d: %v, unproved: %t", f, p.MEP, p.Err, p.Unproven)
				}
				got = append(got, p.Data...)
			}
			if want := inEventOrder(t, f, upTo(300)[from:]...); !bytes.Equal(got, want) {
				t.Errorf("%s from MEP %d: %d bytes, want %d, or others", f, from, len(got), len(want))
			}
		}
	}
}

// A MEP with changed bytes is named and has no data. The one behind a spoiled entry has data that nothing proves. All
// others are as they were.
func TestInOrderOfADamagedRun(t *testing.T) {
	r := newRig(t, t.TempDir(), FormatMEP)
	id := r.closed(0, mep(0, 1), mep(1, 1), mep(2, 1), mep(3, 1))
	r.closed(1, mep(4, 1), mep(5, 1))
	dir := r.done()
	patch(t, filepath.Join(dir, id.Name()), flip(3))
	patch(t, filepath.Join(dir, id.Index()), flip(HeaderBytes+EntryBytes))
	c := read(t, dir)
	var problem *Problem
	for _, p := range readInOrder(t, c, 0) {
		want := mepBytes(t, FormatMEP, p.MEP, rigPacking)
		switch {
		case p.MEP == 0 && (!errors.As(p.Err, &problem) || problem.Kind != DamagedData || p.Data != nil):
			t.Errorf("MEP 0: got %v, want damaged data", p.Err)
		case p.MEP == 1:
			t.Error("the entry of MEP 1 is spoiled, and it was given")
		case p.MEP > 1 && (p.Err != nil || !bytes.Equal(p.Data, want) || p.Unproven != (p.MEP == 2)):
			t.Errorf("MEP %d: %v, unproved: %t, or other bytes", p.MEP, p.Err, p.Unproven)
		}
	}
	if !c.allSegments()[0].Problems.contains(DamagedIndex) {
		t.Error("Read does not name the spoiled entry")
	}
}

// What a killed writer left is read as far as its index reaches, and a segment without data or index is left out.
func TestInOrderOfARunThatWasLeft(t *testing.T) {
	r := newRig(t, t.TempDir(), FormatMEP)
	r.closed(0, mep(0, 1), mep(2, 1))
	gone := r.closed(1, mep(1, 1))
	id := SegmentID{Builder: 2, Number: 1, Format: FormatMEP}
	data, index, entries := r.segment(id, mep(3, 1), mep(4, 1))
	r.file(id.Name()+OpenSuffix, data[:entries[1].Offset+5])
	r.file(id.Index(), index)
	dir := r.done()
	must.OK(t, os.Remove(filepath.Join(dir, gone.Name())))
	var meps []uint64
	for _, p := range readInOrder(t, read(t, dir), 0) {
		must.OK(t, p.Err)
		meps = append(meps, p.MEP)
	}
	if len(meps) != 3 || meps[0] != 0 || meps[1] != 2 || meps[2] != 3 {
		t.Errorf("got the MEPs %d", meps)
	}
}

func TestInOrderEndsWithTheVisitor(t *testing.T) {
	r := newRig(t, t.TempDir(), FormatMEP)
	r.closed(0, mep(0, 1), mep(1, 1))
	c := read(t, r.done())
	want, n := errors.New("enough"), 0
	err := c.EachInOrder(context.Background(), 0, func(*RecordedMEP) error { n++; return want })
	if !errors.Is(err, want) || n != 1 {
		t.Errorf("got %v after %d", err, n)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := c.EachInOrder(ctx, 0, func(*RecordedMEP) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v after cancelling", err)
	}
}
