package memory

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"ringlet/shmem"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
	"ringlet/transport/simnet"
)

// TestManyAtOnce: transactions of many goroutines to one peer leave in any order, and each is taken.
func TestManyAtOnce(t *testing.T) {
	inBubble(t, 2, simnet.Faults{Delay: 10 * time.Microsecond}, func(w *world) {
		ctx, t := context.Background(), w.t
		seg := w.segment(PageSize)
		defer seg.Close()
		_, err := w.spaces[0].Export("words", seg, allPages(1))
		must.OK(t, err)
		im, err := w.spaces[1].Import(ctx, "words")
		must.OK(t, err)
		const clients, each = 32, 200
		var wg sync.WaitGroup
		for client := range clients {
			wg.Go(func() {
				for range each {
					if _, err := im.InContext(client%numContexts).Add(ctx, 0, 1); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		patiently.Wait(t, wg.Wait)
		if n := shmem.Word(seg.Bytes()).Load(); n != clients*each || w.spaces[0].Stats().RequestsRepeated != 0 {
			t.Errorf("%d adds were counted as %d; %+v", clients*each, n, w.spaces[0].Stats())
		}
	})
}

// TestLongReadsSideBySide: readers that share the pieces which may be under way do not wait for each other for ever.
func TestLongReadsSideBySide(t *testing.T) {
	inBubble(t, 2, simnet.Faults{Delay: 100 * time.Microsecond}, func(w *world) {
		ctx, t := context.Background(), w.t
		seg := w.segment(2 << 20)
		defer seg.Close()
		for i := range seg.Bytes() {
			seg.Bytes()[i] = byte(rand.Uint32())
		}
		_, err := w.spaces[0].Export("much", seg, allPages(512))
		must.OK(t, err)
		im, err := w.spaces[1].Import(ctx, "much")
		must.OK(t, err)
		start := time.Now()
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() {
				got := make([]byte, 2<<20)
				for range 3 {
					must.OK(t, im.Read(ctx, 0, got))
					if !bytes.Equal(got, seg.Bytes()) {
						t.Error("bytes were read wrong")
					}
				}
			})
		}
		patiently.Wait(t, wg.Wait)
		if d := time.Since(start); d > defaultTimeout {
			t.Errorf("18 reads took %v", d)
		}
	})
}

// TestWhatIsLateFindsNobody: a write that was queued as its link ended is completed over the next one.
func TestWhatIsLateFindsNobody(t *testing.T) {
	inBubble(t, 2, simnet.Faults{}, func(w *world) {
		h := (*handler)(w.spaces[1])
		late := h.peers[0].cookie(0, 0, false)
		h.LinkDown(0, errors.New("for the test"))
		h.Completed(0, late, nil)
		h.Completed(0, late|cookieReader, nil)
		if n := len(h.peers[0].writeStaging.small.freeIndexes); n != smallBuffers {
			t.Errorf("%d buffers of %d are free", n, smallBuffers)
		}
	})
}

// TestTimeOutAsABufferLeaves: the slot of a transaction whose time is over goes to a write buffer in the same moment.
func TestTimeOutAsABufferLeaves(t *testing.T) {
	inBubble(t, 2, simnet.Faults{Delay: 20 * time.Millisecond}, func(w *world) {
		ctx, t := context.Background(), w.t
		seg := w.segment(PageSize)
		defer seg.Close()
		pages := allPages(1)
		pages.Attributes = Combining
		_, err := w.spaces[0].Export("words", seg, pages)
		must.OK(t, err)
		im, err := w.spaces[1].Import(ctx, "words")
		must.OK(t, err)
		w.spaces[1].cfg.Timeout = 3 * time.Millisecond
		outcomes := make(chan Outcome, 2)
		for range cap(outcomes) { // the second waits for the first
			go func() {
				_, err := im.Add(ctx, 0, 1)
				outcomes <- OutcomeOf(err)
			}()
		}
		time.Sleep(3*time.Millisecond - combineTimeout)
		must.OK(t, im.InContext(1).Write(ctx, 8, make([]byte, 8)))
		if a, b := patiently.Receive(t, outcomes), patiently.Receive(t, outcomes); a+b != Unknown+Refused {
			t.Errorf("%v and %v", a, b)
		}
		w.spaces[1].cfg.Timeout = defaultTimeout
		if err := im.InContext(1).Fence(ctx); OutcomeOf(err) == Refused {
			t.Error(err)
		}
	})
}

// TestTooFewWindows: an import of which not all can be granted is refused as a whole, and leaves nothing behind.
func TestTooFewWindows(t *testing.T) {
	inBubble(t, 2, simnet.Faults{}, func(w *world) {
		ctx, t := context.Background(), w.t
		small, err := New(Config{Transport: w.spaces[0].cfg.Transport})
		must.OK(t, err)
		defer small.Close()
		table := shmem.NewTable(2)
		small.responder.table, small.table = table, table
		seg := w.segment(5 * PageSize)
		defer seg.Close()
		var rules []Pages
		for page := 0; page < 5; page += 2 {
			rules = append(rules, Pages{First: page, Count: 1, Peer: Everybody, Allow: AllowAll})
		}
		x, err := small.Export("pages", seg, rules...)
		must.OK(t, err)
		for range 3 {
			if _, err := small.Import(ctx, "pages@n0"); !errors.Is(err, ErrBusy) {
				t.Errorf("three windows of a table of two: %v", err)
			}
		}
		must.OK(t, x.Close())
	})
}
