package memory

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
	"ringlet/transport/simnet"
)

var kinds3 = simnet.Faults{Loss: 0.05, Duplicate: 0.05, Reorder: 0.1, Delay: 200 * time.Microsecond}

// TestEveryMethod has each method do what it says, on a network that loses, doubles and reorders.
func TestEveryMethod(t *testing.T) {
	inBubble(t, 3, kinds3, func(w *world) {
		ctx, t := context.Background(), w.t
		seg := w.segment(300 * PageSize)
		defer seg.Close()
		x, err := w.spaces[0].Export("histogram", seg, allPages(300),
			Pages{First: 100, Count: 100, Peer: Everybody, Allow: AllowAll, Attributes: Combining},
			Pages{First: 299, Count: 1, Peer: 1, Allow: AllowRead})
		must.OK(t, err)
		for _, rank := range []int{1, 0} { // by messages, and by loads and stores
			im, err := w.spaces[rank].Import(ctx, "histogram")
			must.OK(t, err)
			exercise(ctx, t, im, seg.Bytes())
			im.Close()
		}
		ctx, cancel := context.WithTimeout(ctx, time.Hour)
		defer cancel()
		must.OK(t, x.Close())
		if _, err := w.spaces[2].Import(ctx, "histogram@n0"); !errors.Is(err, ErrNotFound) {
			t.Errorf("import of what is withdrawn: %v", err)
		}
	})
}

func exercise(ctx context.Context, t testing.TB, im *Import, mem []byte) {
	t.Helper()
	data := make([]byte, 1<<20)
	for i := range data {
		data[i] = byte(rand.Uint32())
	}
	for _, n := range []int{1, 8, 128, 5000, 70000, 1 << 20} {
		must.OK(t, im.Write(ctx, 3, data[:n]))
		if !bytes.Equal(mem[3:3+n], data[:n]) {
			t.Fatalf("%d bytes are not in place", n)
		}
		got := make([]byte, n)
		must.OK(t, im.Read(ctx, 3, got))
		if !bytes.Equal(got, data[:n]) {
			t.Fatalf("%d bytes were read wrong", n)
		}
	}
	binary.LittleEndian.PutUint64(mem[16:], 40)
	if was, err := im.Add(ctx, 16, 2); err != nil || was != 40 {
		t.Fatal(was, err)
	}
	if was, err := im.Swap(ctx, 16, 7); err != nil || was != 42 {
		t.Fatal(was, err)
	}
	if was, err := im.CompareAndSwap(ctx, 16, 8, 9); err != nil || was != 7 {
		t.Fatal(was, err)
	}
	if was, err := im.CompareAndSwap(ctx, 16, 7, 9); err != nil || was != 7 {
		t.Fatal(was, err)
	}
	if word := binary.LittleEndian.Uint64(mem[16:]); word != 9 {
		t.Fatal(word)
	}
	if _, err := im.Add(ctx, 17, 2); !errors.Is(err, ErrMisaligned) || OutcomeOf(err) != Refused {
		t.Fatal(err)
	}
	if err := im.Write(ctx, int64(len(mem)), data[:1]); !errors.Is(err, ErrOutside) {
		t.Fatal(err)
	}
	must.OK(t, im.WriteMany(ctx, []Piece{{Offset: 0, Data: data[:3]}, {Offset: 99 * PageSize, Data: data[:9000]}}))
	if !bytes.Equal(mem[99*PageSize:][:9000], data[:9000]) || !bytes.Equal(mem[:3], data[:3]) {
		t.Fatal("pieces are not in place")
	}
	for i := range 1000 {
		must.OK(t, im.InContext(3).Write(ctx, int64(150*PageSize+8*i), data[8*i:8*i+8]))
	}
	must.OK(t, im.InContext(3).Fence(ctx))
	if !bytes.Equal(mem[150*PageSize:][:8000], data[:8000]) {
		t.Fatal("combined writes are not in place behind a fence")
	}
	known, err := im.Notify(ctx, 5*PageSize)
	must.OK(t, err)
	woken := make(chan error, 1)
	go func() {
		n, err := im.Wait(ctx, 5*PageSize, known)
		if err == nil && n != known+1 {
			err = errors.New("woken for no reason")
		}
		woken <- err
	}()
	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	if _, err := im.Wait(short, 5*PageSize, known); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	_, err = im.Notify(ctx, 5*PageSize+17)
	must.OK(t, err)
	must.OK(t, patiently.Receive(t, woken))
	if im.rank != im.space.cfg.Transport.Rank {
		if err := im.Write(ctx, 299*PageSize-1, data[:2]); !errors.Is(err, ErrDenied) {
			t.Fatal(err)
		}
	}
}
