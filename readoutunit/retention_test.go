package readoutunit

import (
	"bytes"
	"errors"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"ringlet/tagnet"
)

// TestRetentionAgainstModel reads and frees at random, and holds that no buffer is given out while it is held, and that
// parts are found.
func TestRetentionAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const stride = 8
		n := rapid.IntRange(1, 40).Draw(t, "buffers")
		r, err := NewRetention(make([]byte, n*stride+rapid.IntRange(0, stride-1).Draw(t, "rest")), stride)
		if err != nil {
			t.Fatal(err)
		}
		var below, read uint64
		content := map[uint64]byte{}
		t.Repeat(map[string]func(*rapid.T){
			"read": func(t *rapid.T) {
				free := n - int(read-below)
				if free == 0 {
					t.Skip("full")
				}
				first, s, sizes, ok := r.reserve(rapid.IntRange(0, free).Draw(t, "least"))
				if !ok {
					t.Fatalf("no buffers, of which %d are free", free)
				}
				if first != read || len(sizes) < 1 || len(sizes) > free || len(s.Mem) != len(sizes)*stride || s.Stride != stride {
					t.Fatalf("MEP %d, %d rooms of %d bytes, with %d free", first, len(sizes), len(s.Mem), free)
				}
				k := rapid.IntRange(0, len(sizes)).Draw(t, "blocks")
				for i := range k {
					content[read] = byte(read)
					s.Mem[i*stride], sizes[i] = byte(read), uint32(1+i%stride)
					read++
				}
				r.commit(k)
			},
			"free": func(t *rapid.T) {
				to := rapid.Uint64Range(0, read+3).Draw(t, "below")
				r.freeBelow(to)
				below = max(below, min(to, read))
			},
			"": func(t *rapid.T) {
				if r.heldFrom != below || r.heldTo != read {
					t.Fatalf("%d to %d are held, not %d to %d", r.heldFrom, r.heldTo, below, read)
				}
				for mep := below; mep < read; mep++ {
					if p := r.retainedPart(mep); p[0] != content[mep] || cap(p) != len(p) {
						t.Fatalf("MEP %d is %v", mep, p)
					}
				}
				if parts, high := r.usage(); parts != int(read-below) || high > n*stride {
					t.Fatalf("%d parts, %d bytes", parts, high)
				}
			},
		})
	})
}

func TestRetentionSaysWhenThereIsEnough(t *testing.T) {
	r, err := NewRetention(make([]byte, 4), 1)
	if err != nil {
		t.Fatal(err)
	}
	r.commit(4)
	if _, _, _, ok := r.reserve(2); ok {
		t.Error("buffers that are taken were given out")
	}
	if r.freeBelow(1) {
		t.Error("one buffer was enough")
	}
	if !r.freeBelow(2) || r.freeBelow(3) {
		t.Error("that there is enough is not said, or twice")
	}
	if first, _, _, ok := r.reserve(2); !ok || first != 4 {
		t.Errorf("MEP %d, %v", first, ok)
	}
	var large *blockTooLargeError
	if _, err := NewRetention(make([]byte, 3), 4); !errors.As(err, &large) {
		t.Error(err)
	}
}

// TestReaderWaitsForBuffers: the reader sleeps until there are as many buffers as it wants, or the unit is closed.
func TestReaderWaitsForBuffers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := stopped(t, nil)
		u.cfg.Retention.commit(1)
		got := make(chan error)
		await := func() {
			_, _, _, err := u.awaitBuffers(1)
			got <- err
		}
		go await()
		synctest.Wait()
		select {
		case err := <-got:
			t.Error("a buffer that is taken was given out", err)
		default:
		}
		if err := u.notify(&Input{Kind: TokensCame, Tokens: &tagnet.Tokens{Released: 1}}); err != nil {
			t.Error(err)
		}
		if err := <-got; err != nil {
			t.Error(err)
		}
		u.mu.Lock()
		u.cfg.Retention.commit(1)
		u.mu.Unlock()
		go await()
		synctest.Wait()
		u.cancel(errClosed)
		if err := <-got; !errors.Is(err, errClosed) {
			t.Error(err)
		}
	})
}

// What is put aside outlives its buffer, and goes when it is not held up any more.
func TestRetentionCopiesHeldUp(t *testing.T) {
	r, err := NewRetention(make([]byte, 4*8), 8)
	if err != nil {
		t.Fatal(err)
	}
	fill := func(upTo uint64) {
		for {
			first, strip, sizes, ok := r.reserve(1)
			if !ok {
				t.Fatal("no buffer")
			}
			strip.Mem[0], sizes[0] = byte(first), 1
			r.commit(1)
			if first+1 == upTo {
				return
			}
		}
	}
	fill(4)
	r.copyHeldUp([]uint64{1, 3})
	r.freeBelow(4)
	fill(8) // their rooms are others' now
	r.copyHeldUp([]uint64{1, 3, 6})
	r.copyHeldUp([]uint64{3, 6})
	r.freeBelow(7)
	for mep, want := range map[uint64][]byte{0: nil, 1: nil, 3: {3}, 6: {6}, 7: nil} {
		if got := r.heldUpPart(mep); !bytes.Equal(got, want) {
			t.Errorf("aside of MEP %d there is %v, not %v", mep, got, want)
		}
	}
	if r.copyHeldUp(nil); r.heldUpPart(3) != nil || r.heldUpPart(6) != nil {
		t.Error("what is not held up is still there")
	}
}
