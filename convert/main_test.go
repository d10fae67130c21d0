package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"ringlet/convert/conversion"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What the program says, and its exit codes.
func TestProgram(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, b := range map[string]string{"empty.mdf": "", "bad.mdf": "This is no record at all.", "unknown": "x"} {
		if err := os.WriteFile(name, []byte(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"empty.mdf -o x.parquet", 0, "x.parquet: 0 rows, 0 bytes of data; 0 missing fragments; 0 damaged places"},
		{"empty.mdf -o x.parquet", exitUsage, "x.parquet is there already: give another name, or --force"},
		{"empty.mdf -o x.parquet --force --quiet", 0, ""},
		{"empty.mdf", exitUsage, "missing flags: --output"},
		{"empty.mdf -o y --to csv", exitUsage, `--to must be one of`},
		{"empty.mdf -o y --part-size 0", exitUsage, "--part-size is 0 and --max-record 256: give --part-size 1 or above"},
		{"empty.mdf -o y --to root --to jsonl", exitUsage, "--to is given twice: give it once"},
		{"empty.mdf -o y --output z", exitUsage, "--output is given twice"},
		{"empty.mdf -o x.jsonl --quiet --quiet", 0, ""},
		{"absent.mdf -o y", exitError, "absent.mdf: no such file"},
		{"bad.mdf -o y.jsonl", exitInput, "bad.mdf: mdf record 0 at offset 0: record size: the three sizes"},
		{"bad.mdf -o y.jsonl --on-bad-record skip", 0, "left out: bad.mdf: mdf record 0"},
		{"unknown -o y", exitInput, "name the format"},
		{"unknown -o z --format mep", exitInput, "unknown: mep record 0 at offset 0: header: 1 bytes left"},
		{"empty.mdf -o y.csv", exitUsage, "y.csv has the ending .csv, which this program does not write: a file ends with " +
			".parquet, .root, .jsonl, .h5 or .npz; a directory ends with /"},
		{"empty.mdf -o y.root --to jsonl", exitUsage, "y.root ends with .root, and the format is jsonl"},
		{". -o y", exitError, "run.json cannot be used: it does not exist"},
	} {
		var out bytes.Buffer
		code := run(strings.Fields(c.args), &out, false)
		if code != c.code || !strings.Contains(out.String(), c.says) || c.says == "" && out.Len() > 0 {
			t.Errorf("%s: code %d, want %d; it says\n%s", c.args, code, c.code, out.String())
		}
	}
	if partial, _ := filepath.Glob("*.partial"); partial != nil {
		t.Errorf("%v is left", partial)
	}
}

// On a terminal there is one line, which is gone at the end.
func TestProgressIsOnTheTerminal(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("bad.mdf", []byte("This is no record at all."), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if code := run(strings.Fields("bad.mdf -o y.jsonl --on-bad-record skip"), &out, true); code != 0 ||
		!strings.Contains(out.String(), "\r\x1b[K100.0 % of 0.0 MB, 0 rows") {
		t.Errorf("code %d; it says\n%q", code, out.String())
	}
}

// What --once left out stands in the summary, by source.
func TestSummaryNamesWhatOnceLeftOut(t *testing.T) {
	var out bytes.Buffer
	p := &progress{to: &out}
	r := conversion.Result{Rows: 160_000, Dropped: map[uint16]uint64{3: 30, 1: 305}}
	p.done("x.parquet", r)
	if !strings.HasSuffix(out.String(),
		"left out by --once, since an earlier input has them: 335 fragments, 305 of source 1, 30 of source 3\n") {
		t.Error(out.String())
	}
	for s := range uint16(100) {
		r.Dropped[s] = 1
	}
	p.done("x.parquet", r)
	if !strings.HasSuffix(out.String(), ", 1 of source 63, the rest of 36 other sources\n") {
		t.Error(out.String())
	}
	r.Rows = 900
	p.done("x.parquet", r)
	if !strings.HasSuffix(out.String(), "if each run numbers its events anew, convert each alone\n") {
		t.Error(out.String())
	}
}
