package source

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"ringlet/internal/schedule"
)

// A paced source that fell behind may deliver this much at once before it holds the rate again: enough to make up for
// a pause of the garbage collector or of the kernel's scheduler (a choice, not a measurement), far too little to hide
// a consumer that is too slow. The allowance is never less than backlogBlocks blocks, since at low rates one block may
// stand for seconds.
const (
	backlogTime   = 100 * time.Millisecond
	backlogBlocks = 4
)

// pacedSource delays the blocks of a source to its rate.
type pacedSource struct {
	// immutable after Paced
	src  Source
	rate float64 // events per second; 0 with pacedAsRecorded

	// owned by the goroutine that calls Next
	pace  *schedule.Pacer
	timer *time.Timer

	// atomic
	waits, lost atomic.Uint64
}

// PaceSource returns src held to a mean of rate events per second: a block is not delivered before start + (events
// before it)/rate, where start is the first call of Next. A consumer that was late gets blocks without waiting until
// it has caught up, at most 100 ms or four blocks of packing events, whichever is longer; the source gives time beyond
// that up and counts it in Stats.PaceLostEvents. A rate that is not positive and finite means no pacing, and
// PaceSource returns src itself. Closing the result closes src.
func PaceSource(src Source, rate float64, packing int) Source {
	if !(rate > 0) || math.IsInf(rate, 0) {
		return src
	}
	// At one event per century the backlog is centuries: DurationOf keeps it within what a Duration holds.
	backlog := max(backlogTime, schedule.DurationOf(float64(backlogBlocks*packing), rate))
	return &pacedSource{src: src, rate: rate, pace: schedule.NewPacer(rate, backlog)}
}

// Next waits until the next block is due and then reads it. ctx ends the wait.
func (p *pacedSource) Next(ctx context.Context, dst []byte, b *Block) error {
	if err := p.wait(ctx); err != nil {
		return err
	}
	if err := p.src.Next(ctx, dst, b); err != nil {
		return err
	}
	p.pace.Advance(uint64(b.Events))
	return nil
}

func (p *pacedSource) wait(ctx context.Context) error {
	early, lost := p.pace.NextWait(time.Now())
	if early <= 0 {
		p.lost.Add(uint64(lost.Seconds() * p.rate))
		return nil
	}
	p.waits.Add(1)
	if p.timer == nil {
		p.timer = time.NewTimer(early)
	} else {
		p.timer.Reset(early)
	}
	select {
	case <-p.timer.C:
		return nil
	case <-ctx.Done():
		p.timer.Stop()
		return ctx.Err()
	}
}

func (p *pacedSource) MaxBlock() int { return p.src.MaxBlock() }

func (p *pacedSource) Stats() Stats {
	s := p.src.Stats()
	s.PacedBlocks += p.waits.Load()
	s.PaceLostEvents += p.lost.Load()
	return s
}

func (p *pacedSource) Close() error {
	if p.timer != nil {
		p.timer.Stop()
	}
	return p.src.Close()
}
