package recording

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

func aboutRun(run uint32, key Key) Manifest {
	return Manifest{
		Run:     run,
		Key:     key,
		Format:  FormatMDF,
		Packing: 10,
		Program: "v",
	}
}

func TestOpenRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "out")
	runDir, err := OpenRun(dir, aboutRun(123, testKey), false)
	if err != nil || runDir != filepath.Join(dir, "run-000123") {
		t.Fatal(runDir, err)
	}
	first, err := Load(runDir)
	if err != nil || first.Run != 123 || first.Format != FormatMDF || first.Packing != 10 || first.Program != "v" ||
		len(first.ID) != 32 ||
		time.Since(first.Created) > time.Hour {
		t.Fatalf("%+v %v", first, err)
	}
	if again, err := OpenRun(dir, aboutRun(123, testKey), false); err != nil || again != runDir {
		t.Error("the same run cannot be joined", err)
	}
	if m, err := Load(runDir); err != nil || m.ID != first.ID {
		t.Error("joining changed the manifest", err)
	}
	var exists *ExistsError
	_, err = OpenRun(dir, aboutRun(123, Key{9}), false)
	if !errors.As(err, &exists) || exists.IsBeingWritten || !strings.Contains(err.Error(),
		"run 123 is already recorded in "+dir) ||
		!strings.Contains(err.Error(), "give another run number, another output or --overwrite") {
		t.Error(err)
	}
	for _, bad := range []struct{ dir, want string }{
		{filepath.Join(dir, "a", "b"), "its parent " + filepath.Join(dir, "a") + " does not exist"},
		{filepath.Join(runDir, ManifestName), "it is a file, not a directory"},
		{filepath.Join(runDir, ManifestName, "x"), "not a directory"},
	} {
		if _, err := OpenRun(bad.dir, aboutRun(1, testKey), false); err == nil || !strings.Contains(err.Error(), bad.want) {
			t.Errorf("%v, want %q", err, bad.want)
		}
	}
	if _, err := OpenRun(dir, Manifest{Run: 4}, false); err == nil {
		t.Error("a run without a format was opened")
	}
}

// TestOpenRunRefusesWhatItDoesNotKnow holds that files of segments are not taken for those of a new run.
func TestOpenRunRefusesWhatItDoesNotKnow(t *testing.T) {
	id := SegmentID{Builder: 0, Number: 1, Format: FormatMDF}
	for name, leave := range map[string]func(runDir string){
		"of another run": func(runDir string) {
			data, index := fillSegment(id, Key{9}, 0, 1)
			putFile(t, runDir, id.Name(), data)
			putFile(t, runDir, id.Index(), index)
		},
		"without an index": func(runDir string) { putFile(t, runDir, id.Name(), []byte("data")) },
		"a tail":           func(runDir string) { putFile(t, runDir, id.Name()+TailSuffix, []byte("data")) },
	} {
		dir := t.TempDir()
		must.OK(t, os.Mkdir(RunDir(dir, 7), 0o700))
		leave(RunDir(dir, 7))
		before := filesIn(t, RunDir(dir, 7))
		var exists *ExistsError
		if _, err := OpenRun(dir, aboutRun(7, testKey), false); !errors.As(err, &exists) {
			t.Errorf("%s: %v", name, err)
		}
		after := filesIn(t, RunDir(dir, 7))
		delete(after, LockName)
		if len(before) != len(after) {
			t.Errorf("%s: %v", name, after)
		}
		if _, err := OpenRun(dir, aboutRun(7, testKey), true); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if after := filesIn(t, RunDir(dir, 7)); len(after) != 2 { // manifest and lock
			t.Errorf("%s: %v", name, after)
		}
	}
}

