package conversion_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"go-hep.org/x/hep/groot"
	"go-hep.org/x/hep/groot/rtree"

	"ringlet/convert/conversion"
	"ringlet/event/slowdata"
	"ringlet/recording"
	"ringlet/testkit/readback"
)

// TestSlowDataAreATable: each value once, by time, in a table of its own, which readers of the events pass over.
func TestSlowDataAreATable(t *testing.T) {
	dir, rows := recorded(t, recording.FormatMEP, 5)
	noon := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	var lines []byte
	for i, text := range []string{"21.5", "on target", "22", "21.5"} {
		v, err := slowdata.New([]string{"temp", "beam", "temp", "temp"}[i], text, noon.Add(time.Duration(-i%3)*time.Second))
		ok(t, err)
		lines = v.AppendJSON(lines)
	}
	ok(t, recording.AppendSlowData(dir, "n0", lines))
	ok(t, recording.AppendSlowData(dir, "n1", lines))
	run, _ := recording.ParseRunDir(dir)
	want := []string{
		fmt.Sprintf("%d %d temp=22", run, noon.UnixMicro()-2e6),
		fmt.Sprintf("%d %d beam=on target", run, noon.UnixMicro()-1e6),
		fmt.Sprintf("%d %d temp=21.5", run, noon.UnixMicro()),
	}
	for kind, read := range map[string]func(*testing.T, string) []string{
		"parquet": slowOfParquet, "root": slowOfROOT, "jsonl": slowOfLines, "h5": slowOfArrays, "npz": slowOfArrays,
	} {
		out := t.TempDir()
		r := convert(t, filepath.Join(out, "x."+kind), nil, dir)
		convert(t, filepath.Join(out, "parts"), func(o *conversion.Options) { o.To = kind }, dir)
		if r.SlowValues != 3 {
			t.Errorf("%s: %d values", kind, r.SlowValues)
		}
		same(t, back(t, filepath.Join(out, "parts")), rows)
		for _, path := range []string{"x.slow." + kind, "parts/_slow/00000." + kind} {
			if got := read(t, filepath.Join(out, path)); !slices.Equal(got, want) {
				t.Errorf("%s has %v, not %v", path, got, want)
			}
		}
		if left, _ := filepath.Glob(filepath.Join(out, "*.partial")); left != nil {
			t.Errorf("left: %v", left)
		}
	}
}

// TestSlowDataThatAreThere: a table of slow data that an earlier conversion has left is refused before anything is
// read, and replaced by force.
func TestSlowDataThatAreThere(t *testing.T) {
	dir, rows := recorded(t, recording.FormatMEP, 5)
	v, err := slowdata.New("temp", "22", time.Now())
	ok(t, err)
	ok(t, recording.AppendSlowData(dir, "n0", v.AppendJSON(nil)))
	out := filepath.Join(t.TempDir(), "x.parquet")
	left := strings.TrimSuffix(out, "parquet") + "slow.parquet"
	ok(t, os.WriteFile(left, []byte("mine"), 0o666))
	var exists *conversion.OutputExistsError
	if _, err := run(out, nil, dir); !errors.As(err, &exists) || exists.Path != left {
		t.Errorf("got %v", err)
	}
	convert(t, out, func(o *conversion.Options) { o.Force = true }, dir)
	same(t, back(t, out), rows)
	if got := slowOfParquet(t, left); len(got) != 1 {
		t.Errorf("%v", got)
	}
}

func slowOfParquet(t *testing.T, path string) (got []string) {
	f, err := file.OpenParquetFile(path, false)
	ok(t, err)
	defer func() { ok(t, f.Close()) }()
	r, err := pqarrow.NewFileReader(f, pqarrow.ArrowReadProperties{BatchSize: 100}, memory.DefaultAllocator)
	ok(t, err)
	all, err := r.ReadTable(context.Background())
	ok(t, err)
	defer all.Release()
	records := array.NewTableReader(all, 100)
	defer records.Release()
	for records.Next() {
		b := records.RecordBatch()
		for i := range int(b.NumRows()) {
			value := b.Column(5).ValueStr(i)
			if b.Column(5).IsNull(i) {
				value = b.Column(4).ValueStr(i)
			}
			got = append(got, fmt.Sprintf("%d %d %s=%s", b.Column(0).(*array.Uint32).Value(i),
				b.Column(1).(*array.Timestamp).Value(i), b.Column(3).ValueStr(i), value))
		}
	}
	return got
}

func slowOfROOT(t *testing.T, path string) (got []string) {
	f, err := groot.Open(path)
	ok(t, err)
	defer func() { ok(t, f.Close()) }()
	o, err := f.Get("slow")
	ok(t, err)
	var run uint32
	var at int64
	var value float64
	var isText bool
	var name, text string
	r, err := rtree.NewReader(o.(rtree.Tree), []rtree.ReadVar{
		{Name: "run", Value: &run}, {Name: "time_us", Value: &at}, {Name: "name", Value: &name},
		{Name: "value", Value: &value}, {Name: "is_text", Value: &isText}, {Name: "text", Value: &text},
	})
	ok(t, err)
	ok(t, errors.Join(r.Read(func(rtree.RCtx) error {
		shown := text
		if !isText {
			shown = fmt.Sprint(value)
		}
		got = append(got, fmt.Sprintf("%d %d %s=%s", run, at, name, shown))
		return nil
	}), r.Close()))
	return got
}

func slowOfArrays(t *testing.T, path string) (got []string) {
	all, err := readback.Read(path)
	ok(t, err)
	textsOf := func(name string) []string { return all[name].Texts(filepath.Ext(path) == ".npz") }
	for i, run := range all["run"].Uints() {
		value := fmt.Sprint(math.Float64frombits(all["value"].Uints()[i]))
		if value == "NaN" {
			value = textsOf("texts")[all["text"].Uints()[i]]
		}
		got = append(got, fmt.Sprintf("%d %d %s=%s", run, all["time_us"].Uints()[i],
			textsOf("names")[all["name"].Uints()[i]], value))
	}
	return got
}

func slowOfLines(t *testing.T, path string) (got []string) {
	text, err := os.ReadFile(path)
	ok(t, err)
	for line := range strings.Lines(string(text)) {
		var of struct{ Run uint32 }
		ok(t, json.Unmarshal([]byte(line), &of))
		v, err := slowdata.ParseJSON([]byte(line))
		ok(t, err)
		got = append(got, fmt.Sprintf("%d %d %s=%s", of.Run, v.Time.UnixMicro(), v.Name, v.String()))
	}
	return got
}
