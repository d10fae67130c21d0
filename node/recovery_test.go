package node

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ringlet/builderunit/sink"
	"ringlet/event"
	"ringlet/event/pattern"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/recording"
	"ringlet/testkit/patiently"
)

// makeCrashedRun makes what a process leaves of a run in dir when it is killed after a MEP: the files of a writer as
// they are, without the lock that the writer holds.
func makeCrashedRun(t *testing.T, dir string, run uint32) {
	t.Helper()
	at := t.TempDir()
	about := recording.Manifest{
		Run:     run,
		Key:     recording.Key{1, byte(run)},
		Format:  recording.FormatMEP,
		Packing: 10,
	}
	runDir, err := recording.OpenRun(at, about, false)
	if err != nil {
		t.Fatal(err)
	}
	s, err := sink.NewSegments(sink.SegmentsConfig{
		Dir:             runDir,
		Run:             run,
		Key:             about.Key,
		Format:          about.Format,
		MaxSegmentBytes: 1 << 20,
		MaxSegmentAge:   time.Hour,
		Durability:      recording.DurabilityFile,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Write(t.Context(), sink.Meta{Run: run, Events: 10}, oneMEP(t)); err != nil {
		t.Fatal(err)
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(recording.RunDir(dir, run), os.DirFS(runDir)); err != nil {
		t.Fatal(err)
	}
	if err := s.Abort(); err != nil {
		t.Fatal(err)
	}
	if open := openSegments(t, dir, run); len(open) != 1 {
		t.Fatalf("left open: %v", open)
	}
}

// oneMEP is a MEP of ten events from one source.
func oneMEP(t *testing.T) []byte {
	t.Helper()
	p, err := pattern.New(pattern.Config{
		Seed:         1,
		Sources:      1,
		FragmentSize: 50,
		Align:        2,
	})
	if err != nil {
		t.Fatal(err)
	}
	mfp := make([]byte, p.MaxMFP(0, 10))
	size, _, err := p.FillMFP(mfp, 0, 0, 10, false)
	if err != nil {
		t.Fatal(err)
	}
	header := event.MEPHeaderSize(1)
	mep := append(make([]byte, header), mfp[:size]...)
	if _, err := event.PutMEPHeader(mep, []uint16{0}, []uint32{uint32(header / 4)}, uint32(len(mep)/4)); err != nil {
		t.Fatal(err)
	}
	return mep
}

func openSegments(t *testing.T, dir string, run uint32) []string {
	t.Helper()
	open, err := filepath.Glob(filepath.Join(recording.RunDir(dir, run), "*"+recording.OpenSuffix))
	if err != nil {
		t.Fatal(err)
	}
	return open
}

// Earlier runs are recovered and told of; the run that goes on is left alone.
func TestEarlierRunsAreRecovered(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for run := range uint32(3) {
		makeCrashedRun(t, dir, run+1)
	}
	if err := os.Mkdir(filepath.Join(dir, "lost+found"), 0o700); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	var e runRecovery
	e.start([]string{dir}, 3, slog.New(slog.NewTextHandler(&said, nil)))
	patiently.Receive(t, e.done)
	e.close()
	for _, run := range []uint32{1, 2} {
		m, err := recording.Load(recording.RunDir(dir, run))
		if err != nil {
			t.Fatal(err)
		}
		open := openSegments(t, dir, run)
		if len(open) > 0 || len(m.Builders) != 1 || m.Builders[0].State != recording.StateRecovered ||
			len(m.Builders[0].Segments) != 1 || m.Builders[0].Segments[0].Events != 10 {
			t.Errorf("run %d: %v are open, the manifest has %+v", run, open, m.Builders)
		}
	}
	if open := openSegments(t, dir, 3); len(open) != 1 {
		t.Errorf("of the run that goes on %v are open", open)
	}
	if n := strings.Count(said.String(), "level=WARN"); n != 2 || strings.Contains(said.String(), "level=ERROR") {
		t.Errorf("said %d times:\n%s", n, &said)
	}
	e.start([]string{dir}, 4, slog.New(slog.DiscardHandler)) // the node has ended: nothing begins
	if open := openSegments(t, dir, 3); len(open) != 1 {
		t.Errorf("after the end %v are open", open)
	}
}

// The next run in an output closes what a killed process has left there, by itself.
func TestTheNextRunRecovers(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	makeCrashedRun(t, out, 1)
	p := newPair(t)
	c := testConfig(t, out+"/")
	_, address := p.scheduler(c)
	for _, command := range []nodev1.Command{
		nodev1.Command_COMMAND_LOAD, nodev1.Command_COMMAND_CONFIGURE, nodev1.Command_COMMAND_START,
	} {
		p.must(&nodev1.CommandRequest{
			Command:       command,
			RunKey:        bytes.Repeat([]byte{7}, len(recording.Key{})),
			Configuration: c.Effective(),
			View:          p.view,
			TagnetAddress: address,
		})
	}
	for len(openSegments(t, out, 1)) > 0 {
		select {
		case <-p.ctx.Done():
			t.Fatal("it is left open")
		case <-time.After(10 * time.Millisecond):
		}
	}
	if names, err := filepath.Glob(filepath.Join(recording.RunDir(out, 1), "*.mep")); err != nil || len(names) != 1 ||
		!slices.Contains(names, filepath.Join(recording.RunDir(out, 1), "bu0-00001.mep")) {
		t.Errorf("closed: %v, %v", names, err)
	}
}

// A builder unit that was killed before anything of it was written has no segment. It was looked for all the same:
// nobody need wait for its files.
func TestDescribeNamesThoseWithoutSegments(t *testing.T) {
	to := &nodev1.RecordedResponse{}
	describeRecorded(to, &recording.Contents{
		Manifest: &recording.Manifest{Builders: []recording.Builder{
			{Index: 0, Node: "n3", State: recording.StateRecovered},
			{Index: 1, Node: "n4", State: recording.StateFinished},
		}},
		Builders: []recording.BuilderContents{{
			Index:    1,
			State:    recording.StateFinished,
			Segments: []recording.SegmentContents{{SegmentTotals: recording.SegmentTotals{MEPs: 2, Events: 14, Bytes: 900}}},
		}},
	})
	if len(to.Builders) != 2 {
		t.Fatalf("described are %v", to.Builders)
	}
	if b := to.Builders[0]; b.GetNode() != "n3" || b.GetState() != "recovered" || b.GetSegments() != 0 {
		t.Errorf("without segments: %v", b)
	}
	if b := to.Builders[1]; b.GetNode() != "n4" || b.GetMeps() != 2 || b.GetEvents() != 14 || b.GetBytes() != 900 {
		t.Errorf("with a segment: %v", b)
	}
}
