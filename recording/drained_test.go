package recording

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ringlet/testkit/must"
)

// drainedRig is a run of two builder units with some segments, in order.
func drainedRig(t *testing.T) (*rig, string) {
	t.Helper()
	r := newRig(t, must.MemoryDir(t), FormatMEP)
	r.closed(0, mep(0, 1), mep(2, 1))
	r.closed(0, mep(4, 1))
	r.closed(1, mep(1, 1), mep(3, 1), mep(2, 2))
	r.verdict(20, 20)
	return r, r.done()
}

// drain puts a segment into the ledger, and removes its files.
func drain(t *testing.T, l *Ledger, s Segment, meps ...Entry) {
	t.Helper()
	set := NewMEPSet(rigPacking)
	for _, e := range meps {
		set.Add(e)
	}
	must.OK(t, l.AppendSegment(DrainedSegment{
		Segment:   s.Name,
		CRC:       s.CRC,
		MEPs:      s.MEPs,
		Decisions: Decisions{Accepted: 1, Rejected: s.Events - 1},
	}, set))
	must.OK(t, l.RemoveSegmentFiles(s))
}

// TestDrainedSegmentsCount holds that a reader finds the MEPs of segments that were drained and removed, and that such
// a run cannot be merged.
func TestDrainedSegmentsCount(t *testing.T) {
	r, dir := drainedRig(t)
	before := read(t, dir)
	l := NewLedger(dir, r.m)
	must.OK(t, l.Open())
	must.OK(t, l.SetDestinations([]Destination{{"id", "path"}}))
	drain(t, l, r.m.Builders[0].Segments[0], mep(0, 1), mep(2, 1))
	drain(t, l, r.m.Builders[1].Segments[0], mep(1, 1), mep(3, 1), mep(2, 2))
	must.OK(t, l.Close())

	c := read(t, dir)
	if c.ProblemCount() > 0 || c.Events() != before.Events() || c.Superseded != before.Superseded || len(c.Copies) != 1 ||
		c.DrainedDecisions == nil || c.DrainedDecisions.Accepted != 2 {
		t.Errorf("%+v", c)
	}
	for _, quick := range []bool{true, false} {
		v := verified(t, dir, VerifyOptions{IndexesOnly: quick})
		if !v.IsGood || v.EventsFound != 20 {
			t.Error(said(v))
		}
	}
	if _, err := Merge(context.Background(), dir, filepath.Join(t.TempDir(), "x.mep"), MergeOptions{}); err == nil ||
		!strings.Contains(err.Error(), "backlog") {
		t.Error(err)
	}
	if found, err := Recover(context.Background(), dir); err != nil || len(found) > 0 {
		t.Error(found, err)
	}

	// An index alone is what a removal left that was killed in its middle.
	r.file(SegmentID{Builder: 0, Number: 1}.Index(), nil)
	if c := read(t, dir); c.ProblemCount() > 0 || c.Events() != before.Events() {
		t.Errorf("%+v", c)
	}
	// A segment that is in no ledger is missing.
	must.OK(t, os.Remove(filepath.Join(dir, r.m.Builders[0].Segments[1].Name)))
	if c := read(t, dir); c.ProblemCount() != 1 || c.Events() != before.Events()-rigPacking {
		t.Errorf("%+v", c)
	}
}

// TestSegmentsThatAreDrainedWhileTheyAreVerified holds that a segment which goes between the look at the indexes and
// the reading of the data is no problem.
func TestSegmentsThatAreDrainedWhileTheyAreVerified(t *testing.T) {
	r, dir := drainedRig(t)
	l := NewLedger(dir, r.m)
	must.OK(t, l.Open())
	defer l.Close()
	v := verified(t, dir, VerifyOptions{Content: func(*Manifest) (Content, error) {
		drain(t, l, r.m.Builders[0].Segments[0], mep(0, 1), mep(2, 1))
		drain(t, l, r.m.Builders[1].Segments[0], mep(1, 1), mep(3, 1), mep(2, 2))
		return anything{}, nil
	}})
	if !v.IsGood || v.EventsFound != 20 || v.Superseded != 1 || v.DrainedDecisions == nil ||
		v.DrainedDecisions.Accepted != 2 {
		t.Error(said(v))
	}
}

