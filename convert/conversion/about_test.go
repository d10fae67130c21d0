package conversion_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/parquet/file"
	"go-hep.org/x/hep/groot"
	"go-hep.org/x/hep/groot/root"

	"ringlet/convert/conversion"
	"ringlet/convert/output"
	"ringlet/recording"
	"ringlet/testkit/readback"
)

// TestFilesDescribeTheirRun: each file says of which runs its rows are, and in a directory the journal does.
func TestFilesDescribeTheirRun(t *testing.T) {
	dir, _ := recorded(t, recording.FormatMEP, 2)
	begun, ended := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC), time.Date(2026, 11, 29, 12, 5, 0, 0, time.UTC)
	path := filepath.Join(dir, recording.ManifestName)
	b, err := os.ReadFile(path)
	ok(t, err)
	var m recording.Manifest
	ok(t, json.Unmarshal(b, &m))
	m.Created, m.Program = begun, "v1"
	m.Verdict = &recording.Verdict{Verdict: "GOOD", EndCause: "duration", ConcludedAt: ended}
	b, err = json.Marshal(m)
	ok(t, err)
	ok(t, os.WriteFile(path, b, 0o666))

	texts := map[string]string{}
	for _, k := range output.Kinds {
		out := t.TempDir()
		one := filepath.Join(out, "x."+k.Name)
		program := func(o *conversion.Options) { o.Program, o.To = "v2", k.Name }
		convert(t, one, program, dir)
		if k.Name != "jsonl" {
			texts[k.Name] = aboutOf(t, one)
		}
		convert(t, filepath.Join(out, "rows"), program, dir)
		b, err := os.ReadFile(filepath.Join(out, "rows", "_convert.json"))
		ok(t, err)
		var journal struct{ About json.RawMessage }
		ok(t, json.Unmarshal(b, &journal))
		texts[k.Name+"'s journal"] = string(journal.About)
	}
	for what, text := range texts {
		var about struct {
			Converter string
			Inputs    []string
			Runs      []struct {
				Run                         uint32
				Key, Program, Verdict       string
				Created, Concluded          time.Time
				EndCause, ConfigurationHash string
			}
		}
		if err := json.Unmarshal([]byte(text), &about); err != nil || len(about.Inputs) != 1 || len(about.Runs) != 1 {
			t.Errorf("%s: %v: %s", what, err, text)
			continue
		}
		r := about.Runs[0]
		if about.Converter != "v2" || about.Inputs[0] != dir || r.Run != m.Run || r.Key != m.Key.String() ||
			r.Program != "v1" || r.Verdict != "GOOD" || !r.Created.Equal(begun) || !r.Concluded.Equal(ended) {
			t.Errorf("%s: %s", what, text)
		}
	}
}

// aboutOf is the description in a file.
func aboutOf(t *testing.T, path string) string {
	t.Helper()
	switch filepath.Ext(path) {
	case ".parquet":
		f, err := file.OpenParquetFile(path, false)
		ok(t, err)
		defer func() { ok(t, f.Close()) }()
		return *f.MetaData().KeyValueMetadata().FindValue("about")
	case ".root":
		f, err := groot.Open(path)
		ok(t, err)
		defer func() { ok(t, f.Close()) }()
		o, err := f.Get("about")
		ok(t, err)
		return o.(root.ObjString).String()
	default:
		all, err := readback.Read(path)
		ok(t, err)
		return all["about"].Texts(filepath.Ext(path) == ".npz")[0]
	}
}
