package gen

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"ringlet/builderunit/sink"
	"ringlet/event"
	"ringlet/event/pattern"
	"ringlet/recording"
	"ringlet/source"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestGenerate(t *testing.T) {
	c := Config{Events: 1003, Packing: 100, Streams: 6, FragmentSize: 133, Seed: 4, AlignLog2: 2, Run: 77}
	p, err := pattern.New(pattern.Config{Seed: 4, Sources: 6, FragmentSize: 133, Align: 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []recording.Format{recording.FormatMDF, recording.FormatMFP, recording.FormatMEP} {
		t.Run(format.String(), func(t *testing.T) {
			dir := t.TempDir()
			c.Format, c.Path = format, filepath.Join(dir, "x")
			r, err := Generate(t.Context(), c)
			if err != nil || r.Events != c.Events || r.MEPs != 11 {
				t.Fatal(err, r)
			}
			data, err := os.ReadFile(c.Path)
			if err != nil || uint64(len(data)) != r.Bytes {
				t.Fatal(err, len(data), r)
			}
			switch format {
			case recording.FormatMDF:
				checkMDF(t, p, data, c)
			case recording.FormatMFP:
				for n := 0; len(data) > 0; n++ {
					data = data[checkMFP(t, p, data, n%6, uint64(n/6)*100):]
				}
			case recording.FormatMEP:
				for k := uint64(0); len(data) > 0; k++ {
					m, err := event.ParseMEP(data)
					if err != nil || m.Verify() != nil {
						t.Fatal(err)
					}
					for s := range m.NumMFPs() {
						checkMFP(t, p, data[m.Offset(s):], s, k*100)
					}
					data = data[len(m.Bytes()):]
				}
			}
		})
	}
}

func checkMFP(t *testing.T, p *pattern.Pattern, data []byte, source int, first uint64) int {
	t.Helper()
	m, err := event.ParseMFP(data)
	if err != nil {
		t.Fatal(err)
	}
	if int(m.Source()) != source || m.FirstEvent() != first || m.NumFragments() != int(min(100, 1003-first)) {
		t.Fatalf("source %d from %d, want %d from %d", m.Source(), m.FirstEvent(), source, first)
	}
	if err := p.CheckMFP(m); err != nil {
		t.Fatal(err)
	}
	return int(m.Size())
}

func checkMDF(t *testing.T, p *pattern.Pattern, data []byte, c Config) {
	cursor := event.NewMDFCursor(data, true)
	for id := uint64(0); ; id++ {
		r, err := cursor.Next()
		if errors.Is(err, io.EOF) {
			if id != c.Events {
				t.Fatalf("%d records", id)
			}
			return
		}
		if err != nil || r.Run() != c.Run {
			t.Fatal(err, r.Run())
		}
		banks, err := r.Banks()
		if err != nil {
			t.Fatal(err)
		}
		s := uint16(0)
		for ; banks.Next(); s++ {
			if err := p.CheckFragment(s, id, banks.Bank().Data()); err != nil {
				t.Fatal(err)
			}
		}
		if s != 6 {
			t.Fatalf("%d banks", s)
		}
	}
}

// TestGenerateReplacesOnlyOnRequest holds that a file which is there stays.
func TestGenerateReplacesOnlyOnRequest(t *testing.T) {
	c := Config{
		Path:         filepath.Join(t.TempDir(), "x"),
		Format:       recording.FormatMDF,
		Events:       10,
		Packing:      4,
		Streams:      3,
		FragmentSize: 10,
	}
	if err := os.WriteFile(c.Path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Generate(t.Context(), c); !errors.Is(err, sink.ErrExists) {
		t.Error(err)
	}
	if got, err := os.ReadFile(c.Path); err != nil || string(got) != "mine" {
		t.Error(string(got), err)
	}
	c.Overwrite = true
	if r, err := Generate(t.Context(), c); err != nil || r.Events != 10 {
		t.Error(err, r)
	}
}

func TestGenerateRefuses(t *testing.T) {
	dir := t.TempDir()
	ok := Config{Path: filepath.Join(dir, "x"), Format: recording.FormatMDF, Events: 10, Packing: 4, Streams: 3,
		FragmentSize: 10}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tc := range []struct {
		ctx    context.Context
		change func(*Config)
		want   string
	}{
		{t.Context(), func(c *Config) { c.Events = 0 }, "endless"},
		{t.Context(), func(c *Config) { c.Streams = 0 }, "streams"},
		{t.Context(), func(c *Config) { c.Format = 0 }, "format(0)"},
		{t.Context(), func(c *Config) { c.Path = dir }, "not a regular file"},
		{t.Context(), func(c *Config) { c.FragmentSize, c.Model = 2<<30, pattern.Constant }, "fragment"},
		{cancelled, func(*Config) {}, "canceled"},
	} {
		c := ok
		tc.change(&c)
		if _, err := Generate(tc.ctx, c); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v, want %q", err, tc.want)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Error(entries, err)
	}
	var ce *source.ConfigError
	if _, err := Generate(t.Context(), Config{}); !errors.As(err, &ce) {
		t.Error(err)
	}
}
