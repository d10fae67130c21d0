package recording

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"ringlet/testkit/must"
)

func verified(t testing.TB, dir string, o VerifyOptions) *RunVerification {
	t.Helper()
	v, err := Verify(context.Background(), dir, o)
	must.OK(t, err)
	if len(v.Runs) != 1 || v.IsGood() != v.Runs[0].IsGood {
		t.Fatalf("%d runs, closed %v", len(v.Runs), v.IsGood())
	}
	if _, err := json.Marshal(v); err != nil {
		t.Fatal(err)
	}
	return &v.Runs[0]
}

func said(r *RunVerification) string {
	var b strings.Builder
	_, _ = (&Verification{Runs: []RunVerification{*r}}).WriteTo(&b)
	return b.String()
}

func TestVerifyClosesWholeRuns(t *testing.T) {
	for _, f := range []Format{FormatMEP, FormatMDF, FormatMFP} {
		for _, quick := range []bool{false, true} {
			t.Run(fmt.Sprint(f, quick), func(t *testing.T) {
				out := must.MemoryDir(t)
				r := newRig(t, out, f)
				r.scattered(rand.New(rand.NewPCG(2, 1)), 3, 300)
				r.verdict(1200, 1200)
				r.done()
				last := int64(0)
				got := verified(t, out, VerifyOptions{IndexesOnly: quick, Progress: func(_ string, done,
					total int64) {
					last = total - done
				}})
				if !got.IsGood || got.EventsFound != 1200 || got.Superseded == 0 || last != 0 {
					t.Fatalf("%d bytes unread\n%s", last, said(got))
				}
			})
		}
	}
}

// One byte of the data changed, anywhere: that MEP is named, its events are lost, and no others are.
func TestVerifyFindsAnyChangedByte(t *testing.T) {
	for _, f := range []Format{FormatMEP, FormatMDF, FormatMFP} {
		t.Run(f.String(), func(t *testing.T) {
			r := newRig(t, must.MemoryDir(t), f)
			id := r.closed(0, mep(0, 1), mep(1, 1), mep(3, 1))
			r.closed(1, mep(2, 1))
			r.verdict(16, 16)
			dir := r.done()
			path := filepath.Join(dir, id.Name())
			data, _, entries := r.segment(id, mep(0, 1), mep(1, 1), mep(3, 1))
			for at := 0; at < len(data); at += 1 + len(data)/200 {
				patch(t, path, flip(at))
				got := verified(t, dir, VerifyOptions{})
				patch(t, path, flip(at))
				var hit Entry
				for _, e := range entries {
					if int64(at) >= e.Offset && int64(at) < e.End() {
						hit = e
					}
				}
				want := *hit.eventRange()
				if got.IsGood || got.UnnamedMissingEvents.EventCount != 4 || got.UnnamedMissingEvents.Ranges[0] != want ||
					got.ProblemCount() != 1 {
					t.Fatalf("byte %d of MEP %d:\n%s", at, hit.MEP, said(got))
				}
			}
			if got := verified(t, dir, VerifyOptions{}); !got.IsGood {
				t.Fatal(said(got))
			}
		})
	}
}

// The same bytes, but another content than the entry says: only the parser can tell.
func TestVerifyParsesWhatTheChecksumsProve(t *testing.T) {
	for _, f := range []Format{FormatMEP, FormatMDF, FormatMFP} {
		t.Run(f.String(), func(t *testing.T) {
			r := newRig(t, must.MemoryDir(t), f)
			e := mep(1, 1)
			e.Events = 3 // of the bytes
			id := r.closed(0, mep(0, 1), e)
			_, index, entries := r.segment(id, mep(0, 1), e)
			entries[1].Events = 4 // of the entry
			r.file(id.Index(), entries[1].Append(index[:HeaderBytes+EntryBytes]))
			s := &r.m.Builders[0].Segments[0]
			s.Events, s.LastEvent = 8, 7
			r.verdict(8, 8)
			got := verified(t, r.done(), VerifyOptions{})
			if got.IsGood || got.ProblemCount() != 1 || !got.Builders[0].Segments[0].Problems.contains(WrongContent) ||
				got.UnnamedMissingEvents.EventCount != 4 {
				t.Fatal(said(got))
			}
		})
	}
}

