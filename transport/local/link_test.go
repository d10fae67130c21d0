package local

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ringlet/shmem"
	"ringlet/testkit/patiently"
	"ringlet/transport/link"
)

func TestWriteAndNotify(t *testing.T) {
	a, b := duo(t, 4*shmem.PageSize, Config{}, nil)
	r := b.grant(t, 100, 1000)
	data := bytes.Repeat([]byte("ringlet!"), 100)
	if err := a.link.Write(link.Write{Ref: r, Offset: 50, Data: data, Imm: 7, Cookie: 9}); err != nil {
		t.Fatal(err)
	}
	if errs := a.completed[9]; len(errs) != 1 || errs[0] != nil { // told by this goroutine
		t.Errorf("completed as %v", errs)
	}
	b.await(t, "placement", func() bool { return len(b.placed) == 1 })
	if want := (link.Placement{Ref: r, Offset: 50, Length: 800, Imm: 7}); b.placed[0] != want ||
		!bytes.Equal(b.mem.Bytes()[150:950], data) {
		t.Errorf("told %+v, want %+v, and the bytes", b.placed[0], want)
	}
	if err := a.link.Fence(10); err != nil || len(a.completed[10]) != 1 {
		t.Errorf("fence: %v %v", err, a.completed)
	}
	if err := a.link.Signal([]byte("hello")); err != nil {
		t.Error(err)
	}
	if err := a.link.Signal(make([]byte, link.MaxSignal+1)); err == nil {
		t.Error("a signal too long was taken")
	}
	b.await(t, "signal", func() bool { return len(b.signals) == 1 && b.signals[0] == "hello" })
	s, o := a.link.Stats(), b.link.Stats()
	if s.ChunksSent != 1 || s.BytesSent != 800 || s.WritesCompleted != 1 || s.SignalsSent != 1 || o.ChunksPlaced != 1 ||
		o.BytesPlaced != 800 ||
		o.SignalsReceived != 1 {
		t.Errorf("%+v\n%+v", s, o)
	}
}

func TestRefusals(t *testing.T) {
	now := int64(100)
	a, b := duo(t, 4*shmem.PageSize, Config{Now: func() int64 { return now }}, nil)
	r := b.grant(t, 0, 100)
	dm, err := b.table.Grant(0, b.id, 200, 100, shmem.AccessDmove)
	if err != nil {
		t.Fatal(err)
	}
	gone := b.grant(t, 400, 100)
	if err := b.table.Revoke(gone); err != nil {
		t.Fatal(err)
	}
	reported := 0
	for i, c := range []struct {
		w    link.Write
		want link.Reason
	}{
		{link.Write{Ref: r, Offset: 1, Data: make([]byte, 100)}, link.Reason(shmem.OutOfRange)},
		{link.Write{Ref: gone, Data: make([]byte, 1)}, link.Reason(shmem.StaleGen)},
		{link.Write{Ref: shmem.Ref{Window: 999, Gen: 1}}, link.Reason(shmem.NoWindow)},
		{link.Write{Ref: r, Dmove: true}, link.Reason(shmem.NoAccess)},
		{link.Write{Ref: dm, Data: make([]byte, 100), Dmove: true, Deadline: 99}, link.ReasonExpired},
		{link.Write{Ref: dm, Data: make([]byte, 100), Dmove: true, Deadline: 100}, 0},
		{link.Write{Ref: dm, Data: make([]byte, 100), Dmove: true}, 0},
	} {
		c.w.Cookie = uint64(i)
		if err := a.link.Write(c.w); err != nil {
			t.Fatal(err)
		}
		var refused *link.RefusedError
		got := a.completed[uint64(i)]
		if len(got) != 1 || (c.want != 0) != errors.As(got[0], &refused) || c.want != 0 &&
			(refused.Reason != c.want || refused.Peer != "the peer") {
			t.Errorf("write %d: %v, want %v", i, got, c.want)
		}
		if c.want != 0 && c.want != link.ReasonExpired {
			reported++
		}
	}
	b.await(t, "refusals and placements", func() bool { return len(b.refused) == reported && len(b.placed) == 2 })
	s, o := a.link.Stats(), b.link.Stats()
	if s.WritesRefused != 4 || s.WritesExpired != 1 || s.WritesCompleted != 2 || o.ChunksRefused != 4 ||
		s.ChunksSent != o.ChunksPlaced+o.ChunksRefused {
		t.Errorf("%+v\n%+v", s, o)
	}
	if b.table.Violations(shmem.NoAccess) != 1 || b.table.Violations(shmem.StaleGen) != 1 {
		t.Errorf("the owner counts %+v", b.table.Stats().Violations)
	}
}

