package node

import (
	"context"
	"sync"
	"time"
)

// triggerReporter tells the decision unit how far events are triggered: at once, and then not more often than every
// triggerReportInterval.
type triggerReporter struct {
	report func(epoch uint8, below uint64)
	wake   chan struct{} // of one place
	stop   context.CancelFunc
	wg     sync.WaitGroup

	mu             sync.Mutex // guards what follows
	epoch          uint8
	connected      bool   // there is somebody to tell
	triggeredBelow uint64 // events below it are triggered
	reportedBelow  uint64
}

// triggerReportInterval bounds what trigger reporters cost: 10,000 messages/s from each readout unit, each of 1 µs or
// so. A time-out is later by so much at most.
const triggerReportInterval = 100 * time.Microsecond

func startTriggerReporter(report func(epoch uint8, below uint64)) *triggerReporter {
	ctx, stop := context.WithCancel(context.Background())
	h := &triggerReporter{report: report, wake: make(chan struct{}, 1), stop: stop}
	h.wg.Go(func() { h.run(ctx) })
	return h
}

func (h *triggerReporter) run(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-h.wake:
		case <-ctx.Done():
		}
		if !h.reportNew() {
			continue
		}
		select {
		case <-time.After(triggerReportInterval):
		case <-ctx.Done():
		}
	}
	h.reportNew()
}

// reportNew tells what is new, if there is something.
func (h *triggerReporter) reportNew() bool {
	h.mu.Lock()
	below, epoch, due := h.triggeredBelow, h.epoch, h.connected && h.triggeredBelow > h.reportedBelow
	if due {
		h.reportedBelow = below
	}
	h.mu.Unlock()
	if due {
		h.report(epoch, below)
	}
	return due
}

func (h *triggerReporter) wakeUp() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// advance takes that events below a number are triggered. It does not wait.
func (h *triggerReporter) advance(below uint64) {
	h.mu.Lock()
	h.triggeredBelow = max(h.triggeredBelow, below)
	h.mu.Unlock()
	h.wakeUp()
}

// connect takes that a decision unit is there.
func (h *triggerReporter) connect(epoch uint8) {
	h.mu.Lock()
	h.epoch, h.connected, h.reportedBelow = epoch, true, 0
	h.mu.Unlock()
	h.wakeUp()
}

// disconnect takes that it is gone.
func (h *triggerReporter) disconnect() {
	h.mu.Lock()
	h.connected = false
	h.mu.Unlock()
}

// close tells what is new still.
func (h *triggerReporter) close() {
	h.stop()
	h.wg.Wait()
}
