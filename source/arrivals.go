package source

import (
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"ringlet/event"
	"ringlet/source/live"
)

// arrivals are the histograms of the fragments that have come of one live source, with one significant digit: 3 kB
// each.
type arrivals struct {
	sizes     *hdr.Histogram // bytes
	intervals *hdr.Histogram // µs from one fragment to the next; of those read together their mean
	banks     *hdr.Histogram // banks of a fragment that is a container of banks
}

// maxBanksCounted bounds the time for one fragment; what has more banks counts as having so many.
const maxBanksCounted = 10_000

func newArrivals() arrivals {
	return arrivals{hdr.New(1, 1<<30, 1), hdr.New(1, int64(time.Hour/time.Microsecond), 1), hdr.New(1, maxBanksCounted, 1)}
}

// record records fragments that were read together, since after the ones before; since is negative for the first ones.
func (a *arrivals) record(fragments []live.Fragment, since time.Duration) {
	for i := range fragments {
		_ = a.sizes.RecordValue(int64(len(fragments[i].Data))) // no fragment is larger than the highest value
		if fragments[i].Type == event.FragmentContainer {
			_ = a.banks.RecordValue(countBanks(fragments[i].Data))
		}
	}
	if n := len(fragments); n > 0 && since >= 0 {
		each := min(since.Microseconds()/int64(n), a.intervals.HighestTrackableValue())
		_ = a.intervals.RecordValues(each, int64(n))
	}
}

// clone is a copy for a reader without the lock.
func (a *arrivals) clone() arrivals {
	return arrivals{hdr.Import(a.sizes.Export()), hdr.Import(a.intervals.Export()), hdr.Import(a.banks.Export())}
}

// countBanks counts the banks of a container, up to the first bad one.
func countBanks(container []byte) (n int64) {
	for c := event.NewBankCursor(container); n < maxBanksCounted && c.Next(); {
		n++
	}
	return n
}
