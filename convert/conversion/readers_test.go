package conversion_test

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"go-hep.org/x/hep/groot"

	"ringlet/convert/conversion"
	"ringlet/convert/output"
	"ringlet/event"
	"ringlet/recording"
	"ringlet/testkit/interpreted"
	"ringlet/testkit/mfp"
	"ringlet/testkit/readback"
)

// What others read is what was measured: each reader reads all rows of files of each kind, with the largest numbers and
// lengths, without rows, in parts, and with a table for each type of bank, as JSON lines have them. The readers are
// programs of convert/readers.
func TestReadByOthers(t *testing.T) {
	dir := os.Getenv("RINGLET_READERS")
	if _, err := os.Stat(filepath.Join(dir, "root.mjs")); dir == "" || err != nil {
		t.Skip("SKIPPED: the readers are not installed: make check-convert does it, with node and npm")
	}
	made := convertedFiles(t)
	for _, p := range []string{"hyparquet.mjs", "wasm.mjs"} {
		readBy(t, []string{"node", filepath.Join(dir, p)}, made[".parquet"])
	}
	readBy(t, []string{"node", filepath.Join(dir, "root.mjs")}, made[".root"])
}

// TestReadByPython: h5py and NumPy read the files as TestReadByOthers has it.
func TestReadByPython(t *testing.T) {
	command := append(interpreted.H5py(t), filepath.Join("..", "readers", "arrays.py"))
	made := convertedFiles(t)
	readBy(t, command, made[".h5"])
	readBy(t, command, made[".npz"])
}

// TestReadByH5dump: the tool of the HDF Group reads columns to their last byte.
func TestReadByH5dump(t *testing.T) {
	if _, err := exec.LookPath("h5dump"); err != nil {
		t.Skip("SKIPPED: there is no h5dump (Debian: hdf5-tools)")
	}
	many, _ := meps(t, 30)
	for _, in := range []string{many, largest(t)} {
		path := filepath.Join(t.TempDir(), "x.h5")
		convert(t, path, nil, in)
		want, err := readback.Read(path)
		ok(t, err)
		for _, name := range []string{"event", "source", "size", "offset", "data"} {
			to := filepath.Join(t.TempDir(), "bytes")
			out, err := exec.Command("h5dump", "-d", "/fragments/"+name, "-b", "LE", "-o", to, path).CombinedOutput()
			got, _ := os.ReadFile(to)
			if err != nil || !bytes.Equal(got, want[name].Data) {
				t.Errorf("%s: %v, %d bytes, want %d\n%.500s", name, err, len(got), len(want[name].Data), out)
			}
		}
	}
}

// convertedFiles are files of each kind, by their endings.
func convertedFiles(t *testing.T) map[string][]string {
	t.Helper()
	many, _ := meps(t, 30)
	to := t.TempDir()
	made := map[string][]string{} // files, by extension
	for name, in := range map[string]string{
		"many":    many,
		"records": generated(t, recording.FormatMDF, 300, 40),
		"largest": largest(t),
		"banks":   containers(t, false),
		"none":    newFile(t, "x.mdf", nil),
	} {
		for _, k := range output.Kinds {
			change := func(o *conversion.Options) {
				o.Run, o.To, o.Banks, o.PartBytes = math.MaxUint32, k.Name, name == "banks", 800_000
			}
			convert(t, filepath.Join(to, name+"."+k.Name), change, in)
			ok(t, os.MkdirAll(filepath.Join(to, k.Name), 0o777))
			convert(t, filepath.Join(to, k.Name, name), change, in)
		}
	}
	ok(t, filepath.WalkDir(to, func(path string, _ os.DirEntry, err error) error {
		made[filepath.Ext(path)] = append(made[filepath.Ext(path)], path)
		return err
	}))
	for _, k := range output.Kinds {
		if n := len(made["."+k.Name]); n < 12 || n != len(made[".jsonl"]) {
			t.Errorf("%d files %s, %d of JSON lines", n, k.Name, len(made[".jsonl"]))
		}
	}
	return made
}

