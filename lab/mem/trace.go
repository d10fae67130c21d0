package mem

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"ringlet/lab/stages"
	"ringlet/lab/trial"
	"ringlet/memory"
	"ringlet/shmem"
	"ringlet/transport"
)

// Trace follows a write at both ends. The hosts have different clocks: therefore the owner reports how long each of its
// stages took after it had received the write. The guest's time from the seal to the answer, less the owner's part, is
// the way there and back.

// arrivals are the owner's part: words in the last page of the counters' board. The first counts the writes; the others
// are when the last one was opened, placed and notified, ns after it was received.
type arrivals struct {
	start        time.Time
	lastReceived atomic.Int64
	arrivalWords [4]*atomic.Uint64
}

const arrivalBytes = 4 * shmem.WordSize

func newArrivals(page []byte) *arrivals {
	a := &arrivals{start: time.Now()}
	for i := range a.arrivalWords {
		a.arrivalWords[i] = shmem.Word(page[i*shmem.WordSize:])
	}
	return a
}

// recordStage is called at each stage of each write that arrives.
func (a *arrivals) recordStage(stage transport.Stage) {
	if !stages.Table[stage].Receiver {
		return
	}
	now := int64(time.Since(a.start))
	if stage == transport.StageReceived {
		a.lastReceived.Store(now)
		return
	}
	a.arrivalWords[stage-transport.StageReceived].Store(uint64(now - a.lastReceived.Load()))
	if stage == transport.StageReceiverNotified {
		a.arrivalWords[0].Add(1)
	}
}

// MaxTracedWrite is the longest write that Trace follows, bytes: it fits one datagram.
const MaxTracedWrite = 1024

// traceTimeout bounds the wait for one write.
const traceTimeout = 2 * time.Second

// traceRows are the rows of the table: the guest's stages, the way, the owner's stages, and the whole write.
var traceRows = [...]struct{ name, where, says string }{
	{stages.Table[0].Name, "guest", stages.Table[0].Says},
	{stages.Table[1].Name, "guest", stages.Table[1].Says},
	{stages.Table[2].Name, "guest", stages.Table[2].Says},
	{stages.Table[3].Name, "guest", stages.Table[3].Says},
	{"there and back", "way", "from the seal to the answer, without the owner's part; the system call is in it"},
	{stages.Table[5].Name, "owner", stages.Table[5].Says},
	{stages.Table[6].Name, "owner", stages.Table[6].Says},
	{stages.Table[7].Name, "owner", stages.Table[7].Says},
	{stages.Table[8].Name, "guest", "from the call until the writer's code is told of the outcome"},
}

// Trace follows writes of data to an offset, one at a time, and prints how long each stage took, as medians.
func (g *Guest) Trace(ctx context.Context, segment string, off int64, data []byte, writes int) error {
	if len(data) == 0 || len(data) > MaxTracedWrite {
		return fmt.Errorf("a write of %d bytes cannot be followed: give 1 to %d", len(data), MaxTracedWrite)
	}
	return g.withImport(ctx, segment, func(im *memory.Import) error {
		if g.place.space.LinkStats().Links[transport.CarrierLocal] > 0 {
			return errors.New("the owner's memory is mapped here, and a write is stores by the writer itself: it has no stages")
		}
		return g.withImport(ctx, countersName, func(counters *memory.Import) error {
			var took [len(traceRows)][]int64
			skipped := 0
			for range writes {
				if ok, err := g.traceOne(ctx, im, counters, off, data, &took); err != nil {
					return err
				} else if !ok {
					skipped++
				}
			}
			return g.printTrace(im, off, len(data), skipped, &took)
		})
	})
}

// traceOne follows one write. It returns false if another guest wrote meanwhile, or the stages were out of order.
func (g *Guest) traceOne(ctx context.Context, im, counters *memory.Import, off int64, data []byte,
	took *[len(traceRows)][]int64) (bool, error) {
	before, err := readArrival(ctx, counters)
	if err != nil {
		return false, err
	}
	t := g.tracer
	began := t.Begin()
	if err := store(ctx, im, off, data); err != nil {
		return false, err
	}
	until := time.Now().Add(traceTimeout)
	for ; t.Passed(transport.StageWriterNotified) == 0; runtime.Gosched() {
		if time.Now().After(until) {
			return false, fmt.Errorf("the write was not answered within %v", traceTimeout)
		}
	}
	arrival := before
	for arrival[0] == before[0] { // the answer may arrive before the owner has recorded the write
		if arrival, err = readArrival(ctx, counters); err != nil {
			return false, err
		}
		if time.Now().After(until) {
			return false, errors.New("the owner did not record the write in time")
		}
	}
	row := [len(traceRows)]int64{4: t.Passed(transport.StageWriterNotified) - t.Passed(transport.StageSealed) - arrival[2],
		5: arrival[1], 6: arrival[2] - arrival[1], 7: arrival[3] - arrival[2],
		8: t.Passed(transport.StageWriterNotified) - began}
	last := began
	for s := transport.StageQueued; s <= transport.StageSent; s++ {
		row[s], last = t.Passed(s)-last, t.Passed(s)
	}
	for _, ns := range row {
		if ns < 0 || arrival[0] != before[0]+1 {
			return false, nil
		}
	}
	for i, ns := range row {
		took[i] = append(took[i], ns)
	}
	return true, nil
}

func readArrival(ctx context.Context, counters *memory.Import) (words [4]int64, err error) {
	var b [arrivalBytes]byte
	err = counters.Read(ctx, boardTextSize, b[:])
	for i := range words {
		words[i] = int64(binary.LittleEndian.Uint64(b[i*shmem.WordSize:]))
	}
	return words, err
}

func (g *Guest) printTrace(im *memory.Import, off int64, size, skipped int, took *[len(traceRows)][]int64) error {
	var rows [][]string
	for i, r := range traceRows {
		rows = append(rows, []string{r.name, r.where, fmt.Sprintf("%.2f", stages.Median(took[i])), r.says})
	}
	title := fmt.Sprintf("%d writes to %s [%d, +%d), one at a time; medians", len(took[0]), im.Node(), off, size)
	if skipped > 0 {
		title += fmt.Sprintf("; %d more are left out: their stages were out of order, or another guest wrote meanwhile",
			skipped)
	}
	return trial.Table(g.to, title, []string{"stage", "where", "took µs", "what is over"}, rows)
}
