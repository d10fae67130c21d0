package memory

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"ringlet/shmem"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
	"ringlet/transport"
	"ringlet/transport/link"
	"ringlet/transport/simnet"
)

// slow is a network on which nothing is answered before 40 ms.
var slow = simnet.Faults{Delay: 20 * time.Millisecond}

// fill fills the queue of the link from one space to another, with writes that are nobody's.
func (w *world) fill(from, to int) {
	w.t.Helper()
	s := w.spaces[from]
	lost := link.Write{Data: []byte{1}, Cookie: (s.peers[to].linkNumber + 1) << 32}
	for {
		err := s.ep.TryWrite(to, lost)
		if full := (*transport.FullError)(nil); errors.As(err, &full) {
			return
		}
		must.OK(w.t, err)
	}
}

// owned is a segment of a rank, opened to all by rules, and its import by another rank.
func (w *world) owned(owner, user int, rules ...Pages) (*shmem.Segment, *Import) {
	w.t.Helper()
	n := 0
	for _, r := range rules {
		n = max(n, r.First+r.Count)
	}
	seg := w.segment(n * PageSize)
	name := "of " + w.view.Members[owner].Name
	_, err := w.spaces[owner].Export(name, seg, rules...)
	must.OK(w.t, err)
	im, err := w.spaces[user].Import(context.Background(), name)
	must.OK(w.t, err)
	return seg, im
}

// TestFullQueueHoldsUpNobody: a peer that withholds one answer pins the queue of its link. Who posts to it goes on, who
// writes to it is told when its time is over, the time-outs of others are told, and what waited for room leaves when
// there is room.
func TestFullQueueHoldsUpNobody(t *testing.T) {
	inBubble(t, 3, slow, func(w *world) {
		ctx, t := context.Background(), w.t
		seg, im := w.owned(0, 1, allPages(2))
		defer seg.Close()
		other, elsewhere := w.owned(2, 1, allPages(1))
		defer other.Close()
		start := time.Now()
		w.fill(1, 0)
		for i := range 8 {
			must.OK(t, im.InContext(1).Post(int64(8*i), []byte("posted!!")))
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("a post waited for %v", d)
		}
		short, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
		defer cancel()
		if err := im.InContext(2).Write(short, PageSize, []byte("late")); OutcomeOf(err) == Done {
			t.Error(err)
		}
		if d := time.Since(start); d != 5*time.Millisecond {
			t.Errorf("a write with 5 ms took %v", d)
		}
		w.spaces[1].cfg.Timeout = 3 * time.Millisecond // told by the pump
		if _, err := elsewhere.InContext(3).Add(ctx, 0, 1); OutcomeOf(err) != Unknown {
			t.Error(err)
		}
		if d := time.Since(start); d != 8*time.Millisecond {
			t.Errorf("a time-out of 3 ms with another owner was told after %v", d-5*time.Millisecond)
		}
		w.spaces[1].cfg.Timeout = time.Hour
		must.OK(t, im.InContext(1).Fence(ctx))
		must.OK(t, im.InContext(2).Write(ctx, PageSize, []byte("again")))
		posted, again := seg.Bytes()[:64], seg.Bytes()[PageSize:][:5]
		if !bytes.Equal(posted, bytes.Repeat([]byte("posted!!"), 8)) || string(again) != "again" {
			t.Errorf("%q, %q", posted, again)
		}
		synctest.Wait()
		time.Sleep(time.Second)
		if !unused(w.spaces[1]) {
			t.Error("something is still under way")
		}
	})
}

// TestPostedWritesThatNeverLeft are refused, and free what they had, when their time is over or their link is.
func TestPostedWritesThatNeverLeft(t *testing.T) {
	for _, ends := range []string{"time", "link"} {
		inBubble(t, 2, slow, func(w *world) {
			ctx, t := context.Background(), w.t
			seg, im := w.owned(0, 1, allPages(1))
			defer seg.Close()
			w.spaces[1].cfg.Timeout = 5 * time.Millisecond
			w.fill(1, 0)
			must.OK(t, im.Post(0, []byte("never")))
			want := ErrTimeout
			if ends == "link" {
				want = ErrLinkDown
				w.spaces[1].ep.DropLink(0, errors.New("for the test"))
			}
			w.spaces[1].cfg.Timeout = time.Hour
			if err := im.Fence(ctx); OutcomeOf(err) != Refused || !errors.Is(err, want) {
				t.Errorf("the end of its %s: %v", ends, err)
			}
			if ends == "time" && !unused(w.spaces[1]) {
				t.Error("something is still under way")
			}
			time.Sleep(time.Second)
			if seg.Bytes()[0] != 0 {
				t.Errorf("%s: it was written", ends)
			}
		})
	}
}

// TestFullQueueOfAnOwner: an owner whose queue to a reader is pinned by that reader goes on with what others ask. The
// goroutine that receives from one peer may be that of all of them.
func TestFullQueueOfAnOwner(t *testing.T) {
	inBubble(t, 2, slow, func(w *world) {
		ctx, t := context.Background(), w.t
		seg, im := w.owned(0, 1, allPages(2))
		defer seg.Close()
		copy(seg.Bytes()[PageSize:], "to be read")
		word := shmem.Word(seg.Bytes())
		got := make([]byte, PageSize)
		read, added := make(chan error, 1), make(chan error, 1)
		go func() { read <- im.InContext(1).Read(ctx, PageSize, got) }()
		synctest.Wait()
		go func() { _, err := im.InContext(2).Add(ctx, 0, 1); added <- err }()
		time.Sleep(19 * time.Millisecond)
		w.fill(0, 1) // before the requests come, and for longer than it takes them
		time.Sleep(2 * time.Millisecond)
		if synctest.Wait(); word.Load() != 1 {
			t.Error("the goroutine that receives waits for room in the queue of a peer")
		}
		must.OK(t, patiently.Receive(t, added))
		must.OK(t, patiently.Receive(t, read))
		if !bytes.Equal(got, seg.Bytes()[PageSize:]) {
			t.Errorf("%q was read", got[:16])
		}
	})
}

