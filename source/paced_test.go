package source

import (
	"context"
	"errors"
	"io"
	"math"
	"testing"
	"testing/synctest"
	"time"
)

// counted is a source of empty blocks that takes no time.
type counted struct {
	blocks, packing int
	next            int
	closed          bool
}

func (c *counted) Next(_ context.Context, _ []byte, b *Block) error {
	if c.next >= c.blocks {
		return io.EOF
	}
	*b = Block{
		MEP:        uint64(c.next),
		FirstEvent: uint64(c.next * c.packing),
		Events:     c.packing,
		MFPs:       b.MFPs[:0],
	}
	c.next++
	return nil
}
func (c *counted) MaxBlock() int { return 0 }
func (c *counted) Stats() Stats  { return Stats{Blocks: uint64(c.next)} }
func (c *counted) Close() error  { c.closed = true; return nil }

func TestPacedHoldsTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &counted{blocks: 50, packing: 1000}
		src := PaceSource(inner, 20_000, 1000) // a block each 50 ms
		begin := time.Now()
		var b Block
		for k := range 50 {
			if err := src.Next(t.Context(), nil, &b); err != nil {
				t.Fatal(err)
			}
			if got, want := time.Since(begin), time.Duration(k)*50*time.Millisecond; got != want {
				t.Fatalf("block %d came after %v, want %v", k, got, want)
			}
		}
		if err := src.Next(t.Context(), nil, &b); !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		if s := src.Stats(); s.Blocks != 50 || s.PacedBlocks != 50 || s.PaceLostEvents != 0 {
			t.Errorf("%+v", s)
		}
		if err := src.Close(); err != nil || !inner.closed {
			t.Error("the source inside was not closed", err)
		}
	})
}

func TestPacedCatchesUpABoundedBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := PaceSource(&counted{blocks: 1000, packing: 100}, 100_000, 100) // a block each 1 ms; backlog 100 ms
		var b Block
		next := func() time.Duration {
			begin := time.Now()
			if err := src.Next(t.Context(), nil, &b); err != nil {
				t.Fatal(err)
			}
			return time.Since(begin)
		}
		next()
		time.Sleep(50 * time.Millisecond) // within the backlog: all of it is caught up
		for k := range 50 {
			if d := next(); d != 0 {
				t.Fatalf("block %d of the backlog waited %v", k, d)
			}
		}
		if d := next(); d != time.Millisecond {
			t.Fatalf("after the backlog a block waited %v", d)
		}
		time.Sleep(10 * time.Second) // far beyond it: 100 ms are caught up, the rest given up
		at := 0
		for next() == 0 {
			at++
		}
		if at != 101 {
			t.Errorf("%d blocks came at once, want 101", at)
		}
		if lost := src.Stats().PaceLostEvents; lost < 989_000 || lost > 991_000 {
			t.Errorf("%d events given up, want about 990000", lost)
		}
	})
}

func TestPacedObeysContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &counted{blocks: 10, packing: 1}
		src := PaceSource(inner, 0.001, 1)
		var b Block
		if err := src.Next(t.Context(), nil, &b); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		if err := src.Next(ctx, nil, &b); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != time.Second {
			t.Fatalf("%v after %v", err, time.Since(begin))
		}
		if inner.next != 1 {
			t.Error("an interrupted wait consumed a block")
		}
		if err := src.Next(t.Context(), nil, &b); err != nil || time.Since(begin) != 1000*time.Second || b.MEP != 1 {
			t.Errorf("%v after %v: MEP %d", err, time.Since(begin), b.MEP)
		}
		_ = src.Close()
	})
}

func TestNotPaced(t *testing.T) {
	src := &counted{}
	for _, rate := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if PaceSource(src, rate, 1) != Source(src) {
			t.Errorf("rate %g is paced", rate)
		}
	}
}
