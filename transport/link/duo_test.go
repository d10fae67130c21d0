package link

import (
	"bytes"
	"slices"
	"testing"

	"ringlet/shmem"
)

// duo is two cores and the hand that carries datagrams between them; what a test drops is lost.
type duo struct {
	t      testing.TB
	core   [2]*Core
	memory [2][]byte    // exported by each end
	ref    [2]shmem.Ref // what each end may write at the other
	table  [2]*shmem.Table
	events [2][]Event // what each end was told, data copied
	now    int64
	drop   func(from int, d []byte) bool
	sent   [2][4]int // datagrams by sender and kind
}

const (
	duoExport = 64 * shmem.PageSize
	duoGrant  = duoExport - 2*shmem.PageSize // a page at either end stays closed

	// goldenCredit stands in the golden ack as part of the credit; the default may change, that must not.
	goldenCredit = 88
)

func newDuo(t testing.TB, cfg Config) *duo {
	t.Helper()
	d := &duo{t: t, now: 1e9}
	if cfg.MaxDatagram == 0 {
		cfg.MaxDatagram = 1415
	}
	if cfg.Credit == 0 {
		cfg.Credit = goldenCredit
	}
	for e := range 2 {
		d.memory[e] = make([]byte, duoExport)
		d.table[e], d.ref[1-e] = exportTo(t, d.memory[e])
		cfg.View, cfg.Peer, cfg.Table = 0x0203, 1, d.table[e]
		d.core[e] = New(cfg)
	}
	return d
}

// exportTo grants peer 1 everything but the first and last page, by window 2 in generation 7.
func exportTo(t testing.TB, mem []byte) (*shmem.Table, shmem.Ref) {
	t.Helper()
	both := shmem.AccessNwrite | shmem.AccessDmove
	table := shmem.NewTable(4, shmem.FirstGeneration(7))
	seg, err := table.Export(mem, shmem.PageRule{PageCount: len(mem) / shmem.PageSize, Peer: 1, Access: both})
	if err != nil {
		t.Fatal(err)
	}
	other, err := table.Export(make([]byte, shmem.PageSize), shmem.PageRule{PageCount: 1, Peer: 1, Access: both})
	if err != nil {
		t.Fatal(err)
	}
	for w := range 2 { // windows 0 and 1 are taken
		if _, err := table.Grant(1, other, w, 1, both); err != nil {
			t.Fatal(err)
		}
	}
	ref, err := table.Grant(1, seg, shmem.PageSize, len(mem)-2*shmem.PageSize, both)
	if err != nil {
		t.Fatal(err)
	}
	if want := (shmem.Ref{Window: 2, Gen: 7}); ref != want {
		t.Fatalf("granted %+v, want %+v", ref, want)
	}
	return table, ref
}

func (d *duo) write(e int, off uint32, data []byte, cookie uint64) {
	d.t.Helper()
	if !d.core[e].Write(Write{
		Ref:    d.ref[e],
		Offset: off,
		Data:   data,
		Imm:    cookie,
		Cookie: cookie,
	}) {
		d.t.Fatalf("the request queue is full at write %d", cookie)
	}
}

// exchange carries datagrams until nothing is due, without time passing.
func (d *duo) exchange() {
	d.t.Helper()
	buf := make([]byte, d.core[0].cfg.MaxDatagram)
	for moved := true; moved; {
		moved = false
		for e, c := range d.core {
			for n := c.Next(d.now, buf); n > 0; n = c.Next(d.now, buf) {
				moved = true
				d.sent[e][buf[1]&^flagImmediateAck]++
				if d.drop == nil || !d.drop(e, buf[:n]) {
					d.deliver(1-e, buf[:n])
				}
			}
			d.core[1-e].EndBatch()
		}
	}
	for e := range d.core {
		d.collect(e)
		if err := d.core[e].Audit(); err != nil {
			d.t.Fatalf("end %d: %v", e, err)
		}
	}
}

func (d *duo) deliver(e int, b []byte) {
	d.t.Helper()
	if err := d.core[e].Receive(d.now, b); err != nil {
		d.t.Fatalf("end %d: %v", e, err)
	}
	d.collect(e)
}

func (d *duo) collect(e int) {
	for _, ev := range d.core[e].Events(nil) {
		ev.Data, ev.Placements = bytes.Clone(ev.Data), slices.Clone(ev.Placements)
		d.events[e] = append(d.events[e], ev)
	}
}

// run lets time pass until both ends are idle, at most for the given time, ns, and reports whether they are.
func (d *duo) run(limit int64) bool {
	d.t.Helper()
	for end := d.now + limit; ; {
		d.exchange()
		if d.core[0].isIdle() && d.core[1].isIdle() {
			return true
		}
		next := int64(0)
		for _, c := range d.core {
			if t := c.Deadline(); t != 0 && (next == 0 || t < next) {
				next = t
			}
		}
		if next == 0 || next > end {
			return false
		}
		d.now = max(d.now, next)
		for _, c := range d.core {
			c.Tick(d.now)
		}
	}
}

func (d *duo) eventsOf(e int, k EventKind) []Event {
	var out []Event
	for _, ev := range d.events[e] {
		if ev.Kind == k {
			out = append(out, ev)
		}
	}
	return out
}

func pattern(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)*31 + byte(i>>8) + seed
	}
	return b
}
