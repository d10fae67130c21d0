package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ringlet/clients/frontend"
	"ringlet/event"
	"ringlet/recording"
)

const (
	eventInterval = 500 * time.Microsecond // between two events
	closeTimeout  = time.Minute            // how long it may take until all fragments of a front-end are safe
	udpSource     = 1
)

// A frontEnd sends the fragments of one source.
type frontEnd struct {
	source        int
	stream        *frontend.Stream // nil for a front-end that sends datagrams
	conn          net.Conn
	sentFragments uint64
	err           error
}

// frontEnds are the good ones: one for each source.
type frontEnds struct {
	all      []*frontEnd
	began    time.Time
	endEvent atomic.Uint64 // all of them end before this event
	stop     context.CancelFunc
	done     sync.WaitGroup
}

// newFrontEnds connects a front-end to each of these sources, and begins to send.
func newFrontEnds(ctx context.Context, at []string) (*frontEnds, error) {
	f := &frontEnds{}
	limit, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for i, a := range at {
		one := &frontEnd{source: i}
		var err error
		if i == udpSource {
			one.conn, err = net.Dial("udp", udpAddress(a))
		} else {
			one.stream, err = frontend.Dial(limit, a, frontend.StreamSettings{Name: fmt.Sprintf("good %d", i)})
		}
		if err != nil {
			return nil, fmt.Errorf("the front-end of %s: %w", a, err)
		}
		f.all = append(f.all, one)
	}
	ctx, f.stop = context.WithCancel(ctx)
	f.endEvent.Store(math.MaxUint64)
	f.began = time.Now()
	for _, one := range f.all {
		f.done.Go(func() { one.err = one.send(ctx, f.began, &f.endEvent) })
	}
	return f, nil
}

// udpAddress is the host and port of a source udp:HOST:PORT/ID.
func udpAddress(source string) string {
	at, _, _ := strings.Cut(strings.TrimPrefix(source, "udp:"), "/")
	return at
}

