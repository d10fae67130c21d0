package readoutunit

import (
	"bytes"
	"cmp"
	"fmt"
	"sync"
	"testing"

	"ringlet/event/placing"
	"ringlet/shmem"
	"ringlet/transport/link"
)

// fakeNetwork answers announcements with grants, and writes with completions, on a goroutine of its own.
type fakeNetwork struct {
	unit     *Unit
	progress chan struct{}
	wg       sync.WaitGroup

	// set before the unit runs
	length     func(n uint32) uint32 // of a grant, given what was announced
	signal     func(n int) error     // outcome of signal number n
	write      func(n int) error     // outcome of calling Write, by number
	completion func(n int) error     // outcome of write number n
	mute       bool                  // no grants at all
	slots      int                   // of each builder unit, where windows are pre-granted; 0: 2

	mu       sync.Mutex
	stopped  map[int]bool // ranks that answer no write
	kept     []keptWrite  // of these
	ready    *sync.Cond
	queue    []func()
	over     bool
	sizes    map[[2]uint64]uint32 // announced so far, by rank and MEP
	written  map[uint64][]byte    // by MEP
	order    []string             // of writes
	signals  int
	writes   int
	quiesced [][2]int // ranks that got one, and of how many exclusions
}

func newFakeNetwork() *fakeNetwork {
	n := &fakeNetwork{progress: make(chan struct{}, 1), sizes: map[[2]uint64]uint32{}, written: map[uint64][]byte{}}
	n.ready = sync.NewCond(&n.mu)
	return n
}

func (n *fakeNetwork) push(f func()) {
	n.queue = append(n.queue, f)
	n.ready.Signal()
}

func (n *fakeNetwork) serve() {
	for {
		n.mu.Lock()
		for len(n.queue) == 0 && !n.over {
			n.ready.Wait() // bounded by close
		}
		if n.over {
			n.mu.Unlock()
			return
		}
		f := n.queue[0]
		n.queue = n.queue[1:]
		n.mu.Unlock()
		f()
		notify(n.progress)
	}
}

func (n *fakeNetwork) close() {
	n.mu.Lock()
	n.over = true
	n.ready.Broadcast()
	n.mu.Unlock()
	n.wg.Wait() // bounded by over: serve goes at once
}

// signalled counts a signal, which the test may refuse. mu is held.
func (n *fakeNetwork) signalled() error {
	n.signals++
	notify(n.progress)
	if n.signal == nil {
		return nil
	}
	return n.signal(n.signals)
}

func (n *fakeNetwork) Signal(rank int, payload []byte) error {
	if times, err := placing.ParseQuiesced(payload); err == nil {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.quiesced = append(n.quiesced, [2]int{rank, int(times)})
		return nil
	}
	if placing.ParseWindowRequest(payload) == nil {
		n.mu.Lock()
		defer n.mu.Unlock()
		err := n.signalled()
		if err == nil {
			n.preGrant(rank)
		}
		return err
	}
	var a placing.Announce
	if err := a.Parse(payload); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.signalled(); err != nil {
		return err
	}
	key := [2]uint64{uint64(rank), a.MEP}
	for _, e := range a.Entries {
		n.sizes[key] += (e.Size + 3) &^ 3
	}
	if int(a.FirstStream)+len(a.Entries) < int(a.StreamCount) || n.mute {
		return nil
	}
	g := placing.Grant{
		Slot:    a.Slot,
		Attempt: a.Attempt,
		MEP:     a.MEP,
		Window:  uint32(rank),
		Gen:     uint32(a.MEP) + 1,
		Length:  n.sizes[key],
	}
	if n.length != nil {
		g.Length = n.length(g.Length)
	}
	message := g.Append(nil)
	n.push(func() {
		if err := n.unit.HandleGrant(rank, message); err != nil {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.order = append(n.order, err.Error()) // no test expects it
		}
	})
	return nil
}