func TestOverwrite(t *testing.T) {
	dir := t.TempDir()
	runDir := openTestRun(t, dir)
	id := SegmentID{Builder: 0, Number: 1, Format: FormatMDF}
	data, index := fillSegment(id, testKey, 0, 3)
	putFile(t, runDir, id.Name(), data)
	putFile(t, runDir, id.Name()+TailSuffix, data)
	putFile(t, runDir, "notes.txt", []byte("mine"))
	f, err := CreateIndex(filepath.Join(runDir, id.Index()))
	must.OK(t, err)
	if _, err := f.Write(index); err != nil {
		t.Fatal(err)
	}
	var exists *ExistsError
	if _, err := OpenRun(dir, aboutRun(7, Key{9}), true); !errors.As(err, &exists) || !exists.IsBeingWritten ||
		!strings.Contains(err.Error(), "is being recorded in") {
		t.Fatal("a run that is being written was overwritten: ", err)
	}
	must.OK(t, f.Close())
	if _, err := OpenRun(dir, aboutRun(7, Key{9}), true); err != nil {
		t.Fatal(err)
	}
	all := filesIn(t, runDir)
	if len(all) != 3 || all["notes.txt"] != "mine" {
		t.Error(all)
	}
	if m, err := Load(runDir); err != nil || m.Key != (Key{9}) || len(m.Builders) != 0 {
		t.Error(m, err)
	}
	putFile(t, runDir, ManifestName, []byte("{"))
	var damaged *damagedError
	if _, err := OpenRun(dir, aboutRun(7, Key{9}), false); !errors.As(err, &damaged) ||
		!strings.Contains(err.Error(), "ringlet recover "+runDir) {
		t.Error(err)
	}
	if _, err := OpenRun(dir, aboutRun(7, Key{9}), true); err != nil {
		t.Error(err)
	}
}

// TestOpenRunTogether has many open the same run, and another one of the same number, at once.
func TestOpenRunTogether(t *testing.T) {
	for range 5 {
		dir := filepath.Join(t.TempDir(), "out")
		var wg sync.WaitGroup
		var mu sync.Mutex
		won := map[Key]int{}
		for i := range 16 {
			wg.Go(func() {
				key := Key{byte(i % 2)}
				runDir, err := OpenRun(dir, aboutRun(5, key), false)
				if err == nil {
					err = UpdateManifest(runDir, func(m *Manifest) error { m.Builder(i); return nil })
				}
				var exists *ExistsError
				if errors.As(err, &exists) {
					return
				}
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				won[key]++
			})
		}
		patiently.Wait(t, wg.Wait)
		m, err := Load(RunDir(dir, 5))
		if err != nil || len(won) != 1 || len(m.Builders) != 8 {
			t.Fatal(err, won, m)
		}
	}
}

