package node

import (
	"context"
	"sync"
	"time"
)

// triggerReporter reports to the decision unit up to which number events are triggered: at once, and then at most every
// triggerReportInterval.
type triggerReporter struct {
	report func(epoch uint8, below uint64)
	wake   chan struct{} // capacity 1
	stop   context.CancelFunc
	wg     sync.WaitGroup

	mu             sync.Mutex // guards the fields below
	epoch          uint8
	connected      bool   // the decision unit is there
	triggeredBelow uint64 // events below are triggered
	reportedBelow  uint64
}

// triggerReportInterval bounds the cost of trigger reports: 10,000 messages/s from each readout unit, each some 1 µs.
// It delays a time-out by as much at most.
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

// reportNew reports newly triggered events, and tells whether there were any.
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

// advance notes that events below a number are triggered. It does not wait.
func (h *triggerReporter) advance(below uint64) {
	h.mu.Lock()
	h.triggeredBelow = max(h.triggeredBelow, below)
	h.mu.Unlock()
	h.wakeUp()
}

// connect begins reports to a decision unit.
func (h *triggerReporter) connect(epoch uint8) {
	h.mu.Lock()
	h.epoch, h.connected, h.reportedBelow = epoch, true, 0
	h.mu.Unlock()
	h.wakeUp()
}

// disconnect ends the reports: the decision unit is gone.
func (h *triggerReporter) disconnect() {
	h.mu.Lock()
	h.connected = false
	h.mu.Unlock()
}

// close sends the last report and ends the goroutine.
func (h *triggerReporter) close() {
	h.stop()
	h.wg.Wait()
}