// TestWindowsOfOneWhoLeft: who leaves takes its windows back while its goodbye still waits to be read. Writes then find
// the end of the link, and no refusal, which would be a fault of the writer.
func TestWindowsOfOneWhoLeft(t *testing.T) {
	reading, read := make(chan struct{}), make(chan struct{})
	a, b := duo(t, 4*shmem.PageSize, Config{}, func(a, _ *end) {
		a.onSignal = func([]byte) { close(reading); patiently.Hold(read) }
	})
	ref := b.grant(t, 0, 100)
	if err := b.link.Signal([]byte("it reads no further than this")); err != nil {
		t.Fatal(err)
	}
	patiently.Receive(t, reading)
	if err := b.link.Close(); err != nil {
		t.Fatal(err)
	}
	if err := b.table.Revoke(ref); err != nil {
		t.Fatal(err)
	}
	if err := a.link.Write(link.Write{Ref: ref, Data: make([]byte, 1), Cookie: 1}); !errors.Is(err, ErrPeerClosed) {
		t.Errorf("a write to one who has left: %v", err)
	}
	if err := a.link.WriteMany([]link.Piece{{Ref: ref, Data: make([]byte, 1)}}, 2); !errors.Is(err, ErrPeerClosed) {
		t.Errorf("many writes to one who has left: %v", err)
	}
	if len(a.completed) != 0 {
		t.Errorf("outcomes %v", a.completed)
	}
	close(read)
	if err := a.link.Close(); err != nil {
		t.Error(err)
	}
}

func TestWriteManyIsOneOutcome(t *testing.T) {
	a, b := duo(t, 16*shmem.PageSize, Config{}, nil)
	const n = 150 // three records
	var pieces []link.Piece
	for i := range n {
		pieces = append(pieces, link.Piece{
			Ref:    b.grant(t, i*100, 100),
			Offset: uint32(i % 35),
			Imm:    uint64(i),
			Data:   bytes.Repeat([]byte{byte(i)}, i%65),
		})
	}
	if err := a.link.WriteMany(pieces, 5); err != nil {
		t.Fatal(err)
	}
	b.await(t, "pieces", func() bool { return len(b.placed) == n })
	b.record(func() {
		for i, p := range b.placed {
			in := b.mem.Bytes()[i*100:][p.Offset:][:p.Length]
			if p.Imm != uint64(i) || int(p.Offset) != i%35 || !bytes.Equal(in, pieces[i].Data) {
				t.Errorf("piece %d: %+v", i, p)
			}
		}
	})
	if err := b.table.Revoke(pieces[70].Ref); err != nil {
		t.Fatal(err)
	}
	if err := a.link.WriteMany(pieces, 6); err != nil {
		t.Fatal(err)
	}
	b.await(t, "the others", func() bool { return len(b.placed) == 2*n-1 && len(b.refused) == 1 })
	var refused *link.RefusedError
	if got := a.completed[5]; len(got) != 1 || got[0] != nil {
		t.Errorf("outcome %v", got)
	}
	if got := a.completed[6]; len(got) != 1 || !errors.As(got[0], &refused) ||
		refused.Reason != link.Reason(shmem.StaleGen) {
		t.Errorf("outcome %v", got)
	}
	if s, o := a.link.Stats(), b.link.Stats(); s.WritesCompleted != 1 || s.WritesRefused != 1 || s.ChunksSent != 2*n ||
		o.ChunksPlaced != 2*n-1 ||
		s.BytesSent != o.BytesPlaced+70%65 {
		t.Errorf("%+v\n%+v", s, o)
	}
}

