package node

import (
	"context"
	"sync"
	"time"
)

// herald tells the decision unit how far events are triggered: at once, and then not more often than every heraldEvery.
type herald struct {
	tell func(epoch uint8, below uint64)
	wake chan struct{} // of one place
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu    sync.Mutex // guards what follows
	epoch uint8
	to    bool   // there is somebody to tell
	below uint64 // events below it are triggered
	told  uint64
}

// heraldEvery bounds what heralds cost: 10,000 messages/s from each readout unit, each of 1 µs or so. A time-out is
// later by so much at most.
const heraldEvery = 100 * time.Microsecond

func startHerald(tell func(epoch uint8, below uint64)) *herald {
	ctx, stop := context.WithCancel(context.Background())
	h := &herald{tell: tell, wake: make(chan struct{}, 1), stop: stop}
	h.wg.Go(func() { h.run(ctx) })
	return h
}

func (h *herald) run(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-h.wake:
		case <-ctx.Done():
		}
		if !h.news() {
			continue
		}
		select {
		case <-time.After(heraldEvery):
		case <-ctx.Done():
		}
	}
	h.news()
}

// news tells what is new, if there is something.
func (h *herald) news() bool {
	h.mu.Lock()
	below, epoch, due := h.below, h.epoch, h.to && h.below > h.told
	if due {
		h.told = below
	}
	h.mu.Unlock()
	if due {
		h.tell(epoch, below)
	}
	return due
}

func (h *herald) poke() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// triggered takes that events below a number are triggered. It does not wait.
func (h *herald) triggered(below uint64) {
	h.mu.Lock()
	h.below = max(h.below, below)
	h.mu.Unlock()
	h.poke()
}

// open takes that a decision unit is there.
func (h *herald) open(epoch uint8) {
	h.mu.Lock()
	h.epoch, h.to, h.told = epoch, true, 0
	h.mu.Unlock()
	h.poke()
}

// shut takes that it is gone.
func (h *herald) shut() {
	h.mu.Lock()
	h.to = false
	h.mu.Unlock()
}

// close tells what is new still.
func (h *herald) close() {
	h.stop()
	h.wg.Wait()
}
