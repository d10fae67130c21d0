package bench

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"ringlet/lab/trial"
	"ringlet/memory"
	"ringlet/shmem"
)

// storeSize is what a store puts into a write buffer: the bridge's fetches are of 64 bytes (SCI-bridge §III.B).
const storeSize = 64

// measureBuffers stores 64 bytes at a time into consecutive places of remote memory that combines stores, and counts
// how many full write buffers were on their way to the owner at a time. There are four buffers, as in the bridge; a
// buffer is free again as soon as its bytes have been handed over (SCI-bridge §III.B).
func measureBuffers(ctx context.Context, c NodesConfig, d time.Duration) (f trial.Figures, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("bench: write buffers: %w", err)
		}
	}()
	p := &memoryPair{}
	defer func() { err = errors.Join(err, p.close()) }()
	if err := p.open(ctx, &c, 1); err != nil {
		return nil, err
	}
	segment, err := shmem.Create(segmentName("buffers"), memorySize)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.nodes[0].space.Close(), segment.Close()) }()
	im, err := p.export(ctx, "buffers", segment, memory.Combining)
	if err != nil {
		return nil, err
	}
	stores := 0
	began := time.Now()
	err = runFor(d, func(over *atomic.Bool) error {
		store := make([]byte, storeSize)
		for ; !over.Load() && ctx.Err() == nil; stores++ {
			if err := im.Write(ctx, int64(stores)*storeSize%memorySize, store); err != nil {
				return err
			}
		}
		return im.Fence(ctx)
	})
	took, s := time.Since(began), p.nodes[1].space.Stats()
	return trial.Figures{
		"most_outstanding": float64(s.MostOutstanding),
		"stores":           float64(stores),
		"joined":           float64(s.WritesCombined),
		"mbyte_per_s":      float64(stores) * storeSize / took.Seconds() / 1e6,
	}, err
}
