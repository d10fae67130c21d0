package conversion_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"go-hep.org/x/hep/groot"
	"go-hep.org/x/hep/groot/rtree"

	"ringlet/testkit/readback"
)

// row is a row as it was read back.
type row struct {
	Run     uint32
	Event   uint64
	Orbit   uint32
	Bunch   uint32
	Source  uint16
	Type    uint8
	Version uint8
	Missing bool
	Size    uint32
	Data    []byte
	Trigger *uint64
	Stamp   *uint64
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// back reads a file, or all parts of a directory in order, with the library of the kind.
func back(t testing.TB, path string) (rows []row) {
	t.Helper()
	st, err := os.Stat(path)
	ok(t, err)
	if !st.IsDir() {
		return map[string]func(testing.TB, string) []row{
			".parquet": backParquet, ".root": backROOT, ".jsonl": backLines, ".h5": backArrays, ".npz": backArrays,
		}[filepath.Ext(path)](t, path)
	}
	names, err := os.ReadDir(path)
	ok(t, err)
	for _, n := range names { // in order of name
		if !strings.HasPrefix(n.Name(), "_") {
			rows = append(rows, back(t, filepath.Join(path, n.Name()))...)
		}
	}
	return rows
}

func backParquet(t testing.TB, path string) (rows []row) {
	t.Helper()
	f, err := file.OpenParquetFile(path, false)
	ok(t, err)
	defer func() { ok(t, f.Close()) }()
	r, err := pqarrow.NewFileReader(f, pqarrow.ArrowReadProperties{BatchSize: 1000}, memory.DefaultAllocator)
	ok(t, err)
	all, err := r.GetRecordReader(context.Background(), nil, nil)
	ok(t, err)
	defer all.Release()
	for all.Next() {
		rows = appendRows(rows, all.RecordBatch())
	}
	if err := all.Err(); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return rows
}

// appendRows appends the rows of a batch.
func appendRows(rows []row, b arrow.RecordBatch) []row {
	for i := range int(b.NumRows()) {
		rows = append(rows, row{
			Run:     b.Column(0).(*array.Uint32).Value(i),
			Event:   b.Column(1).(*array.Uint64).Value(i),
			Orbit:   b.Column(2).(*array.Uint32).Value(i),
			Bunch:   b.Column(3).(*array.Uint32).Value(i),
			Source:  b.Column(4).(*array.Uint16).Value(i),
			Type:    b.Column(5).(*array.Uint8).Value(i),
			Version: b.Column(6).(*array.Uint8).Value(i),
			Missing: b.Column(7).(*array.Boolean).Value(i),
			Size:    b.Column(8).(*array.Uint32).Value(i),
			Data:    slices.Clone(b.Column(9).(*array.Binary).Value(i)),
			Trigger: wordOf(b.Column(10).(*array.Uint64), i),
			Stamp:   wordOf(b.Column(11).(*array.Uint64), i),
		})
	}
	return rows
}

// wordOf is a word of a row; nil if it is null.
func wordOf(c *array.Uint64, i int) *uint64 {
	if c.IsNull(i) {
		return nil
	}
	return new(c.Value(i))
}

func backROOT(t testing.TB, path string) (rows []row) {
	t.Helper()
	f, err := groot.Open(path)
	ok(t, err)
	defer func() { ok(t, f.Close()) }()
	o, err := f.Get(f.Keys()[0].Name())
	ok(t, err)
	var r row
	var size int32
	var trigger, stamp uint64
	reader, err := rtree.NewReader(o.(rtree.Tree), []rtree.ReadVar{
		{Name: "run", Value: &r.Run}, {Name: "event", Value: &r.Event}, {Name: "orbit", Value: &r.Orbit},
		{Name: "bunch", Value: &r.Bunch}, {Name: "source", Value: &r.Source}, {Name: "type", Value: &r.Type},
		{Name: "version", Value: &r.Version}, {Name: "missing", Value: &r.Missing}, {Name: "size", Value: &size},
		{Name: "data", Value: &r.Data}, {Name: "trigger", Value: &trigger}, {Name: "stamp", Value: &stamp},
	})
	ok(t, err)
	defer func() { ok(t, reader.Close()) }()
	ok(t, reader.Read(func(rtree.RCtx) error {
		one := r
		one.Size, one.Data = uint32(size), slices.Clone(r.Data)
		if trigger < math.MaxUint64 {
			one.Trigger = new(trigger)
		}
		if stamp < math.MaxUint64 {
			one.Stamp = new(stamp)
		}
		rows = append(rows, one)
		return nil
	}))
	return rows
}

func backArrays(t testing.TB, path string) (rows []row) {
	t.Helper()
	all, err := readback.Read(path)
	ok(t, err)
	columns := map[string][]uint64{}
	for name, a := range all {
		if name != "data" {
			columns[name] = a.Uints()
		}
	}
	word := func(v uint64) *uint64 {
		if v == math.MaxUint64 {
			return nil
		}
		return &v
	}
	for i, event := range columns["event"] {
		at, size := columns["offset"][i], columns["size"][i]
		rows = append(rows, row{
			Run:     uint32(columns["run"][i]),
			Event:   event,
			Orbit:   uint32(columns["orbit"][i]),
			Bunch:   uint32(columns["bunch"][i]),
			Source:  uint16(columns["source"][i]),
			Type:    uint8(columns["type"][i]),
			Version: uint8(columns["version"][i]),
			Missing: columns["missing"][i] == 1,
			Size:    uint32(size),
			Data:    all["data"].Data[at : at+size],
			Trigger: word(columns["trigger"][i]),
			Stamp:   word(columns["stamp"][i]),
		})
	}
	return rows
}

func backLines(t testing.TB, path string) (rows []row) {
	t.Helper()
	f, err := os.Open(path)
	ok(t, err)
	defer func() { ok(t, f.Close()) }()
	dec := json.NewDecoder(bufio.NewReader(f))
	dec.DisallowUnknownFields()
	for {
		var r row
		if err := dec.Decode(&r); errors.Is(err, io.EOF) {
			return rows
		} else if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r)
	}
}

// same compares rows byte for byte.
func same(t testing.TB, got, want []row) {
	t.Helper()
	for i := range min(len(got), len(want)) {
		g, w := got[i], want[i]
		if string(g.Data) != string(w.Data) {
			t.Fatalf("row %d, event %d, source %d: the data differ: %d and %d bytes", i, w.Event, w.Source, len(g.Data),
				len(w.Data))
		}
		g.Data, w.Data, w.Size = nil, nil, uint32(len(w.Data))
		if !equal(g, w) {
			t.Fatalf("row %d: got %+v, want %+v", i, g, w)
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d rows, want %d", len(got), len(want))
	}
}

func equal(a, b row) bool {
	return a.Run == b.Run && a.Event == b.Event && a.Orbit == b.Orbit && a.Bunch == b.Bunch && a.Source == b.Source &&
		a.Type == b.Type && a.Version == b.Version && a.Missing == b.Missing && a.Size == b.Size &&
		sameWord(a.Trigger, b.Trigger) && sameWord(a.Stamp, b.Stamp)
}

func sameWord(a, b *uint64) bool { return a == b || a != nil && b != nil && *a == *b }
