package memory

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"ringlet/shmem"
	"ringlet/testkit/cases"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
	"ringlet/transport/simnet"
)

// TestPostGoesPastAnOwnerThatIsCutOff: one writer posts to eight owners in turn, while all listen and then while one is
// cut off. That one's queue fills up, and is named; the other seven lose nothing.
func TestPostGoesPastAnOwnerThatIsCutOff(t *testing.T) {
	const owners = 8
	inBubble(t, owners+1, simnet.Faults{Delay: 100 * time.Microsecond}, func(w *world) {
		ctx, t := context.Background(), w.t
		var to [owners + 1]*Import
		var segs [owners + 1]*shmem.Segment
		for rank := 1; rank <= owners; rank++ {
			segs[rank] = w.segment(2 * largeSize)
			defer segs[rank].Close()
			_, err := w.spaces[rank].Export("pages", segs[rank], allPages(32))
			must.OK(t, err)
			im, err := w.spaces[0].Import(ctx, "pages@"+w.view.Members[rank].Name)
			must.OK(t, err)
			to[rank] = im.InContext(rank)
		}
		full := 0
		round := func(d time.Duration, size int, with byte) (posted int) {
			data := bytes.Repeat([]byte{with}, size)
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100 * time.Microsecond) {
				for rank := 1; rank <= owners; rank++ {
					err := to[rank].Post(0, data)
					var why *Error
					switch {
					case err == nil && rank < owners:
						posted++
					case errors.Is(err, ErrFull) && rank == owners:
						full++
						if !errors.As(err, &why) || why.Node != "n8" || OutcomeOf(err) != Refused {
							t.Fatal(err)
						}
					case err != nil:
						t.Fatalf("rank %d: %v", rank, err)
					}
				}
			}
			return posted
		}
		for i, size := range []int{64, largeSize} {
			lasts := cases.Count(100*time.Millisecond, 20*time.Millisecond)
			before := round(lasts, size, 1)
			w.fabric.Partition("n0", "n8", true)
			cut := round(lasts, size, 2)
			if full == 0 || float64(cut) < 0.95*float64(before) {
				t.Errorf("%d posts of %d bytes to the seven while all listen, %d while one is cut off, full %d times", before,
					size, cut, full)
			}
			w.fabric.Partition("n0", "n8", false)
			for rank := 1; rank <= owners; rank++ {
				must.OK(t, to[rank].Fence(ctx))
				if b := segs[rank].Bytes(); !bytes.Equal(b[:size], bytes.Repeat([]byte{2}, size)) || b[size] != 0 {
					t.Errorf("round %d: rank %d has %x…", i, rank, b[:8])
				}
			}
			full = 0
		}
		w.fabric.Partition("n0", "n8", true)
		must.OK(t, to[owners].Post(0, []byte("x")))
		err := to[owners].Fence(ctx) // the context of that owner alone waits for it
		if OutcomeOf(err) != Unknown || !errors.Is(err, ErrTimeout) && !errors.Is(err, ErrLinkDown) ||
			!strings.Contains(err.Error(), "pages@n8") {
			t.Errorf("a fence behind what nobody answered: %v", err)
		}
	})
}

// TestPost: what is posted is placed, or refused, and the fence tells; over messages, and by stores.
func TestPost(t *testing.T) {
	inBubble(t, 2, simnet.Faults{Delay: 10 * time.Microsecond}, func(w *world) {
		for rank, name := range []string{"own", "other"} {
			testPost(t, w, name, rank)
		}
	})
}

func testPost(t *testing.T, w *world, name string, rank int) {
	ctx := context.Background()
	seg := w.segment(32 * PageSize)
	defer seg.Close()
	ordered, closed := allPages(24), Pages{First: 30, Count: 2, Peer: Everybody}
	ordered.Attributes = Ordered
	x, err := w.spaces[0].Export(name, seg, ordered, Pages{First: 24, Count: 6, Peer: Everybody, Allow: AllowAll}, closed)
	must.OK(t, err)
	im, err := w.spaces[rank].Import(ctx, name)
	must.OK(t, err)
	must.OK(t, im.Post(0, nil))
	for i := range int64(1000) { // ordered: the last one stays
		err := im.Post(4090, []byte{byte(i), byte(i >> 8)})
		for until := time.Now().Add(patiently.LongTimeout); errors.Is(err, ErrFull) && time.Now().Before(until); {
			time.Sleep(time.Microsecond)
			err = im.Post(4090, []byte{byte(i), byte(i >> 8)})
		}
		must.OK(t, err)
	}
	must.OK(t, im.Fence(ctx))
	if got := seg.Bytes()[4090:4092]; got[0] != 999%256 || got[1] != 999/256 {
		t.Errorf("%s: the last of ordered posts was not the last: %x", name, got)
	}
	for _, tc := range []struct {
		off  int64
		n    int
		want Cause
	}{
		{0, largeSize + 1, ErrNotPostable},
		{24*PageSize - 1, 2, ErrNotPostable},
		{30 * PageSize, 1, ErrDenied},
		{32*PageSize - 1, 2, ErrOutside},
		{-1, 1, ErrOutside},
	} {
		if err := im.Post(tc.off, make([]byte, tc.n)); !errors.Is(err, tc.want) || OutcomeOf(err) != Refused {
			t.Errorf("%s: %d bytes at %d: %v, want %v", name, tc.n, tc.off, err, tc.want)
		}
	}
	data := []byte("12345678")
	if n := testing.AllocsPerRun(1000, func() { _ = im.Post(24*PageSize, data) }); rank == 0 && n > 0 {
		t.Errorf("%s: %v allocations", name, n)
	}
	// A post waits for what is before it in its context, and its caller does not.
	word := im.InContext(3)
	must.OK(t, im.Fence(ctx))
	added := make(chan error)
	go func() { _, err := word.Notify(ctx, 0); added <- err }()
	must.OK(t, word.Post(8, data))
	must.OK(t, patiently.Receive(t, added))
	must.OK(t, word.Fence(ctx))
	if got := seg.Bytes()[8:16]; !bytes.Equal(got, data) {
		t.Errorf("%s: %q was posted behind a notice", name, got)
	}
	must.OK(t, x.Close())
	_ = im.Post(0, data) // refused here, or by the owner
	if err := im.Fence(ctx); err != nil && !errors.Is(err, ErrRevoked) {
		t.Errorf("%s: after the end of the export: %v", name, err)
	}
	im.Close()
	if err := im.Post(0, data); OutcomeOf(err) != Refused {
		t.Errorf("%s: a closed import: %v", name, err)
	}
}
