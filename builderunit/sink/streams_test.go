package sink

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ringlet/recording"
	"ringlet/shmem"
	"ringlet/testkit/must"
)

// failing is a sink that fails at everything.
type failing struct{ Discard }

var errTest = errors.New("the disk is gone")

func (f *failing) Write(context.Context, Meta, []byte) error { return wrapError("x", "write", errTest) }
func (f *failing) Flush() error                              { return errTest }
func (f *failing) Finish() (Result, error)                   { return Result{}, errTest }

func TestStreams(t *testing.T) {
	const n = 10
	p := testPattern(t)
	for name, want := range map[string][3]uint64{"turns": {4, 3, 3}, "all": {n, n, n}} {
		dir := t.TempDir()
		file, err := NewFile(FileConfig{Path: filepath.Join(dir, "x.mep"), Format: recording.FormatMEP})
		must.OK(t, err)
		buffer, reader := newBuffer(t, 64<<10)
		s := NewStreams(routeOf(t, name), []Sink{file, buffer, &Discard{}})
		var all [3][]byte
		for k := range uint64(n) {
			m, mep := buildMEP(t, p, k, testPacking, 0)
			must.OK(t, s.Write(t.Context(), m, mep))
			for i := range all {
				if name == "all" || int(k%3) == i {
					all[i] = append(all[i], mep...)
				}
			}
		}
		if s.Lends() {
			t.Error("a stream lends")
		}
		must.OK(t, s.Flush())
		r, err := s.Finish()
		must.OK(t, errors.Join(err, s.Abort()))
		if r.MEPs != n || r.Events != n*testPacking || r.Bytes != uint64(len(all[0])+len(all[1])+len(all[2])) {
			t.Errorf("%s: %+v", name, r)
		}
		if s.Written() != r.Bytes {
			t.Errorf("%s: %d bytes written, %d in the output", name, s.Written(), r.Bytes)
		}
		stats := s.Stats().Streams
		for i, key := range []string{"0", "1", "2"} {
			if c := stats[key]; c.MEPs != want[i] || c.Events != want[i]*testPacking || c.Bytes != uint64(len(all[i])) {
				t.Errorf("%s, stream %s: %+v", name, key, c)
			}
		}
		if !bytes.Equal(read(t, dir, "x.mep"), all[0]) {
			t.Errorf("%s: the file has other bytes", name)
		}
		var got []byte
		for range want[1] {
			e, err := reader.Next(t.Context())
			must.OK(t, err)
			_, mep, _ := markOf(e.Data)
			got = append(got, mep...)
			must.OK(t, reader.Ack(e))
		}
		if _, err := reader.Next(t.Context()); !errors.Is(err, shmem.ErrEndOfRun) || !bytes.Equal(got, all[1]) {
			t.Errorf("%s: the reader has %d bytes of %d, %v", name, len(got), len(all[1]), err)
		}
	}
}

// TestStreamFails holds that an error names its stream and keeps its type, and that the other streams are whole.
func TestStreamFails(t *testing.T) {
	dir := t.TempDir()
	file, err := NewFile(FileConfig{Path: filepath.Join(dir, "x.mep"), Format: recording.FormatMEP})
	must.OK(t, err)
	s := NewStreams(routeOf(t, "turns"), []Sink{file, &failing{}})
	m, mep := buildMEP(t, testPattern(t), 0, testPacking, 0)
	must.OK(t, s.Write(t.Context(), m, mep))
	var out *SinkError
	err = s.Write(t.Context(), m, mep)
	if !errors.As(err, &out) || !strings.HasPrefix(err.Error(), "output stream 1 of 2: output x: cannot write") {
		t.Error(err)
	}
	if err := s.Flush(); !errors.Is(err, errTest) {
		t.Error(err)
	}
	if r, err := s.Finish(); !errors.Is(err, errTest) || r.MEPs != 1 {
		t.Error(r, err)
	}
	if !bytes.Equal(read(t, dir, "x.mep"), mep) {
		t.Error("the other stream is not whole")
	}
}

// TestStreamsLend has two buffers lend blocks of the same slots: each its own share, so that a reader of one which
// holds all that it can holds up only its own buffer.
func TestStreamsLend(t *testing.T) {
	const most = 2
	p := testPattern(t)
	dir := shmem.WithDir(must.MemoryDir(t))
	slots, err := shmem.CreateSlots("ringlet-1-slots", 1, 64<<10, dir, shmem.WithSpare(2*most, LendMargin))
	must.OK(t, err)
	defer func() { _ = slots.Close() }()
	var sinks []Sink
	var readers []*shmem.Reader
	for _, name := range []string{"ringlet-1-a", "ringlet-1-b"} {
		w, err := shmem.CreateWriter(name, LendCapacity, shmem.Broadcast, dir, shmem.WithAnnex(slots.Segment()))
		must.OK(t, err)
		r, err := shmem.OpenReader(name, dir)
		must.OK(t, err)
		defer func() { _ = r.Close() }()
		sinks = append(sinks, &Buffer{w: w, lendSlots: slots, maxLent: most})
		readers = append(readers, r)
	}
	s := NewStreams(routeOf(t, "turns"), sinks)
	defer func() { _ = s.Abort() }()
	lend := func(ctx context.Context, k uint64) error {
		m, mep := buildMEP(t, p, k, testPacking, 0)
		must.OK(t, errors.Join(slots.Offer(0), slots.Fill(0)))
		copy(slots.Bytes(0), mep)
		must.OK(t, slots.Build(0))
		err := s.Lend(ctx, m, 0, slots.Bytes(0)[:len(mep)])
		must.OK(t, slots.Free(0))
		return err
	}
	if !s.Lends() {
		t.Fatal("no stream lends")
	}
	for k := range uint64(2 * most) {
		must.OK(t, lend(t.Context(), k))
	}
	for k := range uint64(most) { // the reader of the first lets go, and gets MEPs 0 and 2
		e, err := readers[0].Next(t.Context())
		must.OK(t, err)
		_, want := buildMEP(t, p, 2*k, testPacking, 0)
		if _, mep, _ := markOf(e.Data); !bytes.Equal(mep, want) {
			t.Errorf("MEP %d is not the one that was lent", 2*k)
		}
		must.OK(t, readers[0].Ack(e))
	}
	must.OK(t, lend(t.Context(), 2*most))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := lend(ctx, 2*most+1); !errors.Is(err, context.DeadlineExceeded) ||
		!strings.HasPrefix(err.Error(), "output stream 1 of 2") {
		t.Errorf("the second holds all that it may: %v", err)
	}
}
