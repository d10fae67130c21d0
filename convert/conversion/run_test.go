package conversion_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"ringlet/convert/conversion"
	"ringlet/convert/input"
	"ringlet/convert/output"
	"ringlet/event"
	"ringlet/lab/inspect"
	"ringlet/recording"
)

// Each kind, as a file and as a directory of many parts, read back by the library of the kind, is what the MEPs hold.
func TestEachKindHoldsTheFragments(t *testing.T) {
	path, want := meps(t, 20)
	for _, k := range output.Kinds {
		one := filepath.Join(t.TempDir(), "x."+k.Name)
		r := convert(t, one, nil, path)
		same(t, back(t, one), want)
		dir := filepath.Join(t.TempDir(), "rows")
		convert(t, dir, func(o *conversion.Options) { o.To, o.PartBytes = k.Name, 100_000 }, path)
		same(t, back(t, dir), want)
		if names, _ := filepath.Glob(filepath.Join(dir, "0*."+k.Name)); len(names) < 3 {
			t.Errorf("%s: parts are %v", k.Name, names)
		}
		if r.Rows != uint64(len(want)) || r.Units != 20 || r.Read != r.Total || r.Missing == 0 || r.Bad != 0 {
			t.Errorf("%s: %+v", k.Name, r)
		}
	}
}

// A recording comes in the order of events, in each format of segments.
func TestRecordingComesInOrder(t *testing.T) {
	for _, f := range []recording.Format{recording.FormatMEP, recording.FormatMDF, recording.FormatMFP} {
		dir, want := recorded(t, f, 12)
		out := filepath.Join(t.TempDir(), "x.parquet")
		convert(t, out, nil, dir)
		same(t, back(t, out), want)
		convert(t, out, func(o *conversion.Options) { o.Force = true }, filepath.Dir(dir)) // with one run in it
		same(t, back(t, out), want)
		ok(t, os.Mkdir(recording.RunDir(filepath.Dir(dir), 124), 0o777))
		if _, err := run(out, nil, filepath.Dir(dir)); err == nil {
			t.Error("of two runs, one was taken")
		}
	}
}

// MDF records of several files are numbered through, and orbit and bunch are those of their headers.
func TestRecordsAreNumbered(t *testing.T) {
	path := generated(t, recording.FormatMDF, 50, 40)
	out := filepath.Join(t.TempDir(), "x.parquet")
	convert(t, out, nil, path, path)
	rows := back(t, out)
	if len(rows) != 300 {
		t.Fatalf("%d rows", len(rows))
	}
	b, err := os.ReadFile(path)
	ok(t, err)
	records, at := event.NewMDFCursor(b, true), 0
	for i := range uint64(50) {
		r, err := records.Next()
		ok(t, err)
		for bank, err := range event.Banks(r.Payload()) {
			ok(t, err)
			for copied := range 2 {
				got := rows[at+150*copied]
				if got.Event != i+50*uint64(copied) || got.Run != 7 || got.Bunch != r.HeaderFields().Bunch ||
					!bytes.Equal(got.Data, bank.Data()) {
					t.Fatalf("row %d: %+v", at, got)
				}
			}
			at++
		}
	}
}

func TestContainersAreTakenApart(t *testing.T) {
	path := containers(t, false)
	out := filepath.Join(t.TempDir(), "banks")
	convert(t, out, func(o *conversion.Options) { o.Banks = true }, path)
	names, err := filepath.Glob(filepath.Join(out, "*", "00000.parquet"))
	ok(t, err)
	got := map[string]row{}
	for _, n := range names {
		rows := back(t, n)
		if len(rows) != 1 {
			t.Errorf("%s has %d rows", n, len(rows))
		}
		got[filepath.Base(filepath.Dir(n))] = rows[0]
	}
	if len(got) != 5 || got["Rich"].Source != 1 || len(got["Rich"].Data) != 24 {
		t.Fatalf("got %v", got)
	}
	for i, name := range []string{"DstData", "DstAddress", "FileID", "VP"} {
		r := got[name]
		if r.Event != 5 || r.Type != uint8(60+i) || r.Version != uint8(i) || r.Source != uint16(int16(-i)) ||
			!bytes.Equal(r.Data, bytes.Repeat([]byte{byte(i)}, 5*i)) {
			t.Errorf("%s: %+v", name, r)
		}
	}
	complete := filepath.Join(t.TempDir(), "x.root")
	convert(t, complete, nil, path)
	if rows := back(t, complete); len(rows) != 3 || rows[0].Type != uint8(event.FragmentContainer) {
		t.Errorf("as they are: %v", rows)
	}
}

