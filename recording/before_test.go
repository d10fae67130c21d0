package recording

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ringlet/testkit/must"
)

// What stands in testdata was made by the program of before (commit 5636cfab), which had sets of its own, and wrote
// merged files with a journal.

// entriesOfBefore are the MEPs of the sets there: dense ones, ones that are far apart, copies and short ones.
func entriesOfBefore(live bool) (entries []Entry) {
	r := rand.New(rand.NewPCG(40, 6))
	next := uint64(0)
	for i := range uint64(900) {
		e := Entry{MEP: i, FirstEvent: i * rigPacking, Events: rigPacking, Attempt: 1}
		if i >= 600 {
			e.MEP = 600 + (i-600)*(i-600)
			e.FirstEvent = e.MEP * rigPacking
		}
		if r.IntN(20) == 0 {
			e.Attempt, e.Events = 1+r.Uint32N(3), 1+r.Uint32N(rigPacking)
		}
		if live {
			next += r.Uint64N(3)
			e.FirstEvent, e.Events = next, 1+r.Uint32N(rigPacking)
			next += uint64(e.Events)
		}
		if r.IntN(50) > 0 {
			entries = append(entries, e)
		}
	}
	return entries
}

// TestALedgerOfBefore holds that the sets in a ledger of before are read, and that the same bytes are written.
func TestALedgerOfBefore(t *testing.T) {
	for name, live := range map[string]bool{"drained.log": false, "drained-live.log": true} {
		before := readAll(t, filepath.Join("testdata", name))
		r := newRig(t, must.MemoryDir(t), FormatMEP)
		r.m.Live = live
		r.file(drainedName, before)
		l := NewLedger(r.done(), r.m)
		must.OK(t, l.Refresh())
		d := l.segments["bu0-00001.mep"]
		got, err := l.readMEPs(&d)
		must.OK(t, err)
		want := r.m.NewMEPSet()
		for _, e := range entriesOfBefore(live) {
			want.Add(e)
		}
		read := map[uint64]Entry{}
		for e := range got.entries {
			read[e.MEP] = e
		}
		for _, e := range entriesOfBefore(live) {
			if read[e.MEP] != e {
				t.Fatalf("%s: %+v, want %+v", name, read[e.MEP], e)
			}
		}
		if got.MEPs() != want.MEPs() || got.Events() != want.Events() || d.MEPs != want.MEPs() || want.MEPs() < 800 {
			t.Errorf("%s: %d MEPs of %d events, want %d of %d", name, got.MEPs(), got.Events(), want.MEPs(), want.Events())
		}
		must.OK(t, os.Remove(l.path()))
		again := NewLedger(r.dir, r.m)
		must.OK(t, again.Open())
		must.OK(t, again.SetDestinations([]Destination{{"id", "path"}}))
		must.OK(t, again.AppendSegment(d, want))
		must.OK(t, again.Close())
		if !bytes.Equal(readAll(t, again.path()), before) {
			t.Errorf("%s: other bytes are written", name)
		}
	}
}

// halfMerged unpacks what merges of before left that were killed behind each of their steps, into a directory each.
func halfMerged(t *testing.T) (dirs []string) {
	t.Helper()
	base := must.MemoryDir(t)
	f, err := os.Open("testdata/halfmerged.tar.gz")
	must.OK(t, err)
	defer f.Close()
	g, err := gzip.NewReader(f)
	must.OK(t, err)
	for z := tar.NewReader(g); ; {
		h, err := z.Next()
		if errors.Is(err, io.EOF) {
			return dirs
		}
		must.OK(t, err)
		state, _, _ := strings.Cut(h.Name, "/")
		state, path := filepath.Join(base, state), filepath.Join(base, h.Name)
		if len(dirs) == 0 || dirs[len(dirs)-1] != state {
			dirs = append(dirs, state)
		}
		must.OK(t, os.MkdirAll(filepath.Dir(path), 0o777))
		b, err := io.ReadAll(z)
		must.OK(t, err)
		must.OK(t, os.WriteFile(path, bytes.ReplaceAll(b, []byte("@BASE@"), []byte(state)), 0o666))
	}
}

// TestMergesOfBeforeAreFinished holds that what a merge of before left is brought to its end, wherever it was killed,
// and that nothing is lost on the way: neither where the next merge is killed, too. A third of all pairs of steps is
// tried.
func TestMergesOfBeforeAreFinished(t *testing.T) {
	states := 0
	for kill := range 30 {
		for i, state := range halfMerged(t) {
			if (kill+i)%3 > 0 {
				continue
			}
			states++
			dir, dst := filepath.Join(state, "run-000123"), filepath.Join(state, "x.mep")
			if strings.Contains(state, "/link-") && pathExists(dst+mergingSuffix) { // it was a second name
				must.OK(t, os.Remove(dst+mergingSuffix))
				must.OK(t, os.Link(filepath.Join(dir, "bu0-00001.mep"), dst+mergingSuffix))
			}
			steps := 0
			_, err := Merge(context.Background(), dir, dst, MergeOptions{Remove: true, faultAfter: func(string) error {
				if steps++; steps == kill {
					return errKilled
				}
				return nil
			}})
			if err != nil && !errors.Is(err, errKilled) {
				t.Fatalf("%s, killed at step %d: %v", state, kill, err)
			}
			good(t, dir, dst)
			_, err = Merge(context.Background(), dir, dst, MergeOptions{Remove: true})
			if err != nil {
				t.Fatalf("%s, killed at step %d, again: %v", state, kill, err)
			}
			isMerged(t, dst, inEventOrder(t, FormatMEP, upTo(4)...))
			if pathExists(dir) {
				t.Errorf("%s, killed at step %d: the segments are still there", state, kill)
			}
		}
	}
	if states < 10*25 {
		t.Errorf("only %d states", states)
	}
}