// anything is content that is always right.
type anything struct{}

func (anything) Check(Format, *Entry, []byte) error { return nil }
func (anything) Close() error                       { return nil }

// TestLedgerAfterKills holds that of a ledger every whole line counts, and nothing else, wherever it was cut off.
func TestLedgerAfterKills(t *testing.T) {
	r, dir := drainedRig(t)
	l := NewLedger(dir, r.m)
	must.OK(t, l.Open())
	must.OK(t, l.SetDestinations([]Destination{{"id", "path"}}))
	begun := l.endOffset
	drain(t, l, r.m.Builders[0].Segments[0], mep(0, 1), mep(2, 1))
	one := l.endOffset
	drain(t, l, r.m.Builders[0].Segments[1], mep(4, 1))
	must.OK(t, l.Close())
	path := filepath.Join(dir, drainedName)
	whole, err := os.ReadFile(path)
	must.OK(t, err)
	for n := range len(whole) + 1 {
		must.OK(t, os.WriteFile(path, whole[:n], 0o600))
		reader := NewLedger(dir, r.m)
		must.OK(t, reader.Refresh())
		must.OK(t, l.reopen(t))
		if l.CutOffFile() != "" {
			must.OK(t, os.Remove(l.CutOffFile()))
		}
		want := 0
		if int64(n) >= one {
			want++
		}
		if n == len(whole) {
			want++
		}
		if len(l.segments) != want || len(reader.segments) != want || (l.destinations != nil) != (int64(n) >= begun) {
			t.Fatalf("%d of %d bytes: %d segments, a reader finds %d", n, len(whole), len(l.segments), len(reader.segments))
		}
		if want < 2 { // it goes on
			must.OK(t, l.AppendSegment(DrainedSegment{Segment: r.m.Builders[0].Segments[1].Name}, NewMEPSet(rigPacking)))
			must.OK(t, reader.Refresh())
			if !reader.HasName(r.m.Builders[0].Segments[1].Name) {
				t.Fatalf("%d bytes: what came behind is not read", n)
			}
		}
		must.OK(t, l.Close())
	}

	// What was cut off is kept: also a last line that was whole and was changed since.
	for _, at := range []int64{one + 1, one + 30, int64(len(whole)) - 3} {
		spoiled := append([]byte(nil), whole...)
		spoiled[at] ^= 0x11
		must.OK(t, os.WriteFile(path, spoiled, 0o600))
		must.OK(t, l.reopen(t))
		kept, err := os.ReadFile(l.CutOffFile())
		if err != nil || string(kept) != string(spoiled[one:]) {
			t.Errorf("changed at %d: %q is kept in %q, %v", at, kept, l.CutOffFile(), err)
		}
		must.OK(t, l.Close())
	}

	// A line in the middle that was changed is damage, and said.
	for _, at := range []int64{0, 3, 20, begun + 30} {
		spoiled := append([]byte(nil), whole...)
		spoiled[at] ^= 0x11
		must.OK(t, os.WriteFile(path, spoiled, 0o600))
		if err := l.reopen(t); err == nil || !strings.Contains(err.Error(), "damaged at byte") {
			t.Errorf("byte %d: %v", at, err)
		}
	}
}

// reopen makes l another one on the same file, which it opens.
func (l *Ledger) reopen(t *testing.T) error {
	t.Helper()
	*l = *NewLedger(l.dir, l.manifest)
	return l.Open()
}

