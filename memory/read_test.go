package memory

import (
	"bytes"
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"ringlet/shmem"
	"ringlet/testkit/cases"
	"ringlet/testkit/must"
	"ringlet/transport"
	"ringlet/transport/simnet"
)

// unused says that nothing is under way from a space to the owner of rank 0.
func unused(s *Space) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.requester.free) == len(s.requester.transactions) && len(s.tokens[0]) == cap(s.tokens[0]) &&
		len(s.peers[0].longReadTokens) == maxLongReads
}

// readWorld is an owner of random bytes and a reader, on a network that loses and doubles.
func readWorld(t *testing.T, size int, test func(w *world, seg *shmem.Segment, im *Import)) {
	t.Helper()
	f := simnet.Faults{Delay: time.Millisecond, Jitter: 500 * time.Microsecond, Loss: 0.02, Duplicate: 0.02}
	inBubble(t, 2, f, func(w *world) {
		seg := w.segment(size)
		defer seg.Close()
		for i := range seg.Bytes() {
			seg.Bytes()[i] = byte(rand.Uint32())
		}
		_, err := w.spaces[0].Export("much", seg, allPages(size/PageSize))
		must.OK(w.t, err)
		im, err := w.spaces[1].Import(context.Background(), "much")
		must.OK(w.t, err)
		test(w, seg, im)
	})
}

// TestReadsOfAllLengths: short ones, which the receiver of the request carries out, and long ones.
func TestReadsOfAllLengths(t *testing.T) {
	readWorld(t, 1<<20, func(w *world, seg *shmem.Segment, im *Import) {
		for _, n := range []int{1, maxLoad, maxLoad + 1, PageSize, maxInlineRead, maxInlineRead + 1, largeSize, largeSize + 1,
			maxReadPiece, maxReadPiece + 1, 1 << 20} {
			got := make([]byte, n)
			off := int64((1<<20 - n) / 3)
			must.OK(w.t, im.Read(context.Background(), off, got))
			if !bytes.Equal(got, seg.Bytes()[off:][:n]) {
				w.t.Errorf("%d bytes were read wrong", n)
			}
		}
		if !unused(w.spaces[1]) {
			w.t.Error("something is still under way")
		}
	})
}

// TestReadsThatAreGivenUp: whenever a reader goes, its transaction ends when its bytes are turned away or in place, and
// the next read has its own bytes.
func TestReadsThatAreGivenUp(t *testing.T) {
	readWorld(t, maxReadPiece, func(w *world, seg *shmem.Segment, im *Import) {
		cut := 0
		step := cases.Count(100*time.Microsecond, 500*time.Microsecond)
		for after := time.Duration(0); after < 8*time.Millisecond; after += step {
			for _, n := range []int{PageSize, maxReadPiece} {
				ctx, cancel := context.WithTimeout(context.Background(), after)
				if im.Read(ctx, 0, make([]byte, n)) != nil {
					cut++
				}
				cancel()
				got := make([]byte, PageSize)
				must.OK(w.t, im.Read(context.Background(), PageSize, got))
				if !bytes.Equal(got, seg.Bytes()[PageSize:2*PageSize]) {
					w.t.Fatal("bytes were read wrong")
				}
			}
		}
		time.Sleep(time.Minute)
		if !unused(w.spaces[1]) || cut == 0 {
			w.t.Errorf("%d reads were given up, and something is still under way", cut)
		}
		if s := w.spaces[0]; s.responder.requesters[1].pendingRequests != 0 ||
			len(s.peers[1].readBuffers.freeIndexes) != readerBuffers {
			w.t.Error("the owner still reads")
		}
	})
}

// TestReadOfWhatIsWithdrawn: a read that meets the end of the export is refused, and leaves nothing under way.
func TestReadOfWhatIsWithdrawn(t *testing.T) {
	for _, size := range []int{PageSize, maxReadPiece} {
		readWorld(t, maxReadPiece, func(w *world, _ *shmem.Segment, im *Import) {
			w.spaces[0].mu.Lock()
			ref := im.rowAt(0).ref
			w.spaces[0].mu.Unlock()
			must.OK(w.t, w.tables[0].Revoke(ref))
			if err := im.Read(context.Background(), 0, make([]byte, size)); OutcomeOf(err) != Refused {
				w.t.Errorf("a read of %d bytes: %v", size, err)
			}
			synctest.Wait()
			if !unused(w.spaces[1]) {
				w.t.Error("something is still under way")
			}
			delete(w.spaces[0].responder.windows, ref) // it is revoked
			w.spaces[0].responder.exports["much"].grantsByPeer = map[int]*grantSet{}
		})
	}
}

// TestBytesThatNobodyAskedFor: an owner that places bytes, or says that it has, for what is no read or no read of its
// own, ends nothing.
func TestBytesThatNobodyAskedFor(t *testing.T) {
	inBubble(t, 2, simnet.Faults{}, func(w *world) {
		s := w.spaces[1]
		h := (*handler)(s)
		s.mu.Lock()
		write := s.requester.begin(request{context: noContext, peer: 0})
		read := s.requester.begin(request{context: noContext, peer: 0})
		s.requester.actions = s.requester.actions[:0]
		dest := shmem.Ref{Window: 7, Gen: 7}
		s.flights[read] = flight{peer: 0, readWindow: dest, bytesMissing: 10}
		ids := [2]uint64{s.requester.transactions[write].id, s.requester.transactions[read].id}
		s.mu.Unlock()
		for _, p := range []transport.Placement{
			{Ref: dest, Length: 10, Imm: ids[0]},
			{Ref: dest, Length: 10, Imm: ids[1] + 1<<16},
			{Ref: shmem.Ref{Window: 7, Gen: 6}, Length: 10, Imm: ids[1]},
			{Ref: dest, Length: 9, Imm: ids[1]},
		} {
			h.Placed(0, p)
			h.Placed(1, p)
			if s.requester.transactions[write].state != txRunning || s.requester.transactions[read].state != txRunning {
				w.t.Fatalf("%+v ended something", p)
			}
		}
		<-s.tokens[0] // bounded by the write that took its token in this goroutine
		h.Placed(0, transport.Placement{Ref: dest, Length: 1<<32 - 1, Imm: ids[1]})
		if s.requester.transactions[read].state != txFree {
			w.t.Error("the read is not over")
		}
		<-s.tokens[0] // bounded by the write that took its token in this goroutine
		s.mu.Lock()
		s.requester.finish(write, Done, causeNone)
		s.runActions()
		s.mu.Unlock()
	})
}