// readBy holds what a program reads of files against the JSON lines of the same.
func readBy(t *testing.T, command, paths []string) {
	t.Helper()
	program := filepath.Base(command[len(command)-1])
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	command = slices.Concat(command, paths)
	if out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", program, err, out)
		return
	}
	for _, path := range paths {
		got, err := os.ReadFile(path + ".read")
		ok(t, err)
		ok(t, os.Remove(path+".read"))
		kind := filepath.Ext(path)[1:]
		lines := strings.Replace(strings.TrimSuffix(path, kind)+"jsonl", "/"+kind+"/", "/jsonl/", 1)
		if program == "wasm.mjs" {
			same(t, arrowRows(t, got), backLines(t, lines))
			continue
		}
		want, err := os.ReadFile(lines)
		ok(t, err)
		if !bytes.Equal(got, want) {
			t.Errorf("%s reads %s otherwise: %d bytes, want %d; it begins\n%.300s\n%.300s", program, path,
				len(got), len(want), got, want)
		}
	}
}

// arrowRows are the rows of a stream of Arrow.
func arrowRows(t *testing.T, stream []byte) (rows []row) {
	t.Helper()
	r, err := ipc.NewReader(bytes.NewReader(stream))
	ok(t, err)
	defer r.Release()
	for r.Next() {
		rows = appendRows(rows, r.RecordBatch())
	}
	ok(t, r.Err())
	return rows
}

// largest is a file with one MEP of the largest numbers, and of fragments of each length about that of a basket.
func largest(t *testing.T) string {
	t.Helper()
	rnd := rand.New(rand.NewPCG(3, 3))
	const n = 20
	mep := make([]byte, event.MEPHeaderSize(2))
	var offsets []uint32
	for s := range uint16(2) {
		var list []mfp.Fragment
		for i := range n {
			b := make([]byte, []int{0, 1, 32<<10 - 1, 32 << 10, 32<<10 + 1, event.MaxNarrowFragment}[i%6])
			for k := range b {
				b[k] = byte(rnd.Uint32())
			}
			list = append(list, mfp.Fragment{Type: math.MaxUint8, Data: b})
		}
		offsets = append(offsets, uint32(len(mep)/4))
		mep = append(mep, mfp.Build(event.MFPHeader{
			FirstEvent: math.MaxUint64 - n,
			Source:     math.MaxUint16 - 1 + s,
			Align:      2,
			Version:    math.MaxUint8,
		}, list...)...)
	}
	_, err := event.PutMEPHeader(mep, []uint16{math.MaxUint16 - 1, math.MaxUint16}, offsets, uint32(len(mep)/4))
	ok(t, err)
	return newFile(t, "largest.mep", mep)
}

// The root element of a Parquet file does not repeat: readers that go by the letter look for levels of repetition
// otherwise, and fail. And a ROOT file describes the class of each leaf.
func TestFilesDescribeThemselves(t *testing.T) {
	path, _ := meps(t, 2)
	out := filepath.Join(t.TempDir(), "x.parquet")
	convert(t, out, nil, path)
	p, err := file.OpenParquetFile(out, false)
	ok(t, err)
	defer func() { ok(t, p.Close()) }()
	if got := p.MetaData().Schema.Root().RepetitionType(); got != parquet.Repetitions.Required {
		t.Errorf("the root element is %v", got)
	}
	for range 2 { // groot takes descriptions from the files that it reads
		out = filepath.Join(t.TempDir(), "x.root")
		convert(t, out, nil, path)
		f, err := groot.Open(out)
		ok(t, err)
		described := map[string]int{}
		for _, s := range f.StreamerInfos() {
			described[s.Name()]++
		}
		for _, class := range []string{"TTree", "TBranch", "TLeaf", "TLeafB", "TLeafI", "TLeafL", "TLeafO", "TLeafS"} {
			if described[class] != 1 {
				t.Errorf("%s is described %d times", class, described[class])
			}
		}
		ok(t, f.Close())
	}
}