// TestSignalNeverWaits: more signals than the mailbox holds, while nobody reads, and all of them in order.
func TestSignalNeverWaits(t *testing.T) {
	open := make(chan struct{})
	var got []string
	a, b := duo(t, shmem.PageSize, Config{Ring: minRing}, func(_, b *end) {
		b.onSignal = func(p []byte) {
			patiently.Hold(open)
			b.record(func() { got = append(got, string(p)) })
		}
	})
	const n = 5000
	for i := range n {
		if err := a.link.Signal(fmt.Appendf(nil, "signal %d of many", i)); err != nil {
			t.Fatal(err)
		}
	}
	close(open)
	b.await(t, "signals", func() bool { return len(got) == n })
	for i, s := range got {
		if s != fmt.Sprintf("signal %d of many", i) {
			t.Fatalf("signal %d is %q", i, s)
		}
	}
}

// TestWriteWaitsWhileTheMailboxIsFull, and Close releases it.
func TestWriteWaitsWhileTheMailboxIsFull(t *testing.T) {
	for _, by := range []string{"reading", "closing", "the peer's closing"} {
		t.Run(by, func(t *testing.T) {
			open, full := make(chan struct{}), make(chan struct{})
			a, b := duo(t, shmem.PageSize, Config{Ring: minRing}, func(_, b *end) {
				b.onPlaced = func(p link.Placement) {
					patiently.Hold(open)
					b.record(func() { b.placed = append(b.placed, p) })
				}
			})
			r := b.grant(t, 0, 100)
			done := make(chan error, 1)
			wrote := 0
			go func() {
				var err error
				for ; wrote < 2000 && err == nil; wrote++ {
					if wrote == 200 {
						close(full)
					}
					err = a.link.Write(link.Write{Ref: r, Data: []byte("x"), Imm: uint64(wrote)})
				}
				done <- err
			}()
			patiently.Receive(t, full)
			select {
			case err := <-done:
				t.Fatalf("2000 writes went into a mailbox for 256: %v", err)
			case <-time.After(20 * time.Millisecond):
			}
			switch by {
			case "reading":
				close(open)
				if err := patiently.Receive(t, done); err != nil {
					t.Fatal(err)
				}
				b.await(t, "placements", func() bool { return len(b.placed) == 2000 })
			case "closing":
				if err := a.link.Close(); err != nil {
					t.Error(err)
				}
				if err := patiently.Receive(t, done); !errors.Is(err, ErrClosed) {
					t.Errorf("the writer was told %v", err)
				}
				close(open)
			case "the peer's closing":
				closed := make(chan error)
				go func() { closed <- b.link.Close() }()
				if err := patiently.Receive(t, done); !errors.Is(err, ErrPeerClosed) {
					t.Errorf("the writer was told %v", err)
				}
				close(open)
				if err := patiently.Receive(t, closed); err != nil {
					t.Error(err)
				}
				a.await(t, "word that the peer left", func() bool { return errors.Is(a.down, ErrPeerClosed) })
				if err := a.link.Signal(nil); !errors.Is(err, ErrPeerClosed) {
					t.Errorf("signal to nobody: %v", err)
				}
			}
		})
	}
}

