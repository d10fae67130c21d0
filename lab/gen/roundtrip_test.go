package gen

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"ringlet/builderunit/sink"
	"ringlet/event"
	"ringlet/recording"
	"ringlet/source"
)

// assemble does what a builder unit does with the blocks of all readout units, without a network.
func assemble(t *testing.T, blocks []source.Block, data [][]byte) (sink.Meta, []byte) {
	t.Helper()
	var sources []uint16
	var offsets []uint32
	count := 0
	for _, b := range blocks {
		count += len(b.MFPs)
	}
	mep := make([]byte, event.MEPHeaderSize(count))
	for i, b := range blocks {
		for _, m := range b.MFPs {
			sources = append(sources, m.Source)
			offsets = append(offsets, uint32((len(mep)+m.Offset)/event.MEPWordBytes))
		}
		mep = append(mep, data[i][:b.Size]...)
	}
	if _, err := event.PutMEPHeader(mep, sources, offsets, uint32(len(mep)/event.MEPWordBytes)); err != nil {
		t.Fatal(err)
	}
	b := blocks[0]
	return sink.Meta{MEP: b.MEP, FirstEvent: b.FirstEvent, Events: b.Events}, mep
}

// TestReplayRoundTrip takes real events from the file through sources, a MEP and the parts of several builders to a
// file, which must be the one it began with.
func TestReplayRoundTrip(t *testing.T) {
	sample := cmp.Or(os.Getenv("RINGLET_MDF_SAMPLE"), "../../../shared/data/minbias-10.mdf")
	want, err := os.ReadFile(sample)
	if err != nil {
		t.Skipf("SKIPPED: the sample of real events is not here (RINGLET_MDF_SAMPLE): %v", err)
	}
	for _, rus := range []int{1, 2, 3, 4} {
		for _, packing := range []int{1, 4} {
			for _, bus := range []int{1, 3} {
				t.Run(fmt.Sprintf("rus=%d/packing=%d/bus=%d", rus, packing, bus), func(t *testing.T) {
					dst := filepath.Join(t.TempDir(), "out.mdf")
					replay(t, sample, rus, packing, bus, dst)
					got, err := os.ReadFile(dst)
					if err != nil || !bytes.Equal(got, want) {
						t.Fatalf("the output differs from the input: %v, %d bytes of %d", err, len(got), len(want))
					}
				})
			}
		}
	}
}

func replay(t *testing.T, path string, rus, packing, bus int, dst string) {
	var sources []*source.Replay
	var outputs []sink.Sink
	for ru := range rus {
		r, err := source.OpenReplay(t.Context(), source.ReplayConfig{Path: path, RU: ru, RUs: rus, Packing: packing})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		sources = append(sources, r)
	}
	dir := t.TempDir()
	key := recording.NewKey()
	runDir, err := recording.OpenRun(dir, recording.Manifest{Run: 7, Key: key, Format: recording.FormatMDF,
		Packing: packing},
		false)
	if err != nil {
		t.Fatal(err)
	}
	for bu := range bus {
		s, err := sink.NewSegments(sink.SegmentsConfig{
			Dir:             runDir,
			Run:             7,
			Key:             key,
			Builder:         bu,
			Format:          recording.FormatMDF,
			MaxSegmentBytes: 1 << 20, // several of each
		})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Abort() }()
		outputs = append(outputs, s)
	}
	blocks, data := make([]source.Block, rus), make([][]byte, rus)
	for k := 0; ; k++ {
		var err error
		for i, r := range sources {
			data[i] = make([]byte, r.MaxBlock())
			err = r.Next(t.Context(), data[i], &blocks[i])
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		m, mep := assemble(t, blocks, data)
		if err := outputs[k%bus].Write(t.Context(), m, mep); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range outputs {
		if _, err := s.Finish(); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(dst, inOrder(t, runDir), 0o600); err != nil {
		t.Fatal(err)
	}
}

// inOrder is the MEPs of all segments of a run in order, read as their indexes say.
func inOrder(t *testing.T, runDir string) (all []byte) {
	t.Helper()
	meps := map[uint64][]byte{}
	m, err := recording.Load(runDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range m.Builders {
		for _, s := range b.Segments {
			data, errData := os.ReadFile(filepath.Join(runDir, s.Name))
			id, _, _ := recording.ParseSegment(s.Name)
			index, errIndex := os.ReadFile(filepath.Join(runDir, id.Index()))
			if err := errors.Join(errData, errIndex); err != nil {
				t.Fatal(err)
			}
			var e recording.Entry
			for index = index[recording.HeaderBytes:]; len(index) > 0; index = index[recording.EntryBytes:] {
				if !e.Parse(index) {
					t.Fatalf("%s has an entry that is none", id.Index())
				}
				meps[e.MEP] = data[e.Offset:e.End()]
			}
		}
	}
	for _, k := range slices.Sorted(maps.Keys(meps)) {
		all = append(all, meps[k]...)
	}
	return all
}

// TestGeneratedReplays replays a generated MDF: the writer and the reader of this package agree on the format.
func TestGeneratedReplays(t *testing.T) {
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in.mdf"), filepath.Join(dir, "out.mdf")
	if _, err := Generate(t.Context(), Config{Path: in, Format: recording.FormatMDF, Events: 50, Packing: 7, Streams: 5,
		FragmentSize: 300}); err != nil {
		t.Fatal(err)
	}
	replay(t, in, 2, 8, 3, out)
	a, errA := os.ReadFile(in)
	b, errB := os.ReadFile(out)
	if err := errors.Join(errA, errB); err != nil || !bytes.Equal(a, b) {
		t.Error("a generated file does not come out as it went in", err)
	}
}
