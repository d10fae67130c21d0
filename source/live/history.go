package live

import "time"

// HistoryBins is how many bins a History has.
const HistoryBins = 64

// History counts events by the time at which they were put into MEPs, in bins of one width from the first MEP on. When
// the time has passed the last bin, the width doubles and two bins become one, so its size is the same for a run of any
// length. The zero History is ready.
type History struct {
	Width time.Duration // of a bin; 0: nothing was counted
	Bins  [HistoryBins]HistoryBin
	began time.Duration
}

// HistoryBin counts the events of one bin, and the fragments of one source that were missing in them.
type HistoryBin struct{ Events, Missing uint64 }

// historyWidth is the width of a bin in the first 64 seconds.
const historyWidth = time.Second

// add counts events, and how many of them lack the source's fragment.
func (h *History) add(now time.Duration, events, missing uint64) {
	if h.Width == 0 {
		h.Width, h.began = historyWidth, now
	}
	since := max(0, now-h.began)
	for since >= h.Width*HistoryBins {
		h.halve()
	}
	b := &h.Bins[since/h.Width]
	b.Events, b.Missing = b.Events+events, b.Missing+missing
}

// halve makes each two bins one.
func (h *History) halve() {
	for i := range h.Bins {
		var sum HistoryBin
		if 2*i < HistoryBins {
			a, b := h.Bins[2*i], h.Bins[2*i+1]
			sum = HistoryBin{a.Events + b.Events, a.Missing + b.Missing}
		}
		h.Bins[i] = sum
	}
	h.Width *= 2
}
