package slowdata

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func TestLinesOfSenders(t *testing.T) {
	for line, want := range map[string]string{
		"temp 21.5":             `{"name":"temp","value":21.5,"time":"2026-11-29T12:00:00.000000Z"`,
		"  hv.tof/3 -1e3\r":     `{"name":"hv.tof/3","value":-1000,"time":"2026-11-29T12:00:00.000000Z"`,
		"beam ON 1796040000.25": `{"name":"beam","value":"ON","time":"2026-11-30T12:00:00.250000Z"`,
		`note "two  \"words\"" 2026-11-29T13:00:00+01:00`: `{"name":"note","value":"two  \"words\"","time":"2026-11-29T12:00:00.000000Z"`,
		"serial 0x12": `{"name":"serial","value":"0x12","time":"2026-11-29T12:00:00.000000Z"`,
		`empty ""`:    `{"name":"empty","value":"","time":"2026-11-29T12:00:00.000000Z"`,
	} {
		v, err := Parse(line, noon)
		if err != nil {
			t.Errorf("%q: %v", line, err)
		}
		if got := string(v.AppendJSON(nil)); !strings.HasPrefix(got, want) {
			t.Errorf("%q is written as %s", line, got)
		}
	}
}

func TestRefusedLines(t *testing.T) {
	for line, want := range map[string]string{
		"":                               "has no value",
		"temp":                           "has no value",
		"temp ":                          "has no value",
		"temp nan":                       "no finite number",
		"temp 1e999":                     "no finite number",
		"temp -inf":                      "no finite number",
		"3temp 1":                        "begins with a letter",
		"te\tmp 1":                       "begins with a letter",
		"tëmp 1":                         "begins with a letter",
		strings.Repeat("n", 65) + " 1":   "65 bytes",
		"t " + strings.Repeat("x", 1025): "1025 bytes",
		`t "open`:                        "closing quote",
		"t 1 yesterday":                  "neither seconds",
		"t 1 -5":                         "neither seconds",
		"t 1 1.0123456789":               "neither seconds",
		"t 1 99999999999":                "neither seconds",
		"t 1 9999999999":                 "year 2286",
		"t 1 1796040000 2":               "neither seconds",
		"t \xff":                         "not UTF-8",
		`t "` + "\\ud800" + strings.Repeat("x", 1022) + `"`: "1025 bytes",
	} {
		if v, err := Parse(line, noon); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; want %q", line, v, err, want)
		}
	}
}

// TestWhatIsWrittenIsRead: a line of a recording gives the value back, to the microsecond.
func TestWhatIsWrittenIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := Value{
			Name:     rapid.StringMatching(`[a-zA-Z][a-zA-Z0-9_.:/-]{0,63}`).Draw(t, "name"),
			IsText:   rapid.Bool().Draw(t, "text"),
			Time:     time.UnixMicro(rapid.Int64Range(0, 7e15).Draw(t, "time")).UTC(),
			Received: time.UnixMicro(rapid.Int64Range(0, 7e15).Draw(t, "received")).UTC(),
			User:     rapid.SampledFrom([]string{"", "alice"}).Draw(t, "user"),
		}
		if v.IsText {
			v.Text = rapid.StringN(0, 250, maxText).Draw(t, "value")
		} else {
			v.Number = rapid.Float64().Draw(t, "number")
		}
		line := v.AppendJSON(nil)
		if len(line) > MaxLine+1 || strings.Count(string(line), "\n") != 1 {
			t.Fatalf("%d bytes: %s", len(line), line)
		}
		if got, err := ParseJSON(line); err != nil || got != v {
			t.Fatalf("%s is read as %+v, %v", line, got, err)
		}
	})
}

func TestTheLastValueOfANameCounts(t *testing.T) {
	var table Table
	for i, at := range []time.Duration{time.Hour, 0, 2 * time.Second, time.Second} { // the first by a wrong clock
		v, err := New("temp", fmt.Sprint(i), noon.Add(at))
		v.Received = noon.Add(3 * time.Second)
		if err == nil {
			err = table.Note(v)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := table.Values(); len(got) != 1 || got[0].Number != 2 {
		t.Errorf("the table has %v", got)
	}
	for i := range maxNames {
		v, _ := New(fmt.Sprintf("n%d", i), "1", noon)
		if err := table.Note(v); (err != nil) != (i == maxNames-1) {
			t.Errorf("name %d: %v", i, err)
		}
	}
	again, _ := New("n0", "2", noon)
	if err := table.Note(again); err != nil {
		t.Errorf("a known name: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, line := range []string{"temp 21.5", `note "x" 1796040000.25`, "a b 2026-11-29T13:00:00Z", "t nan", `t "\ud800`} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		v, err := Parse(line, noon)
		if err != nil {
			return
		}
		written := v.AppendJSON(nil)
		if len(written) > MaxLine+1 {
			t.Fatalf("%d bytes", len(written))
		}
		back, err := ParseJSON(written)
		if err != nil || back.Name != v.Name || back.String() != v.String() {
			t.Fatalf("%q: %s is read as %v, %v", line, written, back, err)
		}
	})
}

func FuzzParseJSON(f *testing.F) {
	f.Add([]byte(`{"name":"a","value":1,"time":"2026-11-29T12:00:00.000000Z","received":"2026-11-29T12:00:00.000000Z"}`))
	f.Add([]byte(`{"name":"a","value":null}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		v, err := ParseJSON(line)
		if err != nil {
			return
		}
		if again, err := ParseJSON(v.AppendJSON(nil)); err != nil || again.String() != v.String() {
			t.Fatalf("%s: %v, %v", line, again, err)
		}
	})
}
