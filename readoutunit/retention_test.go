package readoutunit

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"ringlet/readoutunit/source"
)

// retentionModel drives a Retention at random beside a model that has a copy of every block.
type retentionModel struct {
	r        *Retention
	size     int
	blocks   []modelBlock // held, oldest first
	limit    int          // most blocks
	rotates  bool
	turn     int // room of the next block, where they are taken in rotation
	rooms    map[uint64]int
	heldUp   []uint64
	next     uint64
	below    uint64
	reserved []byte
	high     int
	seed     byte
}

type modelBlock struct {
	mep     uint64
	content []byte
	lent    [][]byte
}

func newRetentionModel(t *rapid.T) *retentionModel {
	m := &retentionModel{
		size: rapid.IntRange(1, 40).Draw(t, "room"), limit: rapid.IntRange(1, 8).Draw(t, "blocks"), rooms: map[uint64]int{},
		rotates: rapid.Bool().Draw(t, "rotates"),
	}
	m.r = NewRetention(m.size, m.limit)
	if m.rotates {
		var err error
		if m.r, err = RetentionInRotation(make([]byte, m.size*m.limit), m.size); err != nil {
			t.Fatal(err)
		}
	}
	m.next = rapid.Uint64Range(0, 3).Draw(t, "first")
	return m
}

func (m *retentionModel) reserve(t *rapid.T) {
	n := rapid.IntRange(1, m.size).Draw(t, "bytes")
	taken := len(m.blocks) == m.limit
	for i := range m.blocks {
		taken = taken || m.rotates && m.rooms[m.blocks[i].mep] == m.turn
	}
	m.r.mu.Lock()
	free := m.r.take()
	m.r.mu.Unlock()
	if free == taken {
		t.Fatalf("a room is free: %v; it should be %v", free, !taken)
	}
	if taken {
		t.Skip("it would wait")
	}
	b, err := m.r.Reserve(context.Background(), n)
	if err != nil || len(b) != n || cap(b) != n {
		t.Fatalf("%d bytes, room for %d, %v", len(b), cap(b), err)
	}
	m.seed++
	for i := range b {
		b[i] = m.seed // whatever a source writes, also what it does not commit
	}
	m.reserved = b
}

func (m *retentionModel) commit(t *rapid.T) {
	if m.reserved == nil {
		t.Skip("nothing is reserved")
	}
	bad := source.Block{MEP: m.next, Size: len(m.reserved) + 1}
	if m.r.begun && rapid.Bool().Draw(t, "out of sequence") {
		bad = source.Block{MEP: m.next + 1, Size: 1}
	}
	if err := m.r.Commit(&bad); err == nil {
		t.Fatalf("a bad block of MEP %d was taken", bad.MEP)
	}
	n := rapid.IntRange(1, len(m.reserved)).Draw(t, "bytes")
	mfps := []source.MFPInfo{{Source: uint16(m.next), Size: n}}
	if err := m.r.Commit(&source.Block{MEP: m.next, Size: n, MFPs: mfps}); err != nil {
		t.Fatal(err)
	}
	mfps[0].Source = 999 // the source uses it again
	m.blocks = append(m.blocks, modelBlock{mep: m.next, content: bytes.Clone(m.reserved[:n])})
	m.rooms[m.next] = m.turn
	m.turn = (m.turn + 1) % m.limit
	m.next++
	m.reserved = nil
	m.high = max(m.high, m.held())
	m.free()
}

func (m *retentionModel) held() int {
	n := 0
	for i := range m.blocks {
		n += len(m.blocks[i].content)
	}
	return n
}

func (m *retentionModel) free() {
	m.blocks = slices.DeleteFunc(m.blocks, func(x modelBlock) bool { return m.released(x.mep) && len(x.lent) == 0 })
}

func (m *retentionModel) released(mep uint64) bool {
	return mep < m.below && !slices.Contains(m.heldUp, mep)
}

func (m *retentionModel) release(t *rapid.T) {
	below := max(m.below, rapid.Uint64Range(0, m.next).Draw(t, "below"))
	var held []uint64
	for i := range m.blocks {
		if x := m.blocks[i].mep; x < below && !m.released(x) && rapid.Bool().Draw(t, "held up") {
			held = append(held, x)
		}
	}
	m.r.Release(below, held)
	m.r.Release(below/2, held) // one that goes back
	m.below, m.heldUp = below, held
	m.free()
}

func (m *retentionModel) lend(t *rapid.T) {
	mep := rapid.Uint64Range(0, m.next+1).Draw(t, "mep")
	b, err := m.r.Lend(mep)
	for i := range m.blocks {
		if x := &m.blocks[i]; x.mep == mep && !m.released(mep) {
			if err != nil {
				t.Fatal(err)
			}
			x.lent = append(x.lent, b)
			return
		}
	}
	if !errors.Is(err, ErrRetention) {
		t.Fatalf("MEP %d is not held, and lent: %v", mep, err)
	}
}