// TestFenceBehindALostWrite: what is posted behind an ordered transaction that nobody has answered has its time-out by
// itself, though nothing else wakes the pump.
func TestFenceBehindALostWrite(t *testing.T) {
	inBubble(t, 2, slow, func(w *world) {
		ctx, t := context.Background(), w.t
		seg, im := w.owned(0, 1, allPages(1))
		defer seg.Close()
		w.spaces[1].cfg.Timeout = 5 * time.Millisecond
		w.fabric.Partition("n0", "n1", true)
		defer w.fabric.Partition("n0", "n1", false)
		if _, err := im.Add(ctx, 0, 1); OutcomeOf(err) != Unknown {
			t.Fatal(err)
		}
		start := time.Now()
		must.OK(t, im.Post(8, []byte("held")))
		time.Sleep(time.Millisecond) // the fence's time is over later
		if err := im.Fence(ctx); OutcomeOf(err) == Done {
			t.Error("a fence passed what is lost")
		}
		if d := time.Since(start); d > 10*time.Millisecond {
			t.Errorf("a fence that has 5 ms came after %v", d)
		}
	})
}

// TestPostsLeaveSpaceForWhatTheyWaitFor: posts that wait for an ordered write do not have the buffers that it needs, be
// they small or large; nor do those of one context have what another one's writes need.
func TestPostsLeaveSpaceForWhatTheyWaitFor(t *testing.T) {
	for _, size := range []int{64, largeSize} {
		inBubble(t, 2, slow, func(w *world) {
			ctx, t := context.Background(), w.t
			ordered := Pages{First: 32, Count: 32, Peer: Everybody, Allow: AllowAll, Attributes: Ordered}
			seg, im := w.owned(0, 1, allPages(32), ordered)
			defer seg.Close()
			wrote := make(chan error, 2)
			go func() { _, err := im.Add(ctx, 0, 1); wrote <- err }()
			synctest.Wait()
			data := bytes.Repeat([]byte{7}, size)
			go func() { wrote <- im.Write(ctx, 32*PageSize, data) }() // behind it
			synctest.Wait()
			posted := 0
			var err error
			for ; err == nil; posted++ {
				err = im.Post(0, data)
			}
			if !errors.Is(err, ErrFull) {
				t.Error(err)
			}
			start := time.Now()
			must.OK(t, im.InContext(5).Write(ctx, 31*PageSize, []byte("beside")))
			must.OK(t, patiently.Receive(t, wrote))
			must.OK(t, patiently.Receive(t, wrote))
			must.OK(t, im.Fence(ctx))
			if d := time.Since(start); d > time.Second {
				t.Errorf("%d posts of %d bytes held up what they waited for, for %v", posted, size, d)
			}
			if !bytes.Equal(seg.Bytes()[32*PageSize:][:size], data) || !bytes.Equal(seg.Bytes()[:size], data) {
				t.Error("bytes are wrong")
			}
		})
	}
}

// TestNothingBehindAFailure: nothing that is told by a fence alone is written behind a post that was refused, by stores
// no more than over a network.
func TestNothingBehindAFailure(t *testing.T) {
	inBubble(t, 2, slow, func(w *world) {
		ctx, t := context.Background(), w.t
		seg, im := w.owned(0, 1, allPages(1))
		defer seg.Close()
		combining := Pages{First: 1, Count: 1, Peer: Everybody, Allow: AllowAll, Attributes: Combining}
		localSegment, mine := w.owned(1, 1, allPages(1), combining)
		defer localSegment.Close()
		must.OK(t, w.tables[0].Revoke(im.rowAt(0).ref))
		must.OK(t, im.Post(0, []byte("data")))
		time.Sleep(time.Second)
		flag := binary.LittleEndian.AppendUint64(nil, 1)
		if err := mine.Post(0, flag); !errors.Is(err, ErrEarlier) || OutcomeOf(err) != Refused {
			t.Errorf("a post by stores: %v", err)
		}
		if err := mine.Write(ctx, PageSize, flag); !errors.Is(err, ErrEarlier) || OutcomeOf(err) != Refused {
			t.Errorf("a write to a combining page by stores: %v", err)
		}
		if localSegment.Bytes()[0] != 0 || localSegment.Bytes()[PageSize] != 0 {
			t.Error("a flag stands behind data that were refused")
		}
		must.OK(t, mine.InContext(1).Post(0, flag)) // another context
		must.OK(t, mine.Write(ctx, 8, flag))        // its caller is told itself
		if err := mine.Fence(ctx); !errors.Is(err, ErrRevoked) {
			t.Error(err)
		}
		must.OK(t, mine.Post(0, flag))
		w.spaces[0].mu.Lock()
		delete(w.spaces[0].responder.windows, im.rowAt(0).ref) // it is revoked
		w.spaces[0].responder.exports["of n0"].grantsByPeer = map[int]*grantSet{}
		w.spaces[0].mu.Unlock()
	})
}
