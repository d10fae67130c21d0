package local

import (
	"bytes"
	"errors"
	"sync"
	"testing"

	"ringlet/shmem"
	"ringlet/shmem/ring"
	"ringlet/testkit/patiently"
	"ringlet/transport/link"
)

// newSelfEnd makes a node's link to itself, and a window of 8 KiB in memory that nobody shares.
func newSelfEnd(t *testing.T, ring int) (e *end, ref shmem.Ref, memory []byte) {
	t.Helper()
	e = &end{self: 3, table: shmem.NewTable(8), completed: map[uint64][]error{}}
	memory = make([]byte, 2*shmem.PageSize)
	seg, err := e.table.Export(memory, shmem.PageRule{PageCount: 2, Peer: e.self, Access: shmem.AccessNwrite})
	if err != nil {
		t.Fatal(err)
	}
	if ref, err = e.table.Grant(e.self, seg, 0, len(memory), shmem.AccessNwrite); err != nil {
		t.Fatal(err)
	}
	e.link = NewSelf(Config{
		Table:    e.table,
		Self:     e.self,
		Peer:     e.self,
		PeerName: "this node",
		Handler:  e,
		OnDown:   e.onDown,
		Ring:     ring,
	})
	t.Cleanup(func() { _ = e.link.Close() })
	return e, ref, memory
}

func TestWriteToOneself(t *testing.T) {
	e, ref, memory := newSelfEnd(t, 0)
	e.link.Start()
	err := errors.Join(
		e.link.Write(link.Write{
			Ref:    ref,
			Offset: 5,
			Data:   []byte("hello"),
			Imm:    9,
			Cookie: 1,
		}),
		e.link.WriteMany([]link.Piece{{Ref: ref, Imm: 8, Data: []byte("abc")}}, 2),
		e.link.Write(link.Write{
			Ref:    ref,
			Offset: 1 << 20,
			Data:   []byte("far"),
			Cookie: 3,
		}),
		e.link.Signal([]byte("ring")),
		e.link.Fence(4))
	if err != nil {
		t.Fatal(err)
	}
	e.await(t, "all of it", func() bool { return len(e.placed) == 2 && len(e.refused) == 1 && len(e.signals) == 1 })
	if !bytes.HasPrefix(memory, []byte("abc\x00\x00hello")) {
		t.Errorf("memory holds %q", memory[:10])
	}
	for cookie, want := range map[uint64]bool{1: true, 2: true, 3: false, 4: true} {
		if got := e.completed[cookie]; len(got) != 1 || (got[0] == nil) != want {
			t.Errorf("outcome %d: %v", cookie, got)
		}
	}
	if n := e.table.Violations(shmem.OutOfRange); n != 1 {
		t.Errorf("the table counts %d writes out of range, want 1", n)
	}
	s := e.link.Stats()
	if s.WritesCompleted != 2 || s.WritesRefused != 1 || s.BytesPlaced != 8 || s.SignalsReceived != 1 {
		t.Errorf("%+v", s)
	}
}

// TestSelfWaitsForSpace fills the ring while the handler is busy: writers wait, signals do not, and nothing is lost.
func TestSelfWaitsForSpace(t *testing.T) {
	e, ref, _ := newSelfEnd(t, minRing)
	const writers, each = 4, 400
	gate := make(chan struct{})
	placed := 0
	e.onPlaced = func(link.Placement) {
		patiently.Hold(gate)
		placed++
	}
	e.link.Start()
	var wg sync.WaitGroup
	for i := range writers {
		at := uint32(8 * i) // memory of its own, as units have
		wg.Go(func() {
			for range each {
				if err := e.link.Write(link.Write{Ref: ref, Offset: at, Data: []byte("x")}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 2 * minRing / int(ring.Stride(8)) {
		if err := e.link.Signal([]byte("12345678")); err != nil {
			t.Fatal(err)
		}
	}
	close(gate)
	patiently.Wait(t, wg.Wait)
	e.await(t, "the signals", func() bool { return len(e.signals) == 2*minRing/int(ring.Stride(8)) })
	e.await(t, "the placements", func() bool { return e.link.placementsReceived.Load() == writers*each })
	if err := e.link.Close(); err != nil || placed != writers*each {
		t.Errorf("%d placed, %v", placed, err)
	}
	if err := e.link.Write(link.Write{Ref: ref}); !errors.Is(err, ErrClosed) {
		t.Errorf("a write after Close: %v", err)
	}
}

// TestCloseReleasesWhoWritesToOneself: who waits for room does not wait for a handler that never comes back.
func TestCloseReleasesWhoWritesToOneself(t *testing.T) {
	e, ref, _ := newSelfEnd(t, minRing) // not started: nobody reads
	ended := make(chan error)
	go func() {
		for {
			if err := e.link.Write(link.Write{Ref: ref, Data: []byte("x")}); err != nil {
				ended <- err
				return
			}
		}
	}()
	patiently.Until(t, "it waits for room",
		func() bool { return e.link.outbox.SpaceBell.HasWaiters() })
	if err := e.link.Close(); err != nil {
		t.Error(err)
	}
	if err := patiently.Receive(t, ended); !errors.Is(err, ErrClosed) {
		t.Errorf("the writer got %v", err)
	}
}

func TestSelfAllocatesNothing(t *testing.T) {
	patiently.Watch(t)
	e, ref, _ := newSelfEnd(t, 0)
	e.onPlaced, e.onMany, e.onSignal = func(link.Placement) {}, func([]link.Placement) {}, func([]byte) {}
	e.link.Start()
	data, signal := make([]byte, 512), []byte("signal")
	pieces := []link.Piece{{Ref: ref, Data: data[:64]}, {Ref: ref, Data: data[:64]}}
	for name, f := range map[string]func() error{
		"write":      func() error { return e.link.Write(link.Write{Ref: ref, Data: data}) },
		"write many": func() error { return e.link.WriteMany(pieces, 1) },
		"signal":     func() error { return e.link.Signal(signal) },
	} {
		if n := testing.AllocsPerRun(200, func() {
			if err := f(); err != nil {
				t.Fatal(err)
			}
			for !mailboxIsEmpty(e.link) {
				yield()
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
