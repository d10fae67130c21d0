package recording

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

var testKey = Key{1, 2, 3}

// openTestRun makes the directory of run 7.
func openTestRun(t must.TB, dir string) string {
	t.Helper()
	about := Manifest{
		Run:     7,
		Key:     testKey,
		Format:  FormatMDF,
		Packing: 10,
		Created: time.UnixMicro(1_000_000),
	}
	runDir, err := OpenRun(dir, about, false)
	must.OK(t, err)
	return runDir
}

// remainingMEP is the data of a MEP, of a length that depends on it.
func remainingMEP(mep uint64) []byte {
	return bytes.Repeat([]byte{byte(mep), byte(mep >> 8), 7}, 11+int(mep%5)*300)
}

// fillSegment gives data and index of a segment with n MEPs from a number on, ten events each.
func fillSegment(id SegmentID, key Key, from uint64, n int) (data, index []byte) {
	h := Header{
		Segment: id,
		Run:     7,
		Key:     key,
		Created: 5_000_000 + int64(id.Number),
	}
	index = h.Append(nil)
	for k := from; k < from+uint64(n); k++ {
		e := Entry{
			MEP:        k,
			FirstEvent: 10 * k,
			Offset:     int64(len(data)),
			Events:     10,
			Attempt:    1,
		}
		data = append(data, remainingMEP(k)...)
		e.Length, e.CRC = int64(len(data))-e.Offset, crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
		index = e.Append(index)
	}
	return data, index
}