func TestUpdate(t *testing.T) {
	runDir := openTestRun(t, t.TempDir())
	boom := errors.New("no")
	if err := UpdateManifest(runDir, func(m *Manifest) error { m.Run = 99; return boom }); !errors.Is(err, boom) {
		t.Error(err)
	}
	if err := UpdateManifest(runDir, func(m *Manifest) error { m.Format = 0; return nil }); err == nil {
		t.Error("a manifest that cannot be read back was written")
	}
	for _, n := range []int{3, 1, 2, 1} {
		if err := UpdateManifest(runDir, func(m *Manifest) error {
			id := SegmentID{Builder: n, Number: 5 - n, Format: FormatMDF}
			m.Builder(n).AddSegment(Segment{Name: id.Name(), Number: id.Number, CRC: "00000000"})
			m.Builder(n).AddSegment(Segment{Name: "bu" + fmt.Sprint(n) + "-00009.mdf", Number: 9, CRC: "00000000"})
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	m, err := Load(runDir)
	if err != nil || m.Run != 7 || len(m.Builders) != 3 || m.Builders[1].Segments[0].Number != 3 ||
		len(m.Builders[0].Segments) != 2 {
		t.Errorf("%+v %v", m, err)
	}
	if err := UpdateManifest(t.TempDir(), func(*Manifest) error { return nil }); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestLockIsWaitedForInTime holds that a process which is stopped with the lock holds others up for a bounded time.
func TestLockIsWaitedForInTime(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		runDir := openTestRun(t, dir)
		held, err := os.Create(lockPath(runDir))
		must.OK(t, err)
		defer held.Close()
		must.OK(t, tryLock(held))
		var late *lockError
		err = UpdateManifest(runDir, func(*Manifest) error { return nil })
		if !errors.As(err, &late) || !errors.Is(err, errLocked) ||
			!strings.Contains(err.Error(), "look for one that is stopped") {
			t.Error(err)
		}
	})
}

func TestDamagedManifests(t *testing.T) {
	good, err := json.Marshal(newManifest(aboutRun(3, testKey)))
	must.OK(t, err)
	if _, err := parseManifest(good); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ from, to, want string }{
		{string(good), "", "it is empty"},
		{`{`, `[`, "not the JSON of a manifest"},
		{`"manifest_version":1`, `"manifest_version":2`, "of version 2, this program knows version 1"},
		{testKey.String(), "abc", "is not the key of a run"},
		{`"key":"` + testKey.String() + `",`, "", "it has no key of a run"},
		{`"format":"mdf",`, "", "is not a format of segments"},
		{`"mdf"`, `"xml"`, `output format "xml" is not known`},
		{`"builders":[]`, `"builders":[{"index":1},{"index":1}]`, "not in order of index"},
		{`"builders":[]`, `"builders":[{"index":-1}]`, "not in order of index"},
		{`"builders":[]`, `"builders":[{"index":1,"segments":[{"name":"../x","number":1}]}]`,
			`"../x" is not the name of segment 1`},
		{`"builders":[]`, `"builders":[{"index":1,"segments":[{"name":"bu1-00001.mep","number":1}]}]`, "is not the name"},
		{`"builders":[]`, `"builders":[{"index":1,"segments":[{"name":"bu1-00001.mdf","number":1}]}]`, "make no sense"},
	} {
		bad := strings.Replace(string(good), tc.from, tc.to, 1)
		if _, err := parseManifest([]byte(bad)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v, want %q", err, tc.want)
		}
	}
	dir := t.TempDir()
	var damaged *damagedError
	if _, err := Load(dir); !errors.As(err, &damaged) || !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	must.OK(t, unix.Mkfifo(manifestPath(dir), 0o600))
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), "a named pipe") { // and it does not wait
		t.Error(err)
	}
}

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	file, fifo, locked := filepath.Join(dir, "file"), filepath.Join(dir, "fifo"), filepath.Join(dir, "locked")
	putFile(t, dir, "file", nil)
	must.OK(t, errors.Join(unix.Mkfifo(fifo, 0o600), os.Mkdir(locked, 0o500)))
	for _, tc := range []struct {
		path string
		want string
	}{
		{dir, ""}, {dir + "/", ""}, {filepath.Join(dir, "new"), ""}, {filepath.Join(dir, "new") + "/", ""},
		{filepath.Join(dir, "no", "new"), "its parent " + filepath.Join(dir, "no") + " does not exist"},
		{file, "it is a file, not a directory"}, {fifo, "it is a named pipe, not a directory"},
		{filepath.Join(file, "x"), "not a directory"}, {filepath.Join(fifo, "x"), "not a directory"},
	} {
		if err := Check(tc.path); (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.path, err, tc.want)
		}
	}
	if os.Geteuid() == 0 {
		t.Log("SKIPPED: root may write to a directory without the right to")
	} else if err := Check(locked); !errors.Is(err, fs.ErrPermission) {
		t.Error(err)
	}
	for _, tc := range []struct {
		path      string
		overwrite bool
		want      string
	}{
		{filepath.Join(dir, "new.mdf"), false, ""}, {file, true, ""},
		{file, false, "it exists: give another path or --overwrite"},
		{fifo, true, "it is a named pipe, not a file"}, {dir, true, "it is a directory, not a file"},
		{filepath.Join(dir, "no", "x.mdf"), false, "does not exist"},
	} {
		if err := CheckFile(tc.path, tc.overwrite); (err == nil) != (tc.want == "") ||
			err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.path, err, tc.want)
		}
	}
	if got := len(filesInNames(t, dir)); got != 3 {
		t.Errorf("%d files in the directory that was checked", got)
	}
	if FreeSpaceWarning(dir, 1) != "" || !strings.Contains(FreeSpaceWarning(filepath.Join(dir, "new"), 1<<62),
		"bytes are free there") {
		t.Error(FreeSpaceWarning(dir, 1), FreeSpaceWarning(dir, 1<<62))
	}
}

// TestCheckSpace holds that an output may go on where little is free, and not where nothing is, or nothing can be
// written.
func TestCheckSpace(t *testing.T) {
	dir := t.TempDir()
	must.OK(t, CheckSpace(dir, 1))
	free, size, err := space(dir)
	must.OK(t, err)
	if err := CheckSpace(dir, 1<<62); (err == nil) != (free >= min(returnSpace, size/16)) ||
		err != nil && !errors.Is(err, unix.ENOSPC) {
		t.Errorf("%d of %d bytes are free: %v", free, size, err)
	}
	if err := CheckSpace(filepath.Join(dir, "no", "x"), 1); err == nil {
		t.Error("a directory that is not there")
	}
}