// begin counts a write, which the test may refuse; complete is the outcome that the test gives it. mu is held.
func (n *fakeNetwork) begin() (complete func() error, err error) {
	n.writes++
	number := n.writes
	notify(n.progress)
	if n.write != nil {
		err = n.write(number)
	}
	return func() error {
		if n.completion == nil {
			return nil
		}
		return n.completion(number)
	}, err
}

// WriteMany remembers the parts by MEP, and completes them together.
func (n *fakeNetwork) WriteMany(rank int, pieces []link.Piece, cookie uint64) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	complete, err := n.begin()
	if err != nil {
		return err
	}
	k := keptWrite{rank: rank, cookie: cookie, pieces: pieces}
	for _, p := range pieces {
		mep, err := n.checkWindow(rank, p.Ref, p.Imm)
		if err != nil {
			return err
		}
		n.written[mep] = bytes.Clone(p.Data)
		k.meps = append(k.meps, mep)
	}
	if n.stopped[rank] {
		n.kept = append(n.kept, k)
		return nil
	}
	n.push(func() { n.unit.HandleCompletion(rank, cookie, complete()) })
	return nil
}

// keptWrite is a write to a rank that has stopped.
type keptWrite struct {
	rank   int
	cookie uint64
	pieces []link.Piece
	meps   []uint64
}

// RelocateWrite implements Network.
func (n *fakeNetwork) RelocateWrite(rank int, cookie uint64, to func(piece int) []byte) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, k := range n.kept {
		if k.rank == rank && k.cookie == cookie {
			for i := range k.pieces {
				k.pieces[i].Data = to(i)
			}
			return true
		}
	}
	return false
}

// resume has a rank that had stopped take what was written to it, which must be as it was.
func (n *fakeNetwork) resume(t *testing.T, rank int) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.stopped, rank)
	for _, k := range n.kept {
		for i, p := range k.pieces {
			if !bytes.Equal(p.Data, n.written[k.meps[i]]) {
				t.Errorf("the bytes of MEP %d changed while they were under way", k.meps[i])
			}
		}
		n.push(func() { n.unit.HandleCompletion(rank, k.cookie, nil) })
	}
	n.kept = nil
}

// checkWindow notes which MEP is written, and holds that it goes through the window that was granted for it or that
// was pre-granted.
func (n *fakeNetwork) checkWindow(rank int, ref shmem.Ref, imm uint64) (uint64, error) {
	mep, _, slot := placing.ParseImmediate(imm)
	if granted := (shmem.Ref{Window: uint32(rank), Gen: mep + 1}); ref != granted && ref != preGrantedRef(rank, slot) {
		return 0, fmt.Errorf("slot %d of rank %d is written through %v", slot, rank, ref)
	}
	n.order = append(n.order, fmt.Sprintf("MEP %d to rank %d, slot %d", mep, rank, slot))
	return uint64(mep), nil
}

// preGrantedRef is the window that a rank grants in a slot.
func preGrantedRef(rank int, slot uint32) shmem.Ref {
	return shmem.Ref{Window: slot, Gen: uint32(rank)}
}

// preGrant answers a window request.
func (n *fakeNetwork) preGrant(rank int) {
	if n.mute {
		return
	}
	slots := cmp.Or(n.slots, 2)
	for first := 0; first < slots; first += placing.MaxPreGrants {
		m := placing.PreGrants{FirstSlot: uint32(first)}
		for i := range min(placing.MaxPreGrants, slots-first) {
			m.Refs = append(m.Refs, placing.Ref(preGrantedRef(rank, uint32(first+i))))
		}
		message := m.Append(nil)
		n.push(func() {
			if err := n.unit.HandlePreGrants(rank, message); err != nil {
				n.mu.Lock()
				defer n.mu.Unlock()
				n.order = append(n.order, err.Error()) // no test expects it
			}
		})
	}
}

// wrote is how many MEPs were written so far.
func (n *fakeNetwork) wrote() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.written)
}