func TestVerifyHoldsFilesAgainstTheVerdict(t *testing.T) {
	for name, c := range map[string]struct {
		verdict func(r *rig) // of 8 MEPs of which 2 and 3 are not there
		good    bool
		says    string
	}{
		"named": {func(r *rig) { r.verdict(32, 24, Range{8, 15}) }, true,
			`32 triggered = 24 here \+ 8 named`},
		"not named": {func(r *rig) { r.verdict(32, 32) }, false, "lost: 8 events .*: 8 to 15"},
		"partly": {func(r *rig) { r.verdict(32, 28, Range{10, 13}) }, false,
			"lost: 4 events .*: 8 to 9, 14 to 15"},
		"more named than there": {func(r *rig) { r.verdict(32, 20, Range{4, 15}) }, true, "4 events more are here"},
		"a bad range":           {func(r *rig) { r.verdict(32, 32, Range{9, 1<<64 - 1}) }, false, "lost: 8 events"},
		"not all ranges": {func(r *rig) {
			r.verdict(32, 24)
			r.m.Verdict.UnlistedMissingRanges = 1
		}, true, "24 here"},
		"not all ranges, and too few": {func(r *rig) {
			r.verdict(32, 25)
			r.m.Verdict.UnlistedMissingRanges = 1
		}, false, "lost: 1 event"},
		"others are elsewhere": {func(r *rig) {
			r.verdict(32, 24)
			r.m.Verdict.EventsOutput = 32
		}, true, "24 here"},
		"never triggered": {func(r *rig) { r.verdict(28, 20, Range{8, 15}) }, false, "4 events .* never triggered"},
		"no verdict":      {func(*rig) {}, false, "no verdict"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, must.MemoryDir(t), FormatMEP)
			r.closed(0, mep(0, 1), mep(4, 1), mep(7, 1))
			r.closed(1, mep(1, 1), mep(6, 1), mep(5, 1))
			c.verdict(r)
			got := verified(t, r.done(), VerifyOptions{})
			if got.IsGood != c.good || !match(c.says, said(got)) {
				t.Fatal(said(got))
			}
		})
	}
}

// TestAnIndexProvesNoMoreMEPsThanThereAreBytes: an entry of no bytes is damaged, so that nobody takes a number in an
// index for a MEP that no file has.
func TestAnIndexProvesNoMoreMEPsThanThereAreBytes(t *testing.T) {
	for _, live := range []bool{false, true} {
		r := newRig(t, must.MemoryDir(t), FormatMEP)
		r.m.Live = live
		id := r.closed(0, mep(0, 1))
		data, index, entries := r.segment(id, mep(0, 1))
		const empty = 1000
		for i := range uint64(empty) {
			e := mep(i<<20+1, 1)
			e.Offset, e.CRC = int64(len(data)), entries[0].CRC
			index = e.Append(index)
		}
		r.file(id.Index(), index)
		r.verdict(rigPacking, rigPacking)
		for _, quick := range []bool{false, true} {
			got := verified(t, r.done(), VerifyOptions{IndexesOnly: quick})
			if got.IsGood || got.MEPs != 1 || got.ProblemCount() != empty || !match("has no bytes", said(got)) {
				t.Errorf("live %v, quick %v: %d MEPs, %d problems\n%s", live, quick, got.MEPs, got.ProblemCount(), said(got))
			}
		}
		_, err := Merge(t.Context(), r.dir, filepath.Join(t.TempDir(), "x.mep"), MergeOptions{})
		if err == nil || !match("cannot be merged.*has no bytes", err.Error()) {
			t.Error(err)
		}
	}
}

// TestMEPsOfAnIndexAreBounded: numbers that no run reaches are damage, so that none makes a set large or slow.
func TestMEPsOfAnIndexAreBounded(t *testing.T) {
	for _, live := range []bool{false, true} {
		r := newRig(t, must.MemoryDir(t), FormatMEP)
		r.m.Live = live
		r.closed(0, mep(0, 1), mep(maxMEPs-1, 1), mep(maxMEPs, 1))
		c := read(t, r.done())
		if c.MEPSet.MEPs() != 2 || !c.MEPSet.Contains(maxMEPs-1) {
			t.Errorf("live %v: %d MEPs", live, c.MEPSet.MEPs())
		}
		said := ""
		for p := range c.AllProblems {
			said += p.Text
		}
		if !match("MEP 1099511627776 .* beyond what can be counted", said) {
			t.Errorf("live %v: %s", live, said)
		}
	}
}

func TestVerifyNeedsARun(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{dir, filepath.Join(dir, "none")} {
		if _, err := Verify(context.Background(), path, VerifyOptions{}); err == nil {
			t.Error(path)
		}
	}
	must.OK(t, os.Mkdir(filepath.Join(dir, "run-000001"), 0o777))
	if _, err := Verify(context.Background(), dir, VerifyOptions{}); err == nil || !strings.Contains(err.Error(),
		"run.json") {
		t.Error(err)
	}
}

func match(pattern, s string) bool { return regexp.MustCompile(pattern).MatchString(s) }
