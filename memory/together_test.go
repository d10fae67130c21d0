package memory

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"ringlet/testkit/must"
	"ringlet/transport/simnet"
)

// TestSmallPiecesLeaveTogether: pieces of all sizes, to pages that are open in several ways, on a network that loses,
// doubles and reorders. Each byte is in place, and small pieces share link writes.
func TestSmallPiecesLeaveTogether(t *testing.T) {
	inBubble(t, 2, kinds3, func(w *world) {
		const pages = 64
		t := w.t
		seg, im := w.owned(0, 1, allPages(pages),
			Pages{First: 20, Count: 10, Peer: Everybody, Allow: AllowAll, Attributes: Combining},
			Pages{First: 30, Count: 3, Peer: Everybody, Allow: AllowAll, Attributes: Ordered})
		defer seg.Close()
		rng := rand.New(rand.NewPCG(3, 4))
		model := make([]byte, pages*PageSize)
		before := w.spaces[1].ep.LinkStats(0).WritesCompleted
		small := 0
		for range 50 {
			var pieces []Piece
			for off := rng.IntN(64); off < len(model); {
				n := []int{1, 8, 64, 64, 700, smallPiece, smallPiece + 1, largeSize + 3}[rng.IntN(8)]
				if n = min(n, len(model)-off); n <= smallPiece {
					small++
				}
				data := bytes.Repeat([]byte{byte(rng.Uint32())}, n)
				copy(model[off:], data)
				pieces = append(pieces, Piece{int64(off), data})
				off += n + rng.IntN(64)
			}
			rng.Shuffle(len(pieces), func(i, j int) { pieces[i], pieces[j] = pieces[j], pieces[i] })
			must.OK(t, im.WriteMany(context.Background(), pieces))
			if !bytes.Equal(seg.Bytes(), model) {
				t.Fatal("what is in place is not what was written")
			}
		}
		if n := int(w.spaces[1].ep.LinkStats(0).WritesCompleted - before); n == 0 || n > small {
			t.Errorf("%d link writes for %d small pieces and some longer ones", n, small)
		}
	})
}

// TestManyWordsAreOneWrite: as many small pieces as a gateway joins, far apart, are few link writes.
func TestManyWordsAreOneWrite(t *testing.T) {
	inBubble(t, 2, simnet.Faults{Delay: 100 * time.Microsecond}, func(w *world) {
		t := w.t
		seg, im := w.owned(0, 1, allPages(64))
		defer seg.Close()
		for _, want := range []struct{ pieces, writes int }{{2, 1}, {64, 1}, {512, 1}, {1025, 2}} {
			var pieces []Piece
			for i := range want.pieces {
				pieces = append(pieces, Piece{int64(i * 128), bytes.Repeat([]byte{byte(i)}, 8)})
			}
			before := w.spaces[1].ep.LinkStats(0).WritesCompleted
			must.OK(t, im.WriteMany(context.Background(), pieces))
			if n := int(w.spaces[1].ep.LinkStats(0).WritesCompleted - before); n != want.writes {
				t.Errorf("%d pieces were %d link writes, not %d", want.pieces, n, want.writes)
			}
			for i, p := range pieces {
				if got := seg.Bytes()[i*128:][:9]; !bytes.Equal(got[:8], p.Data) || got[8] != 0 {
					t.Fatalf("piece %d of %d: %x", i, want.pieces, got)
				}
			}
		}
	})
}

// TestPieceThatIsRefused: one piece of many goes to a window that the owner does not know. The others are in place, and
// the error says that some are.
func TestPieceThatIsRefused(t *testing.T) {
	inBubble(t, 2, simnet.Faults{Delay: 100 * time.Microsecond}, func(w *world) {
		t := w.t
		seg, im := w.owned(0, 1, allPages(4), Pages{First: 2, Count: 2, Peer: Everybody, Allow: AllowAll,
			Attributes: Ordered})
		defer seg.Close()
		im.runs[1].ref.Gen++
		pieces := []Piece{{5, []byte("abc")}, {2*PageSize + 1, []byte("d")}, {9, []byte("ef")}}
		err := im.WriteMany(context.Background(), pieces)
		var why *Error
		if !errors.As(err, &why) || why.Outcome != Refused || !why.Partial || !errors.Is(err, ErrRevoked) {
			t.Errorf("outcome: %v", err)
		}
		if b := seg.Bytes(); string(b[5:11]) != "abc\x00ef" || b[2*PageSize+1] != 0 {
			t.Errorf("%x, %x", b[:16], b[2*PageSize:][:2])
		}
	})
}
