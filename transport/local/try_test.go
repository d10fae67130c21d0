package local

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"ringlet/shmem"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
	"ringlet/transport/link"
)

// TestTryWriteNeverWaits: into a mailbox that is full nothing goes, no byte is stored, and the writer goes on; several
// writers are told, of each of their writes, whether it is in the mailbox.
func TestTryWriteNeverWaits(t *testing.T) {
	open := make(chan struct{})
	a, b := duo(t, shmem.PageSize, Config{Ring: minRing}, func(_, b *end) {
		b.onPlaced = func(p link.Placement) {
			patiently.Hold(open)
			b.record(func() { b.placed = append(b.placed, p) })
		}
	})
	var wg sync.WaitGroup
	var delivered, full atomic.Int64
	write := func(r shmem.Ref, writer, i int) {
		w := link.Write{Ref: r, Data: []byte{byte(writer)}, Offset: uint32(i), Imm: 1, Dmove: i%7 == 0, Deadline: 1}
		switch err := a.link.TryWrite(w); {
		case err == nil:
			delivered.Add(1)
		case errors.Is(err, ErrFull):
			full.Add(1)
			if got := b.mem.Bytes()[writer*1024+i]; got != 0 {
				t.Errorf("writer %d: byte %d is %d, and was refused", writer, i, got)
			}
		default:
			t.Error(err)
		}
	}
	for writer := 1; writer < 4; writer++ {
		r, err := b.table.Grant(1-b.self, b.id, writer*1024, 1024, shmem.AccessNwrite|shmem.AccessDmove)
		must.OK(t, err)
		wg.Go(func() {
			for i := range 1000 {
				write(r, writer, i)
			}
			must.OK(t, a.link.Signal(nil)) // which is kept, and takes no room that was promised
		})
	}
	patiently.Wait(t, wg.Wait)
	if delivered.Load() == 0 || full.Load() == 0 || a.link.Stats().StallsQueue == 0 || a.link.outbox.PromisedBytes() != 0 {
		t.Errorf("%d writes were taken, %d found the mailbox full, %d bytes are kept: %+v", delivered.Load(), full.Load(),
			a.link.outbox.PromisedBytes(), a.link.Stats())
	}
	close(open)
	b.await(t, "placements", func() bool { return len(b.placed) == int(delivered.Load()) })
	again := link.Write{Ref: b.grant(t, 0, 8), Data: []byte{9}}
	a.await(t, "room", func() bool { return mailboxIsEmpty(b.link) })
	must.OK(t, a.link.TryWrite(again))
	must.OK(t, a.link.Close())
	if err := a.link.TryWrite(link.Write{}); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed link: %v", err)
	}
}
