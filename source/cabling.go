package source

import (
	"container/heap"
	"context"
	"fmt"
	"slices"

	"ringlet/event"
	"ringlet/event/placing"
)

// minStreams is the number of streams per RU in a replay whose configuration gives none: the three data sources of an
// LHCb readout unit (LHCb-EB §IV.B).
const minStreams = 3

// maxLinearTries is how many numbers of streams newCabling tries one by one. Real files need one or two tries; a file
// constructed so that dozens fail does not deserve the smallest number, and each further try adds a sixteenth, so that
// the search ends.
const maxLinearTries = 64

// cabling says which stream carries which key, as the cables of a detector do. It is the same for all RUs of a run,
// and for all runs over the same file with the same number of streams: newCabling deals the keys out by size, the
// largest first, each to the stream that has least so far (longest processing time first, LPT); stream 0 begins with
// the record bank.
type cabling struct {
	// immutable
	division    placing.Division // the streams of each RU: stream i is source id i
	table       *keyTable
	streamByKey []uint16 // global stream by key id
}

func (c *cabling) streamCount() int { return c.division.Sources() }

func compareKeys(a, b bankKey) int {
	if a.Type != b.Type {
		return int(a.Type) - int(b.Type)
	}
	return int(a.Source) - int(b.Source)
}

// streamOf returns the stream of a bank, or -1 for a bank whose key no record had at open.
func (c *cabling) streamOf(b event.Bank) int {
	id := c.table.id(b)
	if id < 0 {
		return -1
	}
	return int(c.streamByKey[id])
}

// newCabling deals the keys of cat out to the streams of cfg. If cfg gives none, it takes the smallest number of
// streams, at least minStreams for each readout unit, with which every fragment of every event fits. A configured
// number that is too small is refused, with one that fits in the error. Its memory grows with the keys and the
// streams, not with the events; it ends with ctx.
func newCabling(ctx context.Context, cat *catalog, data []byte, cfg ReplayConfig) (*cabling, error) {
	c := &cabling{division: cfg.Division, table: &cat.keys}
	order := cat.keys.bySize()
	configured, rus := c.streamCount(), cfg.RUs
	least := minStreams
	if configured > 0 {
		c.assignStreams(cat, order)
		if fit, err := c.fitsContainers(ctx, cat, data); fit || err != nil {
			return c, err
		}
		least = configured/rus + 1
	}
	most := cat.maxContainer() // no stream carries more
	need := (cat.maxFragmentBytes + most - 1) / most
	streams := max(least, (need+rus-1)/rus) // of each readout unit
	for tried := 0; ; tried++ {
		if c.division = placing.EvenDivision(rus, streams); c.streamCount() > maxSources {
			return nil, &ConfigError{"streams",
				fmt.Sprintf("no number of streams for %d readout units gives every bank a fragment it fits in", rus)}
		}
		c.assignStreams(cat, order)
		if fit, err := c.fitsContainers(ctx, cat, data); err != nil {
			return nil, err
		} else if fit {
			break
		}
		streams++
		if tried >= maxLinearTries {
			streams += streams / 16
		}
	}
	if configured > 0 {
		return nil, &ConfigError{"streams", fmt.Sprintf(
			"%d in all are too few for this file: its events need at least %d on each of %d readout units, so that no "+
				"fragment exceeds %d bytes", configured, streams, rus, most)}
	}
	return c, nil
}

// bySize lists the ids of the keys, the key with the most bytes first.
func (t *keyTable) bySize() []int32 {
	order := make([]int32, len(t.keys))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int {
		if d := int64(t.maxBytes[b]) - int64(t.maxBytes[a]); d != 0 {
			return int(d)
		}
		return compareKeys(t.keys[a], t.keys[b])
	})
	return order
}

// assignStreams assigns every key to a stream, in the given order.
func (c *cabling) assignStreams(cat *catalog, order []int32) {
	loads := make(loadHeap, c.streamCount())
	for s := range loads {
		loads[s].stream = uint16(s)
	}
	loads[0].bytes = int64(cat.maxRecordBankBytes)
	heap.Init(&loads)
	c.streamByKey = make([]uint16, len(order))
	for _, id := range order {
		c.streamByKey[id] = loads[0].stream
		loads[0].bytes += int64(cat.keys.maxBytes[id])
		heap.Fix(&loads, 0)
	}
}

// fitsContainers says whether every fragment of every event fits in a container fragment. The error is that of ctx.
func (c *cabling) fitsContainers(ctx context.Context, cat *catalog, data []byte) (bool, error) {
	worst := make([]int64, c.streamCount())
	worst[0] = int64(cat.maxRecordBankBytes)
	for id, s := range c.streamByKey {
		worst[s] += int64(cat.keys.maxBytes[id])
	}
	most := int64(cat.maxContainer())
	if slices.Max(worst) <= most {
		return true, nil // even if all keys had their largest size in one event
	}
	sums := newFragmentSizes(c.streamCount())
	look := contextPoller{ctx: ctx}
	for _, ref := range cat.records {
		if err := c.measureRecord(ref, data, sums); err != nil {
			return false, err
		}
		for _, s := range sums.nonEmpty {
			if int64(sums.size[s]) > most {
				return false, nil
			}
		}
		if err := look.advance(int(ref.fileBytes)); err != nil {
			return false, err
		}
	}
	return true, nil
}

// fragmentSizes are the sizes of an event's fragments. Most streams may be empty: with the list nonEmpty the time for
// an event depends on the number of its banks, not on that of streams.
type fragmentSizes struct {
	size     []uint32 // by stream, in bytes
	nonEmpty []uint16 // streams whose size is not zero

	unpacked []byte // scratch of measureRecord
}

func newFragmentSizes(streams int) *fragmentSizes {
	return &fragmentSizes{size: make([]uint32, streams)}
}

func (f *fragmentSizes) add(stream int, bytes uint32) {
	if f.size[stream] == 0 && bytes > 0 {
		f.nonEmpty = append(f.nonEmpty, uint16(stream))
	}
	f.size[stream] += bytes
}

func (f *fragmentSizes) clear() {
	for _, s := range f.nonEmpty {
		f.size[s] = 0
	}
	f.nonEmpty = f.nonEmpty[:0]
}

// measureRecord computes the bytes of each stream's fragment of a record. It fails on a compressed record that was
// changed since the file was opened and cannot be unpacked any more.
func (c *cabling) measureRecord(ref recordRef, data []byte, sums *fragmentSizes) error {
	sums.clear()
	sums.add(0, uint32(ref.recordBankBytes()))
	r, err := ref.record(data, &sums.unpacked)
	if err != nil {
		return err
	}
	for banks := event.NewBankCursor(r.Payload()); banks.Next(); {
		if s := c.streamOf(banks.Bank()); s >= 0 {
			sums.add(s, uint32(len(banks.RawBank())))
		}
	}
	return nil
}

// loadHeap orders the streams by the bytes assigned to them, the least first, then by number.
type loadHeap []struct {
	bytes  int64
	stream uint16
}

func (h loadHeap) Len() int { return len(h) }
func (h loadHeap) Less(i, j int) bool {
	if h[i].bytes != h[j].bytes {
		return h[i].bytes < h[j].bytes
	}
	return h[i].stream < h[j].stream
}
func (h loadHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *loadHeap) Push(any)     { panic("the number of streams does not change") }
func (h *loadHeap) Pop() any     { panic("the number of streams does not change") }
