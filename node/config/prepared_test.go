package config

import (
	"bytes"
	"fmt"
	"testing"

	"ringlet/event"
	"ringlet/event/placing"
	"ringlet/source"
	"ringlet/testkit/cases"
	"ringlet/velo"
	"ringlet/velo/frontend"
)

// TestPreparedEventsAreOfOneTruth: with readout units of very different size, which have different numbers of retention
// buffers, all fragments of an event come of the same simulated one.
func TestPreparedEventsAreOfOneTruth(t *testing.T) {
	for _, shape := range []struct {
		streams           string
		packing, prepared int
	}{{"90,9,1", 2, 3}, {"1,50,49", 1, 7}, {"34,33,33", 1, 2}}[:cases.Count(3, 1)] {
		t.Run(fmt.Sprint(shape), func(t *testing.T) {
			c := composed(t, "streams="+shape.streams, "nodes=3", "fragment-model=velo", fmt.Sprint("packing=", shape.packing),
				fmt.Sprint("prepared=", shape.prepared))
			truth := newTruth(t, c)
			buffers := map[int]bool{}
			for ru := range c.RUs {
				buffers[preparedIsTrue(t, c, ru, truth)] = true
			}
			if shape.streams == "90,9,1" && len(buffers) == 1 {
				t.Error("all units have the same number of buffers, which shows nothing")
			}
		})
	}
}

// newTruth gives a source's MFP of a prepared block, made by one front-end that has all boards.
func newTruth(t *testing.T, c Completed) func(source uint16, block uint64) []byte {
	t.Helper()
	d, err := frontend.New(frontend.Default())
	if err != nil {
		t.Fatal(err)
	}
	maker, err := frontend.NewMaker(d, frontend.MakerConfig{
		Seed:       c.Seed,
		Streams:    c.Division().Sources(),
		KeptBlocks: c.Prepared,
	})
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, maker.MaxMFP(0, c.Packing))
	return func(source uint16, block uint64) []byte {
		size, _, err := maker.FillMFP(buf, source, block*uint64(c.Packing), c.Packing, false)
		if err != nil {
			t.Fatal(err)
		}
		return buf[:size]
	}
}

// preparedIsTrue reads what a readout unit would, twice through its buffers, and returns how many it has.
func preparedIsTrue(t *testing.T, c Completed, ru int, truth func(source uint16, block uint64) []byte) (buffers int) {
	t.Helper()
	settings, err := c.SourceSettings(ru)
	if err != nil {
		t.Fatal(err)
	}
	kind, _ := c.Source()
	src, err := kind.Open(t.Context(), settings)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = src.Close() }()
	count := c.Division().SourceCount(ru)
	stride, buffers := c.RetentionBuffers(ru, src.MaxBlock())
	mem, many := make([]byte, stride*buffers), source.AsBatchSource(src, count)
	for mep := range uint64(2*buffers + 1) {
		part := mem[int(mep)%buffers*stride:][:stride]
		if _, err := many.NextBlocks(t.Context(), source.BufferStrip{Mem: part, Stride: stride},
			make([]uint32, 1)); err != nil {
			t.Fatal(err)
		}
		at := count * placing.EntrySize
		for s := range count {
			size := int(placing.ReadEntry(part, s).Size)
			got, err := event.ParseMFP(part[at:][:size])
			if err != nil || got.FirstEvent() != mep*uint64(c.Packing) {
				t.Fatalf("MEP %d of readout unit %d: %v", mep, ru, err)
			}
			if err := sameEvents(got, truth(got.Source(), mep%uint64(c.Prepared))); err != nil {
				t.Fatalf("MEP %d of readout unit %d with %d buffers: %v", mep, ru, buffers, err)
			}
			at += int(padTo(int64(size), event.MEPWordBytes))
		}
	}
	return buffers
}

// sameEvents compares the boards of an MFP with those of the truth, but for their event ids.
func sameEvents(got event.MFP, truth []byte) error {
	want, err := event.ParseMFP(truth)
	if err != nil {
		return err
	}
	w := want.Cursor()
	for g := got.Cursor(); g.Next(); {
		if !w.Next() {
			return fmt.Errorf("source %d has more than %d events", got.Source(), want.NumFragments())
		}
		board := bytes.Clone(w.Data())
		velo.SetEvent(board, uint16(g.Event()))
		if !bytes.Equal(board, g.Data()) {
			return fmt.Errorf("source %d, event %d is not event %d of the detector", got.Source(), g.Event(), w.Event())
		}
	}
	return nil
}
