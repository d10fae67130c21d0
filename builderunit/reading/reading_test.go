package reading_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ringlet/builderunit/reading"
	"ringlet/builderunit/sink"
	"ringlet/event"
	"ringlet/event/selection"
	"ringlet/shmem"
	"ringlet/testkit/golden"
	"ringlet/testkit/logged"
	"ringlet/testkit/mfp"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

const superseded = 0x50555352

func TestGoldenEntries(t *testing.T) {
	mark := golden.Hex(t, "mark")
	want := reading.Entry{MEP: 7, FirstEvent: 700, Events: 100, Attempt: 2, Run: 9, Superseded: true}
	got, err := reading.Parse(superseded, mark)
	must.OK(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	want.Superseded, want.Packet = false, []byte("a MEP")
	got, err = reading.Parse(0xCEFA, append([]byte("a MEP"), mark...))
	must.OK(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []struct {
		kind uint32
		data []byte
	}{{1, mark}, {0xCEFA, mark[1:]}, {superseded, append(mark, 0)}, {superseded, nil}} {
		var wrong *reading.EntryError
		if _, err := reading.Parse(bad.kind, bad.data); !errors.As(err, &wrong) || wrong.Bytes != len(bad.data) {
			t.Errorf("type 0x%X with %d bytes gives %v", bad.kind, len(bad.data), err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(uint32(0xCEFA), golden.Hex(f, "mark"))
	f.Fuzz(func(t *testing.T, kind uint32, data []byte) {
		e, err := reading.Parse(kind, data)
		if err == nil && len(e.Packet)+32 != len(data) {
			t.Fatalf("%d bytes of %d", len(e.Packet), len(data))
		}
	})
}

// mepOf is a MEP of one source.
func mepOf(t *testing.T, first uint64, events int) []byte {
	t.Helper()
	var fragments []mfp.Fragment
	for i := range events {
		fragments = append(fragments, mfp.Fragment{Type: 63, Data: fmt.Append(nil, first+uint64(i))})
	}
	b := append(make([]byte, event.MEPHeaderSize(1)),
		mfp.Build(event.MFPHeader{FirstEvent: first, Align: 2}, fragments...)...)
	_, err := event.PutMEPHeader(b, []uint16{0}, []uint32{4}, uint32(len(b)/4))
	must.OK(t, err)
	return b
}

// buffer is the output of a builder unit; its name is told by the test's process.
func buffer(t *testing.T, name string, i int) *sink.Buffer {
	t.Helper()
	k := slices.IndexFunc(sink.Kinds, func(r sink.Kind) bool { return r.Name == "buffer" })
	out, err := sink.Kinds[k].Open(sink.Settings{Output: fmt.Sprintf("ringlet-%s-%d", name, i), BufferBytes: 1 << 20})
	must.OK(t, err)
	t.Cleanup(func() { _ = out.Abort() })
	return out.(*sink.Buffer)
}

func meta(mep uint64, events int) sink.Meta {
	return sink.Meta{Run: 9, MEP: mep, FirstEvent: 100 * mep, Events: events, Attempt: 1}
}

// TestPrintsARun reads two builder units, which end.
func TestPrintsARun(t *testing.T) {
	name := fmt.Sprint("reading-", time.Now().UnixNano())
	a, b := buffer(t, name, 0), buffer(t, name, 1)
	ctx := t.Context()
	must.OK(t, a.Write(ctx, meta(1, 2), mepOf(t, 100, 2)))
	must.OK(t, b.Write(ctx, meta(2, 1), mepOf(t, 200, 1)))
	must.OK(t, b.Supersede(ctx, meta(2, 1)))
	var out, errs logged.Buffer
	done := make(chan error, 1)
	go func() {
		done <- reading.Print(ctx, &out, &errs, reading.Options{Name: name, Format: selection.FormatJSON})
	}()
	patiently.Until(t, "four lines are printed", func() bool { return out.Count("\n") >= 4 })
	for _, w := range []*sink.Buffer{a, b} {
		_, err := w.Finish()
		must.OK(t, err)
	}
	must.OK(t, patiently.Receive(t, done, "the reading did not end with the run"))
	for _, want := range []string{
		fmt.Sprintf(`{"event":101,"run":9,"mep":1,"attempt":1,"builder":"ringlet-%s-0","size":3,"missing":0,`+
			`"sources":[{"source":0,"type":"VP","type_id":63,"version":0,"size":3}]}`+"\n", name),
		`{"superseded":{"run":9,"mep":2,"attempt":1,"first_event":200,"events":1}}` + "\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in %s", want, out.String())
		}
	}
	if !strings.Contains(errs.String(), "3 events of 2 MEPs; 1 MEPs superseded") {
		t.Error(errs.String())
	}
}

// TestEnds holds the ways in which a reading ends before its run.
func TestEnds(t *testing.T) {
	name := fmt.Sprint("ends-", time.Now().UnixNano())
	w := buffer(t, name, 0)
	fill := func(mep uint64) { must.OK(t, w.Write(t.Context(), meta(mep, 3), mepOf(t, 100*mep, 3))) }
	opts := reading.Options{Name: name, Format: selection.FormatMDF, MaxEvents: 2}
	fill(1)
	var out bytes.Buffer
	must.OK(t, reading.Print(t.Context(), &out, io.Discard, opts))
	n := 0
	for c := event.NewMDFCursor(out.Bytes(), true); ; n++ {
		if _, err := c.Next(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if n != 2 {
		t.Errorf("%d records", n)
	}

	fill(2)
	r, broken := io.Pipe()
	_ = r.Close()
	opts.MaxEvents = 0
	must.OK(t, reading.Print(t.Context(), broken, io.Discard, opts))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := reading.Print(ctx, io.Discard, io.Discard, opts); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}

	fill(3)
	must.OK(t, w.Abort()) // it does not say that the run is over
	if err := reading.Print(t.Context(), io.Discard, io.Discard, opts); !errors.As(err, new(*reading.NoOutputError)) {
		t.Error(err)
	}
}

func TestAWriterThatDies(t *testing.T) {
	name := fmt.Sprint("dies-", time.Now().UnixNano())
	w := buffer(t, name, 0)
	must.OK(t, w.Write(t.Context(), meta(1, 3), mepOf(t, 100, 3)))
	var out logged.Buffer
	done := make(chan error, 1)
	go func() {
		done <- reading.Print(t.Context(), &out, io.Discard, reading.Options{Name: name, Format: selection.FormatHex})
	}()
	for end := time.Now().Add(patiently.LongTimeout); out.Count("event") < 3 &&
		time.Now().Before(end); time.Sleep(time.Millisecond) {
	}
	must.OK(t, w.Abort())
	if err := patiently.Receive(t, done, "the reading did not end"); !errors.Is(err, shmem.ErrWriterGone) {
		t.Error(err)
	}
}
