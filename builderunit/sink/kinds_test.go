package sink

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"ringlet/recording"
	"ringlet/testkit/must"
)

// TestKindsOpen opens each kind of the table as a node does, gives it a MEP, and gives it up.
func TestKindsOpen(t *testing.T) {
	p := testPattern(t)
	file := filepath.Join(t.TempDir(), "file")
	must.OK(t, os.WriteFile(file, nil, 0o600))
	for _, k := range Kinds {
		t.Run(k.Name, func(t *testing.T) {
			s := Settings{
				Segments:    SegmentsConfig{Run: 9, Key: recording.NewKey(), Node: "n0"},
				Output:      t.TempDir(),
				BufferBytes: 1 << 20,
			}
			s.Run = recording.Manifest{Run: s.Segments.Run, Key: s.Segments.Key, Packing: testPacking}
			if k.Shared {
				s.Output = fmt.Sprintf("ringlet-test-%d-out", os.Getpid())
			}
			if k.Remote {
				s.Output = "udp:" + listening(t).LocalAddr().String()
			}
			out, err := k.Open(s)
			must.OK(t, err)
			defer func() { must.OK(t, out.Abort()) }()
			m, mep := buildMEP(t, p, 0, testPacking, 0)
			must.OK(t, errors.Join(out.Write(t.Context(), m, mep), out.Flush()))
			other := s
			other.Run.Key = recording.NewKey()
			var exists *recording.ExistsError
			if _, err := k.Open(other); (k.Files || k.Shared) != (err != nil) || k.Files && !errors.As(err, &exists) {
				t.Errorf("the place is taken: %v", err)
			}
			if other.Output = file; k.Files || k.Shared {
				if _, err := k.Open(other); err == nil {
					t.Error("it opens in a file")
				}
			}
		})
	}
}

// TestWrittenGrows holds that an output that makes progress says so, before its file is finished.
func TestWrittenGrows(t *testing.T) {
	r := newRun(t, t.TempDir(), recording.FormatMEP)
	out, err := NewSegments(r.config(0, recording.DurabilityFile))
	must.OK(t, err)
	defer func() { must.OK(t, out.Abort()) }()
	m, mep := buildMEP(t, testPattern(t), 0, testPacking, 0)
	must.OK(t, errors.Join(out.Write(t.Context(), m, mep), out.Flush()))
	if out.Written() < uint64(len(mep)) {
		t.Errorf("%d bytes of %d are written", out.Written(), len(mep))
	}
}