// Without --banks a spoiled container is like any other fragment. With it, it ends the conversion, or comes as it is.
func TestSpoiledContainer(t *testing.T) {
	path := containers(t, true)
	_, err := run(filepath.Join(t.TempDir(), "x.parquet"), func(o *conversion.Options) { o.Banks = true }, path)
	if !errors.Is(err, event.ErrMagic) {
		t.Fatalf("got %v", err)
	}
	out := filepath.Join(t.TempDir(), "x.jsonl")
	r := convert(t, out, func(o *conversion.Options) { o.Banks, o.Skip = true, true }, path)
	if rows := back(t, out); r.Bad != 1 || len(rows) != 4 || rows[3].Type != uint8(event.FragmentContainer) {
		t.Errorf("%d bad; %v", r.Bad, rows)
	}
}

// Damage is named by file, record and offset, and ends the conversion without an output; or all but the damaged unit
// is there.
func TestDamagedInput(t *testing.T) {
	for _, format := range []recording.Format{recording.FormatMDF, recording.FormatMEP} {
		path := generated(t, format, 300, 40)
		good := filepath.Join(t.TempDir(), "good.jsonl")
		convert(t, good, nil, path)
		b, err := os.ReadFile(path)
		ok(t, err)
		units := event.NewUnitReader(bytes.NewReader(b), event.UnitReaderOptions{Format: format.String()})
		for range 2 {
			_, err := units.Next()
			ok(t, err)
		}
		at := units.Offset()
		// of the first bank or MFP
		magic := map[recording.Format]int64{recording.FormatMDF: 48, recording.FormatMEP: 28}[format]
		b[at+magic] ^= 0xFF
		ok(t, os.WriteFile(path, b, 0o666))

		out := filepath.Join(t.TempDir(), "x.jsonl")
		_, err = run(out, nil, path)
		var bad *input.BadError
		if !errors.As(err, &bad) || bad.File != path || bad.Record != 1 || bad.Offset < at || bad.Offset > at+60 {
			t.Errorf("%s: got %v", format, err)
		}
		if outputs, _ := filepath.Glob(out + "*"); outputs != nil {
			t.Errorf("%s: %v is left", format, outputs)
		}
		named := 0
		r := convert(t, out, func(o *conversion.Options) {
			o.Skip, o.Bad = true, func(*input.BadError) { named++ }
		}, path)
		want := back(t, good)
		gone := 3 // fragments of an event
		if format == recording.FormatMEP {
			gone = 300
		}
		same(t, back(t, out), append(want[:gone:gone], want[2*gone:]...))
		if r.Bad != 1 || named != 1 {
			t.Errorf("%s: %d bad, %d named", format, r.Bad, named)
		}
	}
}

// Of a damaged recording all is converted but what is damaged, which the journal names.
func TestDamagedRecording(t *testing.T) {
	dir, want := recorded(t, recording.FormatMEP, 10)
	path := filepath.Join(dir, "bu0-00001.mep")
	b, err := os.ReadFile(path)
	ok(t, err)
	p, err := event.ParseMEP(b)
	ok(t, err)
	f, err := p.MFP(0)
	ok(t, err)
	b[200] ^= 1
	ok(t, os.WriteFile(path, b, 0o666))
	out := filepath.Join(t.TempDir(), "rows")
	var problem *recording.Problem
	if _, err = run(out, nil, dir); !errors.As(err, &problem) || problem.Kind != recording.DamagedData {
		t.Fatalf("got %v", err)
	}
	convert(t, out, func(o *conversion.Options) { o.Skip = true }, dir) // goes on, where it stopped
	at := int(f.FirstEvent()) * sources
	same(t, back(t, out), append(want[:at:at], want[at+packing*sources:]...))
	b, err = os.ReadFile(filepath.Join(out, "_convert.json"))
	ok(t, err)
	var journal struct {
		Bad      int
		BadFirst []string `json:"bad_first"`
		Done     bool
	}
	ok(t, json.Unmarshal(b, &journal))
	if !journal.Done || journal.Bad != 1 || len(journal.BadFirst) != 1 || !strings.Contains(journal.BadFirst[0], path) {
		t.Errorf("the journal says %+v", journal)
	}
}