func putFile(t must.TB, dir, name string, content []byte) {
	t.Helper()
	must.OK(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
}

// filesIn reads a directory. What differs by chance from time to time in a manifest is made equal.
func filesIn(t must.TB, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must.OK(t, err)
	all := map[string]string{}
	for _, e := range entries {
		if e.Name() == ReserveName { // nothing stands in it
			continue
		}
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		must.OK(t, err)
		if e.Name() == ManifestName {
			content = equalize(t, content)
		}
		all[e.Name()] = string(content)
	}
	return all
}

func equalize(t must.TB, content []byte) []byte {
	m, err := parseManifest(content)
	if err != nil {
		return content
	}
	m.ID = ""
	for i := range m.Builders {
		for j := range m.Builders[i].Segments {
			m.Builders[i].Segments[j].Closed = time.Time{}
		}
	}
	content, err = json.MarshalIndent(m, "", " ")
	must.OK(t, err)
	return content
}

// remains is what a killed process leaves of one segment, and what is to come of it.
type remains struct {
	what     string
	data     string                                                  // put behind the closed segment's name; "-": no data
	leave    func(data, index []byte) (dataAfter, indexAfter []byte) // an index of nil: none
	complete int                                                     // of its MEPs, -1: all
	found    string                                                  // in the sentence
	kept     bool                                                    // under the name that it has
}

// put puts what remains of a segment with 4 MEPs from a number on into the directory of a run.
func (l *remains) put(t must.TB, dir string, id SegmentID, from uint64) {
	t.Helper()
	data, index := l.leave(fillSegment(id, testKey, from, 4))
	if index != nil {
		putFile(t, dir, id.Index(), index)
	}
	switch l.data {
	case "-":
	case "both":
		putFile(t, dir, id.Name(), data)
		must.OK(t, os.Link(filepath.Join(dir, id.Name()), filepath.Join(dir, id.Name()+OpenSuffix)))
	default:
		putFile(t, dir, id.Name()+l.data, data)
	}
}

func asItIs(data, index []byte) ([]byte, []byte) { return data, index }

var lefts = []remains{
	{"all written, open", OpenSuffix, asItIs, -1, "its writer was killed: 4 MEPs", false},
	{"data behind", OpenSuffix, func(data, index []byte) ([]byte, []byte) { return append(data, "behind"...), index },
		-1, "the 6 bytes behind them are in", false},
	{"torn entry", OpenSuffix, func(data, index []byte) ([]byte, []byte) { return data, index[:len(index)-5] },
		3, "3 MEPs", false},
	{"data cut in the last MEP", OpenSuffix, func(data, index []byte) ([]byte, []byte) {
		return data[:len(data)-1], index
	}, 3, "3 MEPs", false},
	{"an entry that is zero", OpenSuffix, func(data, index []byte) ([]byte, []byte) {
		clear(index[HeaderBytes+2*EntryBytes : HeaderBytes+3*EntryBytes])
		return data, index
	}, 2, "2 MEPs", false},
	{"data that are zero", OpenSuffix, func(data, index []byte) ([]byte, []byte) {
		clear(data[len(remainingMEP(0)) : len(remainingMEP(0))+3])
		return data, index
	}, 1, "1 MEPs", false},
	{"header torn", OpenSuffix, func(data, index []byte) ([]byte, []byte) {
		clear(index[8:20])
		return data, index
	}, -1, "4 MEPs", false},
	{"index empty", OpenSuffix, func(data, _ []byte) ([]byte, []byte) { return data, []byte{} },
		0, "no MEP in it is whole", false},
	{"index missing", OpenSuffix, func(data, _ []byte) ([]byte, []byte) { return data, nil },
		0, "no MEP in it is whole", false},
	{"data empty", OpenSuffix, func(_, index []byte) ([]byte, []byte) { return nil, index }, 0, "holds nothing", false},
	{"both empty", OpenSuffix, func(_, _ []byte) ([]byte, []byte) { return nil, []byte{} }, 0, "holds nothing", false},
	{"index alone", "-", func(_, index []byte) ([]byte, []byte) { return nil, index[:HeaderBytes] },
		0, "holds nothing", false},
	{"renamed, not listed", "", asItIs, -1, "not yet in the manifest: 4 MEPs, now listed", false},
	{"renamed by link, not listed", "both", asItIs, -1, "now listed", false},
	{"of another run", OpenSuffix, func(data, index []byte) ([]byte, []byte) {
		var h Header
		_ = h.Parse(index)
		h.Key = Key{9}
		return data, append(h.Append(nil), index[HeaderBytes:]...)
	}, 0, "that of another run", true},
	{"closed, changed, not listed", "", func(data, index []byte) ([]byte, []byte) {
		data[len(data)-1] ^= 1
		return data, index
	}, 0, "left as it is", true},
}

func TestRecover(t *testing.T) {
	for _, l := range lefts {
		t.Run(l.what, func(t *testing.T) {
			dir := t.TempDir()
			runDir := openTestRun(t, dir)
			id := SegmentID{Builder: 2, Number: 1, Format: FormatMDF}
			l.put(t, runDir, id, 0)
			found, err := Recover(t.Context(), dir)
			if err != nil || len(found) != 1 || found[0].Err != nil || !strings.Contains(found[0].String(), l.found) {
				t.Fatal(err, found)
			}
			m, err := Load(runDir)
			must.OK(t, err)
			complete := l.complete
			if complete < 0 {
				complete = 4
			}
			if complete == 0 {
				if len(m.Builders) != 0 || found[0].Listed {
					t.Fatalf("%+v", m.Builders)
				}
			} else if s := m.Builder(2).Segments[0]; int(s.MEPs) != complete || s.LastEvent != uint64(10*complete-1) ||
				!s.Recovered ||
				m.Builder(2).State != StateRecovered || found[0].Bytes != s.Bytes || found[0].TailBytes != s.TailBytes {
				t.Fatalf("%+v %+v", m.Builder(2), found)
			}
			before := filesIn(t, runDir)
			found, err = Recover(t.Context(), runDir)
			if err != nil || !l.kept && len(found) != 0 {
				t.Fatal(err, found)
			}
			if diff := cmp.Diff(before, filesIn(t, runDir)); diff != "" {
				t.Fatal(diff)
			}
		})
	}
}

// TestRecoverKilled leaves any states of several segments and of the manifest, kills Recover before any of its changes,
// again and again, and expects in the end what comes of it without kills.
func TestRecoverKilled(t *testing.T) {
	parent := must.MemoryDir(t)
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(parent, "")
		must.OK(rt, err)
		defer os.RemoveAll(dir)
		a, b := openTestRun(rt, filepath.Join(dir, "a")), openTestRun(rt, filepath.Join(dir, "b"))
		manifest := rapid.SampledFrom([]string{"whole", "whole", "missing", "damaged", "empty", "temp"}).Draw(rt, "manifest")
		for n := range rapid.IntRange(1, 4).Draw(rt, "segments") {
			l := lefts[rapid.IntRange(0, len(lefts)-1).Draw(rt, "left")]
			id := SegmentID{Builder: n % 2, Number: 1 + n/2, Format: FormatMDF}
			for _, runDir := range []string{a, b} {
				l.put(rt, runDir, id, uint64(10*n))
				spoilManifest(rt, runDir, manifest)
			}
		}
		if _, err := Recover(rt.Context(), a); err != nil {
			rt.Fatal(err)
		}
		for kills := 0; ; kills++ {
			r := recovery{ctx: rt.Context(), dir: b}
			steps := rapid.IntRange(0, 8).Draw(rt, "steps")
			if kills > 60 {
				steps = 1000
			}
			r.beforeStep = func(string) error {
				if steps--; steps < 0 {
					return errKilled
				}
				return nil
			}
			err := r.recover()
			if err == nil {
				break
			}
			if !errors.Is(err, errKilled) {
				rt.Fatal(err)
			}
		}
		wantAll, gotAll := filesIn(rt, a), filesIn(rt, b)
		delete(wantAll, ManifestName+".tmp") // a kill may leave one, and may have it taken away
		delete(gotAll, ManifestName+".tmp")
		loosen(rt, wantAll)
		loosen(rt, gotAll)
		if diff := cmp.Diff(wantAll, gotAll); diff != "" {
			rt.Fatal(diff)
		}
	})
}