// TestRandomTraffic: both ends write, in parallel, from several goroutines, with signals and batches between, through a
// small mailbox.
func TestRandomTraffic(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		a, b := duo(t, 64*shmem.PageSize, Config{
			Ring: minRing << rapid.IntRange(0, 2).Draw(rt, "ring"), Spin: time.Duration(rapid.IntRange(0, 1).Draw(rt,
				"spin")) * 10 * time.Microsecond,
		}, nil)
		var wg sync.WaitGroup
		const writers = 2
		var want [2]map[uint64]int // placements by imm
		var signals [2]int
		var failed [2]error
		for i, from := range []*end{a, b} {
			to := []*end{b, a}[i]
			want[i] = map[uint64]int{}
			for w := range writers {
				var plan []int
				for range rapid.IntRange(1, 60).Draw(rt, "steps") {
					plan = append(plan, rapid.IntRange(-70, 3000).Draw(rt, "size"))
				}
				refs := make([]shmem.Ref, 70)
				for j := range refs {
					refs[j] = to.grant(t, (w*70+j)*64, 64)
				}
				big := to.grant(t, 32*shmem.PageSize+w*3000, 3000)
				for s, size := range plan {
					imm := uint64(w)<<32 | uint64(s)<<8
					switch {
					case size < 0:
						for j := range -size {
							want[i][imm+uint64(j)]++
						}
					case size%3 != 0:
						want[i][imm]++
					default:
						signals[i]++
					}
				}
				wg.Go(func() {
					data := bytes.Repeat([]byte{byte(w + 1)}, 3000)
					for s, size := range plan {
						imm := uint64(w)<<32 | uint64(s)<<8
						var err error
						switch {
						case size < 0:
							var ps []link.Piece
							for j := range -size {
								ps = append(ps, link.Piece{Ref: refs[j], Imm: imm + uint64(j), Data: data[:j%64]})
							}
							err = from.link.WriteMany(ps, imm)
						case size%3 != 0:
							err = from.link.Write(link.Write{Ref: big, Data: data[:size], Imm: imm, Cookie: imm})
						default:
							err = from.link.Signal(binary.LittleEndian.AppendUint64(make([]byte, 0, 8), imm))
						}
						if err != nil {
							from.record(func() { failed[i] = err })
							return
						}
					}
				})
			}
		}
		patiently.Wait(t, wg.Wait)
		for i, to := range []*end{b, a} {
			if failed[i] != nil {
				rt.Fatal(failed[i])
			}
			n := 0
			for range want[i] {
				n++
			}
			to.await(t, "everything", func() bool { return len(to.placed) == n && len(to.signals) == signals[i] })
			for _, p := range to.placed {
				if want[i][p.Imm]--; want[i][p.Imm] != 0 {
					rt.Fatalf("%#x was placed twice, or never written", p.Imm)
				}
			}
			last := [writers]uint64{}
			for _, s := range to.signals {
				imm := binary.LittleEndian.Uint64([]byte(s))
				if w := imm >> 32; imm < last[w] {
					rt.Fatalf("signal %#x after %#x", imm, last[w])
				} else {
					last[w] = imm
				}
			}
		}
		sa, sb := a.link.Stats(), b.link.Stats()
		if sa.ChunksSent != sb.ChunksPlaced || sb.ChunksSent != sa.ChunksPlaced || sa.BytesSent != sb.BytesPlaced ||
			sb.BytesSent != sa.BytesPlaced {
			rt.Fatalf("%+v\n%+v", sa, sb)
		}
		for _, e := range []*end{a, b} { // rapid has no cleanup of its own
			if err := e.close(); err != nil {
				rt.Fatal(err)
			}
		}
	})
}

