package recording

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"ringlet/testkit/must"
)

func read(t testing.TB, dir string) *Contents {
	t.Helper()
	c, err := Read(context.Background(), dir)
	must.OK(t, err)
	return c
}

func TestReadFindsEveryMEPOnce(t *testing.T) {
	r := newRig(t, must.MemoryDir(t), FormatMEP)
	r.scattered(rand.New(rand.NewPCG(1, 1)), 3, 500)
	c := read(t, r.done())
	if c.MEPSet.MEPs() != 500 || c.Events() != 2000 || c.ProblemCount() != 0 {
		t.Fatalf("%d MEPs, %d events, %d problems", c.MEPSet.MEPs(), c.Events(), c.ProblemCount())
	}
	if c.Superseded == 0 || len(c.Copies) != maxCopies || len(c.Builders) != 3 {
		t.Fatalf("%d superseded, %d named, %d builder units", c.Superseded, len(c.Copies), len(c.Builders))
	}
	for mep := range uint64(500) {
		if !c.MEPSet.Contains(mep) {
			t.Fatalf("MEP %d is not there", mep)
		}
	}
}

// patch changes bytes of a file of the recording.
func patch(t testing.TB, path string, change func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, change(b), 0o666)
	}
	must.OK(t, err)
}

func flip(at int) func([]byte) []byte {
	return func(b []byte) []byte {
		if at < 0 {
			at += len(b)
		}
		b[at] ^= 0x10
		return b
	}
}