// TestLedgerHasOneOwner holds that two processes do not drain one backlog, and that nothing is removed that is not
// drained whole.
func TestLedgerHasOneOwner(t *testing.T) {
	r, dir := drainedRig(t)
	a, b := NewLedger(dir, r.m), NewLedger(dir, r.m)
	must.OK(t, a.Open())
	var busy *DrainingError
	if err := b.Open(); !errors.As(err, &busy) {
		t.Error(err)
	}
	s := r.m.Builders[0].Segments[0]
	if err := a.RemoveSegmentFiles(s); err == nil {
		t.Error("a segment is removed that was not drained")
	}
	damaged := DrainedSegment{Segment: s.Name, CRC: s.CRC, MEPs: s.MEPs, Decisions: Decisions{Damaged: 1}}
	must.OK(t, a.AppendSegment(damaged, NewMEPSet(rigPacking)))
	if err := a.RemoveSegmentFiles(s); err == nil {
		t.Error("a segment with damage is removed")
	}
	about := aboutRun(rigRun, Key{9})
	var exists *ExistsError
	if _, err := OpenRun(filepath.Dir(dir), about, true); !errors.As(err, &exists) || !exists.IsBeingWritten {
		t.Errorf("a backlog is overwritten under the hand of its filter: %v", err)
	}
	must.OK(t, a.Close())
	must.OK(t, b.Open())
	must.OK(t, b.Close())
	if _, err := OpenRun(filepath.Dir(dir), about, true); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, drainedName)); err == nil {
		t.Error("the ledger of the run that was overwritten speaks of the new one")
	}
}

// TestEachMEPNamesDamage holds that each MEP of a segment is given as it was written, or with what is wrong.
func TestEachMEPNamesDamage(t *testing.T) {
	r, dir := drainedRig(t)
	s := r.m.Builders[1].Segments[0]
	each := func() (good, bad int, err error) {
		err = EachMEP(context.Background(), dir, r.m, s, func(p *RecordedMEP) error {
			if p.Err != nil {
				bad++
			} else if string(p.Data) == string(mepBytes(t, FormatMEP, p.MEP, int(p.Events))) {
				good++
			}
			return nil
		})
		return good, bad, err
	}
	if good, bad, err := each(); good != 3 || bad != 0 || err != nil {
		t.Error(good, bad, err)
	}
	data := filepath.Join(dir, s.Name)
	patch(t, data, flip(int(s.Bytes/2)))
	if good, bad, err := each(); good != 2 || bad != 1 || err != nil {
		t.Error(good, bad, err)
	}
	patch(t, data, flip(int(s.Bytes/2)))
	index := filepath.Join(dir, "bu1-00001.idx")
	var wrong *Problem
	for _, change := range []func([]byte) []byte{
		flip(HeaderBytes + 3),
		func(b []byte) []byte { return b[:len(b)-EntryBytes] },
		func(b []byte) []byte { return append(b, b[HeaderBytes:]...) },
	} {
		before, err := os.ReadFile(index)
		must.OK(t, err)
		patch(t, index, change)
		if _, _, err := each(); !errors.As(err, &wrong) {
			t.Error(err)
		}
		must.OK(t, os.WriteFile(index, before, 0o600))
	}
}

// TestOtherBytesOfADrainedNameAreKept holds that a segment is not drained, and not removed, when another one of its
// name was.
func TestOtherBytesOfADrainedNameAreKept(t *testing.T) {
	r, dir := drainedRig(t)
	l := NewLedger(dir, r.m)
	must.OK(t, l.Open())
	defer l.Close()
	was := r.m.Builders[0].Segments[0]
	must.OK(t, l.AppendSegment(DrainedSegment{Segment: was.Name, CRC: "00000000", MEPs: was.MEPs}, NewMEPSet(rigPacking)))
	if _, ok := l.Lookup(was); ok {
		t.Error("other bytes count as drained")
	}
	if err := l.RemoveSegmentFiles(was); err == nil {
		t.Error("a segment was removed that nobody has drained")
	}
	if _, err := os.Stat(filepath.Join(dir, was.Name)); err != nil {
		t.Error(err)
	}
}