// send sends a fragment every eventInterval, up to event last.
func (f *frontEnd) send(ctx context.Context, began time.Time, last *atomic.Uint64) error {
	for ; f.sentFragments < last.Load(); f.sentFragments++ {
		sleepFor(ctx, time.Until(began.Add(time.Duration(f.sentFragments)*eventInterval)))
		data := payload(f.source, f.sentFragments)
		if f.stream == nil {
			_, _ = f.conn.Write(udpSegment(f.source, f.sentFragments, data)) // a lost datagram is a missing fragment
		} else if err := f.stream.Send(ctx, f.sentFragments, data); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// payload is the fragment of an event: its number, and bytes drawn with the number as seed.
func payload(source int, number uint64) []byte {
	r := rand.New(rand.NewPCG(number, uint64(source)))
	out := binary.BigEndian.AppendUint64(nil, number)
	for range 2 + r.IntN(24) {
		out = binary.BigEndian.AppendUint64(out, r.Uint64())
	}
	return out
}

// udpSegment is a datagram for a source udp: (docs/format/ejfat.md).
func udpSegment(source int, number uint64, data []byte) []byte {
	out := binary.BigEndian.AppendUint16(nil, 0x1000)
	out = binary.BigEndian.AppendUint16(out, uint16(source))
	out = binary.BigEndian.AppendUint32(out, 0)
	out = binary.BigEndian.AppendUint32(out, uint32(len(data)))
	out = binary.BigEndian.AppendUint64(out, number)
	return append(out, data...)
}

// endAndJudge ends the front-ends and the run, and checks the record and the output.
func (f *frontEnds) endAndJudge(ctx context.Context, h *hostileRun) {
	f.endEvent.Store(uint64((time.Since(f.began) + time.Second) / eventInterval)) // no front-end is beyond this event
	stopTimer := time.AfterFunc(closeTimeout, f.stop)
	f.done.Wait()
	stopTimer.Stop()
	f.stop()
	limit, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	var closing sync.WaitGroup
	for _, one := range f.all {
		if one.err != nil {
			h.problem("the front-end of source %d: %v", one.source, one.err)
		}
		closing.Go(func() {
			var gaveUp *frontend.GivenUpError
			if one.stream == nil {
				_ = one.conn.Close()
			} else if err := one.stream.Close(limit); err != nil && !errors.As(err, &gaveUp) {
				h.problem("the front-end of source %d: %v", one.source, err)
			}
		})
	}
	closing.Wait()
	h.tally.memoryPeaks = h.memoryPeaks()
	t := &trial{}
	h.c.awaitRecords(ctx, 0, t)
	for _, p := range t.Problems {
		h.problem("%s", p)
	}
	if len(t.Runs) != 1 {
		h.problem("there are %d runs, and one was started", len(t.Runs))
		return
	}
	h.judgeRun(t.Runs[0])
	if err := f.readBack(ctx, h, t.Runs[0].GetNumber()); err != nil {
		h.problem("the output cannot be read: %v", err)
	}
}

// readBack compares the fragments that were reported to front-ends as safe with the output.
func (f *frontEnds) readBack(ctx context.Context, h *hostileRun, run uint32) error {
	lots := make([]sourceFragments, len(f.all))
	for i, one := range f.all {
		lots[i].found = make([]bool, one.sentFragments)
	}
	contents, err := recording.Read(ctx, recording.RunDir(h.c.path(string(sharedFiles)), run))
	if err != nil {
		return err
	}
	if err := contents.EachInOrder(ctx, 0, func(p *recording.RecordedMEP) error {
		if p.Err != nil {
			return p.Err
		}
		return recordMEP(lots, p.Data)
	}); err != nil {
		return err
	}
	var lines []string
	for i, one := range f.all {
		if one.stream == nil {
			continue
		}
		givenUp := one.stream.GivenUp()
		safe, problems := lots[i].judgeAcked(fmt.Sprintf("the front-end of source %d", i), one.stream.Acked(),
			func(n uint64) bool {
				return slices.ContainsFunc(givenUp, func(g frontend.GivenUp) bool { return g.From <= n && n < g.To })
			})
		for _, p := range problems {
			h.problem("%s", p)
		}
		if safe < one.sentFragments && len(h.hurtNodes) == 0 {
			h.problem("%d of the %d fragments of source %d are not safe, and nobody was stopped", one.sentFragments-safe,
				one.sentFragments, i)
		}
		lines = append(lines, fmt.Sprintf("source %d: %d safe of %d sent", i, safe, one.sentFragments))
	}
	h.tally.safeText = strings.Join(lines, ", ") + "; what was safe was looked for in the output"
	return nil
}

// recordMEP records the fragments of a MEP.
func recordMEP(lots []sourceFragments, data []byte) error {
	mep, err := event.ParseMEP(data)
	if err != nil {
		return err
	}
	for i := range mep.NumMFPs() {
		source := int(mep.Source(i))
		if source >= len(lots) || source == udpSource { // strangers may send to udp: as well
			continue
		}
		mfp, err := mep.MFP(i)
		if err != nil {
			return err
		}
		for c := mfp.Cursor(); c.Next(); {
			b := c.Data()
			if len(b) == 0 {
				continue // missing
			}
			if len(b) < 8 {
				lots[source].wrong++
				continue
			}
			n := binary.BigEndian.Uint64(b)
			lots[source].record(n, slices.Equal(b, payload(source, n)))
		}
	}
	return nil
}

// memoryPeaks is the most memory that each process has had; more than the bound is a problem.
func (h *hostileRun) memoryPeaks() (out []string) {
	for _, n := range append(names(0, nodeCount), controlName) {
		mib, err := highWater(h.c.processByName[n].pid())
		if err != nil {
			h.problem("the memory of %s is not known: %v", n, err)
			continue
		}
		out = append(out, fmt.Sprintf("%s %d", n, mib))
		if mib > h.memoryLimit {
			h.problem("%s had %d MiB, and %d is the bound (-memory)", n, mib, h.memoryLimit)
		}
	}
	return out
}

// highWater is the most memory that a process has had, in MiB.
func highWater(pid int) (uint64, error) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(text), "VmHWM:")
	var kib uint64
	if _, err := fmt.Sscan(after, &kib); err != nil {
		return 0, fmt.Errorf("the kernel does not tell the peak memory (VmHWM) of process %d: %w", pid, err)
	}
	return kib >> 10, nil
}