// loosen forgets of a manifest what a kill may change: whether a segment that was found closed had been recovered
// before.
func loosen(t must.TB, all map[string]string) {
	m, err := parseManifest([]byte(all[ManifestName]))
	if err != nil {
		return
	}
	m.Created, m.Packing = time.Time{}, 0
	for i := range m.Builders {
		for j := range m.Builders[i].Segments {
			m.Builders[i].Segments[j].Recovered = false
		}
	}
	content, err := json.Marshal(m)
	must.OK(t, err)
	all[ManifestName] = string(content)
}

// spoilManifest does something to a manifest.
func spoilManifest(t must.TB, runDir, how string) {
	path := manifestPath(runDir)
	switch how {
	case "missing":
		_ = os.Remove(path)
	case "damaged":
		putFile(t, runDir, ManifestName, []byte(`{"manifest_version": 1, "run": 7, "key": "`))
	case "empty":
		putFile(t, runDir, ManifestName, nil)
	case "temp":
		putFile(t, runDir, ManifestName+".tmp", []byte("half of"))
	}
}

// TestRecoverMakesManifestAnew holds that a manifest which is gone comes back with all closed segments.
func TestRecoverMakesManifestAnew(t *testing.T) {
	for _, how := range []string{"missing", "damaged", "empty"} {
		dir := t.TempDir()
		runDir := openTestRun(t, dir)
		for n := 1; n <= 3; n++ {
			id := SegmentID{Builder: 0, Number: n, Format: FormatMDF}
			data, index := fillSegment(id, testKey, uint64(10*n), 4)
			putFile(t, runDir, id.Name(), data)
			putFile(t, runDir, id.Index(), index)
		}
		before, _ := os.ReadFile(manifestPath(runDir))
		spoilManifest(t, runDir, how)
		if how == "damaged" {
			before, _ = os.ReadFile(manifestPath(runDir))
		}
		found, err := Recover(t.Context(), dir)
		if err != nil || len(found) != 4 || !strings.Contains(found[0].What, "made anew from the indexes") {
			t.Fatal(err, found)
		}
		m, err := Load(runDir)
		if err != nil || m.Run != 7 || m.Key != testKey || m.Format != FormatMDF || m.Packing != 10 ||
			len(m.Builders) != 1 ||
			len(m.Builders[0].Segments) != 3 || m.Builders[0].State != StateRecovered || m.Builders[0].Segments[0].Recovered {
			t.Fatalf("%v %+v", err, m)
		}
		if got, err := os.ReadFile(manifestPath(runDir) + ".damaged-1"); how == "damaged" && (err != nil ||
			!bytes.Equal(got, before)) {
			t.Errorf("the damaged manifest was not kept: %q %v", got, err)
		}
	}
	dir := t.TempDir() // nothing says which run it was
	runDir := openTestRun(t, dir)
	putFile(t, runDir, ManifestName, []byte("x"))
	before := filesIn(t, runDir)
	found, err := Recover(t.Context(), dir)
	if err != nil || len(found) != 1 || found[0].Err == nil ||
		!strings.Contains(found[0].String(), "no index here is whole") {
		t.Error(err, found)
	}
	if diff := cmp.Diff(before, filesIn(t, runDir)); diff != "" {
		t.Error(diff)
	}
}