func (m *retentionModel) giveBack(t *rapid.T) {
	mep := rapid.Uint64Range(0, m.next+1).Draw(t, "mep")
	m.r.Return(mep)
	for i := range m.blocks {
		if x := &m.blocks[i]; x.mep == mep && len(x.lent) > 0 {
			x.lent = x.lent[1:]
		}
	}
	m.free()
}

// check holds that what is kept is as it was read, in order, and nothing else is.
func (m *retentionModel) check(t *rapid.T) {
	blocks, held, high := m.r.Held()
	if blocks != len(m.blocks) || held != m.held() || high != m.high || blocks > m.limit {
		t.Fatalf("%d blocks, %d bytes, most %d; it should be %d, %d, %d", blocks, held, high, len(m.blocks), m.held(), m.high)
	}
	for i := range m.blocks {
		x := &m.blocks[i]
		for _, b := range x.lent {
			if !bytes.Equal(b, x.content) {
				t.Fatalf("MEP %d changed while it was lent", x.mep)
			}
		}
		b, data, err := m.r.Get(x.mep)
		if m.released(x.mep) {
			if !errors.Is(err, ErrRetention) {
				t.Fatalf("MEP %d is released, and given out: %v", x.mep, err)
			}
			continue
		}
		if err != nil || !bytes.Equal(data, x.content) || cap(data) != len(data) {
			t.Fatalf("MEP %d is %x, not %x (%v)", x.mep, data, x.content, err)
		}
		if b.MEP != x.mep || len(b.MFPs) != 1 || b.MFPs[0].Source != uint16(x.mep) {
			t.Fatalf("MEP %d is described as %+v", x.mep, b)
		}
	}
}

func TestRetentionModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newRetentionModel(t)
		t.Repeat(map[string]func(*rapid.T){
			"": m.check, "reserve": m.reserve, "commit": m.commit, "commit soon": m.commit, "release": m.release, "lend": m.lend,
			"return": m.giveBack, "return more": m.giveBack,
		})
	})
}

func TestBlockTooLarge(t *testing.T) {
	_, err := NewRetention(100, 4).Reserve(t.Context(), 101)
	var large *BlockTooLargeError
	if !errors.As(err, &large) || large.Need != 101 || large.Have != 100 {
		t.Fatal(err)
	}
	if want := "a block may take 101 bytes, but the readout unit's memory holds 100: lower the packing factor, the streams or " +
		"the fragment size"; err.Error() != want {
		t.Errorf("it says %q", err)
	}
}

// full makes a retention whose next Reserve must wait.
func full(t *testing.T) *Retention {
	r := NewRetention(10, 1)
	if _, err := r.Reserve(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	if err := r.Commit(&source.Block{Size: 10}); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestReserveWaits(t *testing.T) {
	reason := errors.New("the run is over")
	for name, tc := range map[string]struct {
		wake func(*Retention, context.CancelCauseFunc)
		want error
	}{
		"release": {func(r *Retention, _ context.CancelCauseFunc) { r.Release(1, nil) }, nil},
		"release, then return": {func(r *Retention, _ context.CancelCauseFunc) {
			if _, err := r.Lend(0); err != nil {
				t.Error(err)
			}
			r.Release(1, nil)
			synctest.Wait()
			if n, _, _ := r.Held(); n != 1 {
				t.Error("what is lent was freed")
			}
			r.Return(0)
		}, nil},
		"context": {func(_ *Retention, cancel context.CancelCauseFunc) { cancel(reason) }, reason},
		"close":   {func(r *Retention, _ context.CancelCauseFunc) { r.Close() }, ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := full(t)
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				got := make(chan error, 1)
				go func() {
					_, err := r.Reserve(ctx, 4)
					got <- err
				}()
				synctest.Wait()
				select {
				case err := <-got:
					t.Fatalf("it did not wait: %v", err)
				default:
				}
				tc.wake(r, cancel)
				if err := <-got; !errors.Is(err, tc.want) {
					t.Errorf("it ended with %v, not %v", err, tc.want)
				}
			})
		})
	}
}

// TestReserveAfterTheEnd holds that a closed retention and a context that is over refuse at once.
func TestReserveAfterTheEnd(t *testing.T) {
	r := NewRetention(10, 0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Reserve(ctx, 4); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	r.Close()
	if _, err := r.Reserve(t.Context(), 4); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

func TestRetentionDoesNotAllocate(t *testing.T) {
	r := NewRetention(1<<10, 8)
	b := source.Block{Size: 1000, MFPs: make([]source.MFPInfo, 3)}
	ctx, held := t.Context(), []uint64{0}
	run := func() {
		held[0] = b.MEP
		if _, err := r.Reserve(ctx, 1000); err != nil {
			t.Fatal(err)
		}
		if err := r.Commit(&b); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Lend(b.MEP); err != nil {
			t.Fatal(err)
		}
		b.MEP++
		r.Release(b.MEP-1, held)
		r.Release(b.MEP, nil)
		r.Return(b.MEP - 1)
	}
	for range 10 {
		run()
	}
	if n := testing.AllocsPerRun(1000, run); n > 0 {
		t.Errorf("%v allocations per block", n)
	}
}