// A segment that no index proves ends the conversion.
func TestSegmentWithoutAnIndex(t *testing.T) {
	dir, _ := recorded(t, recording.FormatMEP, 4)
	ok(t, os.Remove(filepath.Join(dir, "bu0-00001.idx")))
	if _, err := run(filepath.Join(t.TempDir(), "x.root"), nil, dir); err == nil ||
		!strings.Contains(err.Error(), "bu0-00001.idx: missing file") {
		t.Errorf("got %v", err)
	}
}

// The directory of a run that a live process writes is refused.
func TestLiveRunIsRefused(t *testing.T) {
	dir, _ := recorded(t, recording.FormatMEP, 4)
	ok(t, os.WriteFile(filepath.Join(dir, "bu0-00002.mep.open"), nil, 0o666))
	index, err := os.Create(filepath.Join(dir, "bu0-00002.idx"))
	ok(t, err)
	defer func() { ok(t, index.Close()) }()
	ok(t, syscall.Flock(int(index.Fd()), syscall.LOCK_EX))
	var live *input.LiveError
	if _, err := run(filepath.Join(t.TempDir(), "x.root"), nil, dir); !errors.As(err, &live) {
		t.Errorf("got %v", err)
	}
}

func TestEmptyInput(t *testing.T) {
	path := newFile(t, "x.mdf", nil)
	for _, k := range output.Kinds {
		for _, name := range []string{"x." + k.Name, "rows"} {
			out := filepath.Join(t.TempDir(), name)
			r := convert(t, out, func(o *conversion.Options) { o.To = k.Name }, path)
			if rows := back(t, out); len(rows) != 0 || !reflect.DeepEqual(r, conversion.Result{}) {
				t.Errorf("%s: %v, %+v", k.Name, rows, r)
			}
		}
	}
}

// Nothing that stands there is touched without Force, and with it only what a conversion made.
func TestOutputIsNotReplaced(t *testing.T) {
	path := newFile(t, "x.mdf", nil)
	dir := t.TempDir()
	mine := filepath.Join(dir, "mine")
	ok(t, os.Mkdir(mine, 0o777))
	ok(t, os.WriteFile(filepath.Join(dir, "x.root"), []byte("mine"), 0o666))
	convert(t, filepath.Join(dir, "made"), nil, path)
	for name, force := range map[string]bool{"x.root": true, "made": true, "mine": false} {
		out := filepath.Join(dir, name)
		var exists *conversion.OutputExistsError
		if _, err := run(out, nil, path); !errors.As(err, &exists) {
			t.Errorf("%s: got %v", name, err)
		}
		_, err := run(out, func(o *conversion.Options) { o.Force = true }, path)
		if (err == nil) != force {
			t.Errorf("%s by force: %v", name, err)
		}
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "*.*")); len(files) != 1 {
		t.Errorf("%v is left", files)
	}
	if _, err := run(filepath.Join(dir, "y.root"), func(o *conversion.Options) { o.To = "jsonl" }, path); err == nil {
		t.Error("a ROOT file of JSON lines was made")
	}
}

// The numbers of the reference sample are those of `ringlet inspect`.
func TestSampleAgreesWithInspect(t *testing.T) {
	path := os.Getenv("RINGLET_MDF_SAMPLE")
	if path == "" {
		path = "../shared/data/minbias-10.mdf"
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join("..", "..", path)
	}
	if _, err := os.Stat(path); err != nil {
		t.Skipf("SKIPPED: no reference sample (%v); set RINGLET_MDF_SAMPLE", err)
	}
	var text bytes.Buffer
	ok(t, inspect.Inspect(t.Context(), &text, path, inspect.Options{}))
	_, line, _ := strings.Cut(text.String(), " banks ")
	var banks, bytes int
	_, err := fmt.Sscan(line, &banks, &bytes)
	ok(t, err)
	for _, k := range output.Kinds {
		out := filepath.Join(t.TempDir(), "x."+k.Name)
		convert(t, out, nil, path)
		rows, size := back(t, out), 0
		for _, r := range rows {
			size += len(r.Data)
		}
		if len(rows) != banks || size != bytes {
			t.Errorf("%s: %d banks, %d bytes; inspect says %d, %d", k.Name, len(rows), size, banks, bytes)
		}
	}
}