// Every kind of damage to the files of segment bu0-00001 with four MEPs of 4 events, which stands beside another, is
// found by Read, has the right name, and takes no event with it that is not concerned.
func TestReadNamesWhatIsWrong(t *testing.T) {
	second := HeaderBytes + EntryBytes
	for name, c := range map[string]struct {
		do     func(t *testing.T, r *rig, data, index string)
		kind   ProblemKind
		events uint64
	}{
		"the file is gone":  {func(t *testing.T, _ *rig, data, _ string) { remove(t, data) }, MissingFile, 16},
		"the index is gone": {func(t *testing.T, _ *rig, _, index string) { remove(t, index) }, MissingFile, 16},
		"only the index is there": {func(t *testing.T, r *rig, data, _ string) { remove(t, data); unlist(r) },
			MissingFile, 16},
		"the file is cut":    {patched(0, func(b []byte) []byte { return b[:len(b)-1] }), WrongSize, 28},
		"the file goes on":   {patched(0, func(b []byte) []byte { return append(b, 0) }), WrongSize, 32},
		"the index is cut":   {patched(1, func(b []byte) []byte { return b[:len(b)-1] }), DamagedIndex, 28},
		"an entry is gone":   {patched(1, func(b []byte) []byte { return b[:len(b)-EntryBytes] }), WrongCounts, 28},
		"the index goes on":  {patched(1, func(b []byte) []byte { return append(b, 0) }), DamagedIndex, 32},
		"the index is empty": {patched(1, func([]byte) []byte { return nil }), DamagedIndex, 16},
		"magic":              {patched(1, flip(0)), DamagedIndex, 16},
		"version":            {patched(1, flip(8)), DamagedIndex, 16},
		"header":             {patched(1, flip(20)), DamagedIndex, 16},
		"header checksum":    {patched(1, flip(63)), DamagedIndex, 16},
		"entry: MEP":         {patched(1, flip(second)), DamagedIndex, 28},
		"entry: first event": {patched(1, flip(second+8)), DamagedIndex, 28},
		"entry: offset":      {patched(1, flip(second+16)), DamagedIndex, 28},
		"entry: length":      {patched(1, flip(second+24)), DamagedIndex, 28},
		"entry: events":      {patched(1, flip(second+32)), DamagedIndex, 28},
		"entry: attempt":     {patched(1, flip(second+36)), DamagedIndex, 28},
		"entry: CRC":         {patched(1, flip(second+40)), DamagedIndex, 28},
		"entry: checksum":    {patched(1, flip(second+44)), DamagedIndex, 28},
		"the last entry":     {patched(1, flip(-1)), DamagedIndex, 28},
		"of another run": {func(_ *testing.T, r *rig, _, _ string) { r.m.Key = Key{0xab} }, ForeignFile,
			0},
		"of another number": {func(t *testing.T, r *rig, _, _ string) { r.m.Run++ }, ForeignFile, 0},
		"manifest: bytes": {func(_ *testing.T, r *rig, _, _ string) { r.m.Builders[0].Segments[0].Bytes++ },
			WrongSize, 32},
		"manifest: events": {func(_ *testing.T, r *rig, _, _ string) { r.m.Builders[0].Segments[0].Events++ },
			WrongCounts, 32},
		"manifest: checksum": {func(_ *testing.T, r *rig, _,
			_ string) {
			r.m.Builders[0].Segments[0].CRC = "00000000"
		}, WrongCounts, 32},
		"manifest: range": {func(_ *testing.T, r *rig, _, _ string) { r.m.Builders[0].Segments[0].LastEvent++ },
			WrongCounts, 32},
		"manifest: packing":        {func(_ *testing.T, r *rig, _, _ string) { r.m.Packing = 5 }, DamagedIndex, 4},
		"manifest: lists it not":   {func(_ *testing.T, r *rig, _, _ string) { unlist(r) }, Unlisted, 32},
		"open, its writer is dead": {func(t *testing.T, r *rig, data, _ string) { unlist(r); rename(t, data) }, LeftOpen, 32},
		"open, its writer lives": {func(t *testing.T, r *rig, data, index string) {
			unlist(r)
			rename(t, data)
			lock(t, index)
		}, BeingWritten, 32},
		"open, without an index": {func(t *testing.T, r *rig, data, index string) {
			unlist(r)
			rename(t, data)
			remove(t, index)
		}, LeftOpen, 16},
		"open, its data are behind": {func(t *testing.T, r *rig, data, _ string) {
			unlist(r)
			patch(t, data, func(b []byte) []byte { return b[:len(b)-1] })
			rename(t, data)
		}, LeftOpen, 28},
		"open, its index is behind": {func(t *testing.T, r *rig, data, index string) {
			unlist(r)
			patch(t, index, func(b []byte) []byte { return b[:len(b)-1] })
			rename(t, data)
		}, LeftOpen, 28},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, must.MemoryDir(t), FormatMEP)
			id := r.closed(0, mep(0, 1), mep(2, 1), mep(1, 1), mep(5, 1))
			r.closed(1, mep(3, 1), mep(4, 1), mep(7, 1), mep(6, 1))
			c.do(t, r, filepath.Join(r.dir, id.Name()), filepath.Join(r.dir, id.Index()))
			got := read(t, r.done())
			var kinds []string
			for p := range got.AllProblems {
				kinds = append(kinds, string(p.Kind))
				if p.Text == "" || p.File == "" {
					t.Errorf("%+v says nothing", p)
				}
			}
			if !strings.Contains(strings.Join(kinds, ","), string(c.kind)) {
				t.Errorf("problems: %v, want %s", kinds, c.kind)
			}
			if got.Events() != c.events {
				t.Errorf("%d events, want %d", got.Events(), c.events)
			}
		})
	}
}

func patched(which int, change func([]byte) []byte) func(*testing.T, *rig, string, string) {
	return func(t *testing.T, _ *rig, data, index string) { patch(t, [...]string{data, index}[which], change) }
}

func remove(t *testing.T, path string) {
	t.Helper()
	must.OK(t, os.Remove(path))
}

func rename(t *testing.T, path string) {
	t.Helper()
	must.OK(t, os.Rename(path, path+OpenSuffix))
}

func unlist(r *rig) { r.m.Builders[0].Segments = []Segment{} }

// lock holds the lock of a file as its writer does.
func lock(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err == nil {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
	}
	must.OK(t, err)
	t.Cleanup(func() { f.Close() })
}

func TestReadRefusesWhatIsNoRun(t *testing.T) {
	dir := t.TempDir()
	if _, err := Read(context.Background(), filepath.Join(dir, "none")); !os.IsNotExist(err) {
		t.Error(err)
	}
	for _, manifest := range []string{"", "{", `{"manifest_version":7}`} {
		must.OK(t, os.WriteFile(filepath.Join(dir, ManifestName), []byte(manifest), 0o666))
		if _, err := Read(context.Background(), dir); err == nil || !strings.Contains(err.Error(), ManifestName) {
			t.Errorf("%q: %v", manifest, err)
		}
	}
}