// TestRecoverLeavesTheLiving holds that a segment whose writer lives is left alone, and that its builder unit stays
// writing.
func TestRecoverLeavesTheLiving(t *testing.T) {
	dir := t.TempDir()
	runDir := openTestRun(t, dir)
	id := SegmentID{Builder: 0, Number: 1, Format: FormatMDF}
	data, index := fillSegment(id, testKey, 0, 4)
	putFile(t, runDir, id.Name()+OpenSuffix, append(data, "more"...))
	f, err := CreateIndex(filepath.Join(runDir, id.Index()))
	must.OK(t, err)
	if _, err := f.Write(index); err != nil {
		t.Fatal(err)
	}
	if err := UpdateManifest(runDir, func(m *Manifest) error { m.Builder(0); m.Builder(1); return nil }); err != nil {
		t.Fatal(err)
	}
	found, err := Recover(t.Context(), dir)
	if err != nil || len(found) != 1 || !found[0].WriterLives || !strings.Contains(found[0].String(), "is being written") {
		t.Fatal(err, found)
	}
	m, err := Load(runDir)
	if err != nil || m.Builder(0).State != StateWriting || m.Builder(1).State != StateRecovered ||
		!pathExists(filepath.Join(runDir, id.Name()+OpenSuffix)) {
		t.Fatal(err, m)
	}
	if err := f.Close(); err != nil { // as a kill does
		t.Fatal(err)
	}
	if found, err = Recover(t.Context(), dir); err != nil || len(found) != 1 || !found[0].Listed ||
		found[0].TailBytes != 4 {
		t.Fatal(err, found)
	}
}

// TestRecoverTogether has several recover the same directory at once.
func TestRecoverTogether(t *testing.T) {
	alone, together := t.TempDir(), t.TempDir()
	for _, dir := range []string{alone, together} {
		runDir := openTestRun(t, dir)
		for n, l := range lefts {
			id := SegmentID{Builder: n % 3, Number: 1 + n/3, Format: FormatMDF}
			l.put(t, runDir, id, uint64(10*n))
		}
	}
	if _, err := Recover(t.Context(), alone); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if _, err := Recover(t.Context(), together); err != nil {
				t.Error(err)
			}
		})
	}
	patiently.Wait(t, wg.Wait)
	want, got := filesIn(t, RunDir(alone, 7)), filesIn(t, RunDir(together, 7))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestRecoverGivesUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	runDir := openTestRun(t, dir)
	id := SegmentID{Builder: 0, Number: 1, Format: FormatMDF}
	data, index := fillSegment(id, testKey, 0, 4)
	putFile(t, runDir, id.Name()+OpenSuffix, data)
	putFile(t, runDir, id.Index(), index)
	before := filesIn(t, runDir)
	if _, err := Recover(ctx, dir); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if diff := cmp.Diff(before, filesIn(t, runDir)); diff != "" {
		t.Error(diff)
	}
	if _, err := Recover(t.Context(), filepath.Join(dir, "none")); err == nil {
		t.Error("a directory that is not there was recovered")
	}
	if found, err := Recover(t.Context(), t.TempDir()); err != nil || len(found) != 0 {
		t.Error(found, err)
	}
}
