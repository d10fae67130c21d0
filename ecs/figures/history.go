package figures

import (
	"time"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// HistoryDepth is the number of samples that are kept (NIC-crossbar §3.1.4).
const HistoryDepth = 2048

// sampleInterval is the least time between two samples: HistoryDepth samples cover 17 minutes.
const sampleInterval = 500 * time.Millisecond

// history keeps the main figures of the last snapshots.
type history struct {
	samples        []*ecsv1.Sample // sample n at n modulo HistoryDepth
	nextNumber     int             // number of the next sample
	lastSampleTime time.Time
}

// sampleTolerance is by how much a sample may come before sampleInterval is over: a ticker sometimes fires a little
// early.
const sampleTolerance = sampleInterval / 10

func (h *history) add(s *ecsv1.Snapshot, resent float64) {
	at := s.GetAt().AsTime()
	if h.nextNumber > 0 && at.Sub(h.lastSampleTime) < sampleInterval-sampleTolerance && !at.Before(h.lastSampleTime) {
		return
	}
	t := s.GetTotal()
	sample := &ecsv1.Sample{
		At:                  s.GetAt(),
		Run:                 s.GetRun(),
		EventRateHz:         t.GetEventRateHz(),
		ThroughputBytesPerS: t.GetThroughputBytesPerS(),
		MepsInFlight:        t.GetMepsInFlight(),
		ResentChunksPerS:    resent,
	}
	for _, g := range s.GetScheduler().GetGroups() {
		sample.FreeSlots = append(sample.FreeSlots, g.GetFree())
	}
	if len(h.samples) < HistoryDepth {
		h.samples = append(h.samples, sample)
	} else {
		h.samples[h.nextNumber%HistoryDepth] = sample
	}
	h.nextNumber, h.lastSampleTime = h.nextNumber+1, at
}

// Samples are the last samples, oldest first, at most the given number. The caller must not change them.
func (b *Builder) Samples(most int) []*ecsv1.Sample {
	h := &b.history
	n := min(most, len(h.samples))
	var out []*ecsv1.Sample
	for i := h.nextNumber - n; i < h.nextNumber; i++ {
		out = append(out, h.samples[i%HistoryDepth])
	}
	return out
}