func filesInNames(t *testing.T, dir string) (names []string) {
	entries, err := os.ReadDir(dir)
	must.OK(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestRuns(t *testing.T) {
	dir := t.TempDir()
	if last, err := LastRun(dir); err != nil || last != 0 {
		t.Error(last, err)
	}
	if last, err := LastRun(filepath.Join(dir, "none")); err != nil || last != 0 {
		t.Error(last, err)
	}
	for _, name := range []string{"run-000009", "run-000100", "run-1234567", "run-12", "run-x", "run-0000123", "other"} {
		must.OK(t, os.Mkdir(filepath.Join(dir, name), 0o700))
	}
	want := []string{filepath.Join(dir, "run-000009"), filepath.Join(dir, "run-000100"), filepath.Join(dir, "run-1234567")}
	if runs, err := Runs(dir); err != nil || !slices.Equal(runs, want) {
		t.Error(runs, err)
	}
	if last, err := LastRun(dir); err != nil || last != 1234567 {
		t.Error(last, err)
	}
	if runs, err := Runs(want[0]); err != nil || !slices.Equal(runs, want[:1]) {
		t.Error(runs, err)
	}
	for _, name := range []string{ManifestName, "bu0-00001.mdf.open", "bu3-00001.idx"} {
		strange := t.TempDir()
		putFile(t, strange, name, nil)
		if runs, err := Runs(strange); err != nil || !slices.Equal(runs, []string{strange}) {
			t.Error(name, runs, err)
		}
		below := filepath.Join(strange, "run-000001")
		must.OK(t, os.Mkdir(below, 0o700))
		if runs, err := Runs(strange); err != nil || !slices.Equal(runs, []string{below, strange}) {
			t.Error("a stray file hides a run:", name, runs, err)
		}
	}
}

func TestNames(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		id := SegmentID{
			Builder: rapid.IntRange(0, 1<<31-1).Draw(rt, "builder"),
			Number:  rapid.IntRange(1, 1<<31-1).Draw(rt, "number"),
			Format:  rapid.SampledFrom([]Format{FormatMEP, FormatMDF, FormatMFP}).Draw(rt, "format"),
		}
		for _, suffix := range []string{"", OpenSuffix} {
			if got, open, ok := ParseSegment(id.Name() + suffix); !ok || got != id || open != (suffix != "") {
				rt.Fatal(got, open, ok)
			}
		}
		if got, ok := parseIndex(id.Index()); !ok || got.Builder != id.Builder || got.Number != id.Number {
			rt.Fatal(got, ok)
		}
	})
	for _, bad := range []string{
		"", "bu0-00001", "bu0-00000.mdf", "bu-1-00001.mdf", "bu0--0001.mdf", "bu0-1.mdf", "bu00-00001.mdf",
		"bu0-00001.mdf.tail",
		"bu0-00001.idx", "bu0-00001.mdf.open.open", "+bu0-00001.mdf", "bu0-000001.mdf", "0-00001.mdf", "bu0-00001.MDF",
		"bu0-00001.mdf/x",
	} {
		if id, _, ok := ParseSegment(bad); ok {
			t.Errorf("%q is a segment: %+v", bad, id)
		}
	}
	for _, d := range []Durability{DurabilityMemory, DurabilityFile, DurabilityDisk} {
		if back, err := ParseDurability(d.String()); err != nil || back != d {
			t.Error(d, back, err)
		}
	}
	for _, f := range []Format{FormatMEP, FormatMDF, FormatMFP} {
		if back, err := ParseFormat(f.String()); err != nil || back != f {
			t.Error(f, back, err)
		}
	}
	key := NewKey()
	if back, err := ParseKey(key.String()); err != nil || back != key || key == NewKey() {
		t.Error(back, err)
	}
}

func FuzzManifest(f *testing.F) {
	m := newManifest(aboutRun(3, testKey))
	m.Builder(2).AddSegment(Segment{Name: "bu2-00001.mdf", Number: 1, CRC: "01020304"})
	good, err := json.Marshal(m)
	must.OK(f, err)
	f.Add(good)
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := parseManifest(data)
		if err != nil {
			return
		}
		again, err := json.Marshal(m)
		must.OK(t, err)
		if _, err := parseManifest(again); err != nil {
			t.Fatalf("what was read is not what can be read: %v", err)
		}
	})
}

func FuzzIndex(f *testing.F) {
	_, index := fillSegment(SegmentID{Builder: 1, Number: 2, Format: FormatMDF}, testKey, 0, 2)
	f.Add(index)
	f.Add(index[:HeaderBytes-1])
	f.Fuzz(func(t *testing.T, data []byte) {
		var h Header
		if err := h.Parse(data); err == nil && h.Created >= 0 {
			if again := h.Append(nil); string(again[:28]) != string(data[:28]) {
				t.Fatalf("%+v is not what stands there", h)
			}
		}
		var e Entry
		for at := HeaderBytes; at+EntryBytes <= len(data); at += EntryBytes {
			if e.Parse(data[at:]) && string(e.Append(nil)) != string(data[at:at+EntryBytes]) {
				t.Fatalf("%+v is not what stands there", e)
			}
		}
	})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
