package partition

import (
	"testing"

	tapv1 "ringlet/proto/ringlet/tap/v1"
)

// TestAllViewersShareOneBound: viewers of samples of their own that take nothing hold no more together than one bound,
// and what one lets go others may have.
func TestAllViewersShareOneBound(t *testing.T) {
	var all queueTotals
	m := &tapv1.Samples{Events: []*tapv1.Sample{{}}}
	samples, viewers := make([]*tapSample, 60), make([]*viewer, 60)
	for i := range samples {
		samples[i] = &tapSample{totals: &all}
		viewers[i] = samples[i].addViewer()
	}
	for range 100 {
		for _, v := range viewers {
			v.enqueue(m, 1<<20)
		}
	}
	held := int64(0)
	for _, v := range viewers {
		held += v.queuedBytes.Load()
	}
	if held != all.bytes.Load() || held > maxAllViewersBytes || held < maxAllViewersBytes/2 {
		t.Errorf("%d bytes wait, said to be %d, of %d", held, all.bytes.Load(), maxAllViewersBytes)
	}
	for i, v := range viewers[1:] {
		samples[i+1].removeViewer(v)
	}
	for range 100 {
		viewers[0].enqueue(m, 1<<20)
	}
	if has := viewers[0].queuedBytes.Load(); has != maxViewerBytes || all.bytes.Load() != has ||
		viewers[0].eventsDropped == 0 {
		t.Errorf("the last viewer has %d of %d, all %d", has, maxViewerBytes, all.bytes.Load())
	}
}