func TestOffersThatCannotBeJoined(t *testing.T) {
	dir := testDir(t)
	e, err := newEnd(dir, "a", 0, shmem.PageSize, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.close() }()
	o, err := newEnd(dir, "b", 1, shmem.PageSize, Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = o.close() }()
	good := o.link.Offer()
	change := func(at int) []byte { b := bytes.Clone(good); b[at] ^= 1; return b }
	for name, b := range map[string][]byte{
		"nothing":  nil,
		"version":  change(0),
		"cut":      good[:20],
		"names":    change(4),
		"reserved": change(1),
		"long":     make([]byte, 600),
	} {
		if name == "long" {
			b[0] = offerVersion
		}
		if err := e.link.Join(b); !errors.Is(err, errBadOffer) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, b := range map[string][]byte{
		"table's name":    change(offerHeader),
		"table's number":  change(8),
		"mailbox's nonce": change(24),
		"mailbox's name":  change(len(good) - 1),
	} {
		if err := e.link.Join(b); err == nil || !strings.Contains(err.Error(), "the memory of the peer cannot be reached") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := e.link.Join(good); err != nil {
		t.Errorf("after all that: %v", err)
	}
	if err := e.link.Join(good); err == nil {
		t.Error("joined twice")
	}
	if _, err := New(Config{Table: shmem.NewTable(1)}); err == nil {
		t.Error("a table that is not shared was taken")
	}
	if _, err := New(Config{Table: e.table, Ring: 1000}); err == nil {
		t.Error("a ring of 1000 bytes was taken")
	}
}

func TestNothingIsLeftBehind(t *testing.T) {
	const memory = "/memfd:ringlet-segment:" // as package shmem names it
	t.Run("links", func(t *testing.T) {
		a, b := duo(t, 16*shmem.PageSize, Config{}, nil)
		r := b.grant(t, 0, 100)
		if err := a.link.Write(link.Write{Ref: r, Data: []byte("x")}); err != nil {
			t.Fatal(err)
		}
		if maps, fds := mapped(t, memory); maps == 0 || fds == 0 {
			t.Errorf("%d mappings and %d files of %s: the test looks for the wrong thing", maps, fds, memory)
		}
	})
	if maps, fds := mapped(t, memory); maps+fds != 0 {
		t.Errorf("%d mappings and %d files are left", maps, fds)
	}
}

func TestClosedLinkRefusesAll(t *testing.T) {
	a, b := duo(t, shmem.PageSize, Config{}, nil)
	r := b.grant(t, 0, 100)
	for range 2 {
		if err := a.link.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range []error{
		a.link.Write(link.Write{Ref: r}), a.link.WriteMany([]link.Piece{{Ref: r}}, 0), a.link.Fence(0), a.link.Signal(nil),
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%v, want ErrClosed", err)
		}
	}
}

func TestNoAllocations(t *testing.T) {
	patiently.Watch(t)
	a, b := duo(t, 16*shmem.PageSize, Config{Spin: time.Second, Now: func() int64 { return 0 }}, func(a, b *end) {
		b.onPlaced, b.onMany, b.onSignal = func(link.Placement) {}, func([]link.Placement) {}, func([]byte) {}
		a.onPlaced = b.onPlaced
	})
	r := b.grant(t, 0, 4096)
	data, signal := make([]byte, 4096), make([]byte, 100)
	var pieces []link.Piece
	for i := range 64 {
		pieces = append(pieces, link.Piece{Ref: b.grant(t, 8192+i*128, 128), Data: data[:128]})
	}
	for name, f := range map[string]func() error{
		"write": func() error { return a.link.Write(link.Write{Ref: r, Data: data}) },
		"try":   func() error { return a.link.TryWrite(link.Write{Ref: r, Data: data}) },
		"refused": func() error {
			return a.link.Write(link.Write{Ref: r, Data: data, Offset: 1, Dmove: true, Deadline: -1})
		},
		"write many": func() error { return a.link.WriteMany(pieces, 1) },
		"fence":      func() error { return a.link.Fence(1) },
		"signal":     func() error { return a.link.Signal(signal) },
	} {
		if n := testing.AllocsPerRun(200, func() {
			if err := f(); err != nil {
				t.Fatal(err)
			}
			for !mailboxIsEmpty(b.link) {
				yield()
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// mailboxIsEmpty says whether all that was sent to a link was read, and its space given back.
func mailboxIsEmpty(l *Link) bool { return l.inbox.IsEmpty() }
