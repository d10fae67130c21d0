package shmem

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
	"unsafe"

	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// sharedPair is a shared table with one segment of its own, and an importer of it.
type sharedPair struct {
	dir   string
	table *Table
	seg   *Segment
	id    SegmentID
	im    *ImportedTable
}

func newSharedPair(t testing.TB, windows, pages int, opts ...TableOption) *sharedPair {
	t.Helper()
	p := &sharedPair{dir: must.MemoryDir(t)}
	var err error
	p.table, err = NewSharedTable("ringlet-t-table", windows, append(opts, TableDir(p.dir))...)
	must.OK(t, err)
	p.seg, err = Create("ringlet-t-memory", pages*PageSize, WithDir(p.dir))
	must.OK(t, err)
	p.id, err = p.table.ExportSegment(p.seg, PageRule{0, pages, AnyPeer, bothWrites})
	must.OK(t, err)
	p.im, err = OpenTable(p.table.Name(), p.table.ID(), peerA, WithDir(p.dir))
	must.OK(t, err)
	t.Cleanup(func() {
		for _, c := range []interface{ Close() error }{p.im, p.table, p.seg} {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return p
}

func (p *sharedPair) grant(t testing.TB, peer Peer, off, n int, a Access) Ref {
	t.Helper()
	r, err := p.table.Grant(peer, p.id, off, n, a)
	must.OK(t, err)
	return r
}

func TestImportedAcquireChecks(t *testing.T) {
	p := newSharedPair(t, 6, 2)
	r := p.grant(t, peerA, 100, 50, AccessNwrite)
	old := p.grant(t, peerA, 200, 50, AccessNwrite)
	others := p.grant(t, peerB, 300, 50, AccessNwrite)
	private, err := p.table.Export(make([]byte, PageSize), PageRule{0, 1, AnyPeer, bothWrites})
	must.OK(t, err)
	hidden, err := p.table.Grant(peerA, private, 0, 50, AccessNwrite)
	must.OK(t, err)
	must.OK(t, p.table.Revoke(old))
	acquireAll(t, append(acquireCases(r, old, 6), acquireCase{"another's", peerA, others, 0, 1, AccessNwrite, WrongPeer},
		acquireCase{"memory of the owner alone", peerA, hidden, 0, 1, AccessNwrite, NotShared}),
		&p.im.violations, p.seg.Bytes()[100:150], p.im.Release,
		func(c acquireCase) ([]byte, Violation) { return p.im.Acquire(c.ref, c.off, c.n, c.a) })
	want := make([]byte, 2*PageSize)
	copy(want[100:], bytes.Repeat([]byte{7}, 50))
	if !bytes.Equal(p.seg.Bytes(), want) {
		t.Error("the owner's memory is not what was written")
	}
	for _, ref := range []Ref{r, others, hidden} {
		if err := p.table.Revoke(ref); err != nil {
			t.Error(err)
		}
	}
	p.im.Release(r)
	if p.im.unbalancedReleases.Load() != 1 {
		t.Error("a release without an acquire was not counted")
	}
}

func TestTableGolden(t *testing.T) {
	p := newSharedPair(t, 2, 1, FirstGeneration(7))
	r := p.grant(t, peerA, 100, 50, AccessNwrite)
	gone := p.grant(t, peerB, 2048, 8, bothWrites)
	must.OK(t, p.table.Revoke(gone))
	if _, v := p.im.Acquire(r, 0, 1, AccessNwrite); v != 0 {
		t.Fatal(v)
	}
	got := append([]byte(nil), p.im.mem...)
	id := got[unsafe.Offsetof(tableHeader{}.id):][:16]
	if TableID(id) != p.table.ID() {
		t.Error("the ID is not where it should be")
	}
	clear(id)
	wantImage(t, got, golden(t, "testdata/table.golden"))
	p.im.Release(r)
}

func TestOpenTableRefusals(t *testing.T) {
	p := newSharedPair(t, 4, 1)
	open := func(name string, id TableID, as Peer) error {
		im, err := OpenTable(name, id, as, WithDir(p.dir))
		if err == nil {
			_ = im.Close()
		}
		return err
	}
	var corrupt *corruptError
	if err := open(p.table.Name(), TableID{1}, peerB); !errors.Is(err, ErrOtherTable) {
		t.Errorf("another table's number: %v", err)
	}
	if err := open(p.table.Name(), p.table.ID(), peerA); !errors.Is(err, errPeerInUse) {
		t.Errorf("a second importer of one peer: %v", err)
	}
	if err := open(p.table.Name(), p.table.ID(), AnyPeer); !errors.Is(err, errBadPeer) {
		t.Errorf("any peer: %v", err)
	}
	if err := open("ringlet-t-none", p.table.ID(), peerB); !errors.Is(err, ErrNotFound) {
		t.Errorf("no table: %v", err)
	}
	if err := open(p.seg.Name(), TableID{}, peerB); !errors.As(err, &corrupt) {
		t.Errorf("no table inside: %v", err)
	}
	if err := open(p.table.Name(), p.table.ID(), peerB); err != nil {
		t.Errorf("a second peer: %v", err)
	}
}

func TestExportSegmentRefusals(t *testing.T) {
	p := newSharedPair(t, 1, 1)
	other, err := Create("ringlet-t-other", PageSize, WithDir(t.TempDir()))
	must.OK(t, err)
	defer func() { _ = other.Close() }()
	if _, err := p.table.ExportSegment(other); !errors.Is(err, errOtherDirectory) {
		t.Errorf("a segment of another directory: %v", err)
	}
	var ids []SegmentID
	for i := range tableEntries {
		s, err := Create(fmt.Sprintf("ringlet-t-%d", i), PageSize, WithDir(p.dir))
		must.OK(t, err)
		defer func() { _ = s.Close() }()
		id, err := p.table.ExportSegment(s)
		if i == tableEntries-1 {
			if !errors.Is(err, errDirectoryFull) {
				t.Errorf("segment %d: %v", i+2, err)
			}
			if err := p.table.Withdraw(ids[0]); err != nil {
				t.Error(err)
			}
			if _, err = p.table.ExportSegment(s); err != nil {
				t.Errorf("after a withdrawal: %v", err)
			}
		} else if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	private := NewTable(1)
	if _, err := private.ExportSegment(other); err != nil || private.Name() != "" || private.ID() != (TableID{}) ||
		private.Close() != nil {
		t.Errorf("a table that is not shared: %v", err)
	}
}

// TestExportedAgain: the same segment in a new life of a directory entry, and another in the entry of one withdrawn.
func TestExportedAgain(t *testing.T) {
	p := newSharedPair(t, 2, 1)
	write := func(what string, mem []byte) {
		t.Helper()
		r := p.grant(t, peerA, 0, 8, AccessNwrite)
		b, v := p.im.Acquire(r, 0, 8, AccessNwrite)
		if v != 0 {
			t.Fatalf("%s: %v", what, v)
		}
		copy(b, what)
		p.im.Release(r)
		if got := string(mem[:len(what)]); got != what {
			t.Errorf("the owner sees %q, not %q", got, what)
		}
		if err := p.table.Revoke(r); err != nil {
			t.Error(err)
		}
		if err := p.table.Withdraw(p.id); err != nil {
			t.Error(err)
		}
	}
	for i := range 100 {
		write(fmt.Sprintf("life %d", i), p.seg.Bytes())
		var err error
		p.id, err = p.table.ExportSegment(p.seg, PageRule{0, 1, AnyPeer, bothWrites})
		must.OK(t, err)
	}
	write("last", p.seg.Bytes())
	next, err := Create("ringlet-t-next", PageSize, WithDir(p.dir))
	must.OK(t, err)
	defer func() { _ = next.Close() }()
	p.id, err = p.table.ExportSegment(next, PageRule{0, 1, AnyPeer, bothWrites})
	must.OK(t, err)
	write("next", next.Bytes())
	if n := len(p.im.allMappings); n != 2 {
		t.Errorf("%d mappings of 2 segments", n)
	}
}

func init() {
	// importer writes as peer A into the window it is told of, and stays inside.
	children["importer"] = func() error {
		var id TableID
		var r Ref
		if _, err := fmt.Sscanf(os.Getenv("REF"), "%x %d %d", (*idBytes)(&id), &r.Window, &r.Gen); err != nil {
			return err
		}
		im, err := OpenTable("ringlet-t-table", id, peerA, WithDir(os.Getenv("DIR")))
		if err != nil {
			return err
		}
		b, v := im.Acquire(r, 0, 14, AccessNwrite)
		if v != 0 {
			return fmt.Errorf("acquire: %v", v)
		}
		copy(b, "from the child")
		say("inside")
		hold()
		im.Release(r)
		return im.Close()
	}
}

type idBytes TableID

func (b *idBytes) Scan(s fmt.ScanState, verb rune) error {
	var raw []byte
	if _, err := fmt.Fscanf(s, "%x", &raw); err != nil || len(raw) != len(b) {
		return fmt.Errorf("no ID: %x %w", raw, err)
	}
	copy(b[:], raw)
	return nil
}

// TestImporterThatRemainsInside: its process leaves, is killed, or stays when its link is gone.
func TestImporterThatRemainsInside(t *testing.T) {
	for _, end := range []string{"leaves", "killed", "stays"} {
		t.Run(end, func(t *testing.T) {
			p := newSharedPair(t, 2, 1)
			if err := p.im.Close(); err != nil { // its peer is the child
				t.Fatal(err)
			}
			r := p.grant(t, peerA, 0, 100, AccessNwrite)
			c := startChild(t, "importer", "DIR="+p.dir, fmt.Sprintf("REF=%x %d %d", p.table.ID(), r.Window, r.Gen))
			if got := c.line(t); got != "inside" {
				t.Fatalf("the child said %q", got)
			}
			if got := string(p.seg.Bytes()[:14]); got != "from the child" {
				t.Errorf("the memory holds %q", got)
			}
			done := make(chan error, 1)
			go func() { done <- p.table.Revoke(r) }()
			select {
			case err := <-done:
				t.Fatalf("revoked under a writer: %v", err)
			case <-time.After(50 * time.Millisecond):
			}
			switch end {
			case "leaves":
				c.finish(t)
			case "killed":
				c.kill()
			case "stays":
				p.table.Evict(peerA)
			}
			err := patiently.Receive(t, done)
			if end != "stays" {
				if err != nil {
					t.Errorf("revoke: %v", err)
				}
				next := p.grant(t, peerB, 50, 20, AccessNwrite)
				if err := p.table.Revoke(next); err != nil {
					t.Errorf("the bytes' next grant: %v", err)
				}
				return
			}
			if !errors.Is(err, errPinned) || !strings.Contains(err.Error(), fmt.Sprintf("revoke window %d", r.Window)) {
				t.Errorf("revoke: %v, want ErrPinned", err)
			}
			if _, err := p.table.Grant(peerB, p.id, 50, 20, AccessNwrite); !errors.Is(err, ErrOverlap) {
				t.Errorf("bytes granted under a writer: %v", err)
			}
			c.finish(t)
		})
	}
}

func TestImportedDoesNotAllocate(t *testing.T) {
	p := newSharedPair(t, 2, 1)
	r := p.grant(t, peerA, 0, 100, AccessNwrite)
	if n := testing.AllocsPerRun(1000, func() {
		if _, v := p.im.Acquire(r, 0, 100, AccessNwrite); v != 0 {
			t.Fatal(v)
		}
		p.im.Release(r)
	}); n != 0 {
		t.Errorf("acquire and release: %v allocations", n)
	}
	if n := testing.AllocsPerRun(1000, func() {
		r, err := p.table.Grant(peerA, p.id, 200, 100, AccessNwrite)
		must.OK(t, err)
		must.OK(t, p.table.Revoke(r))
	}); n != 0 {
		t.Errorf("grant and revoke: %v allocations", n)
	}
}

func BenchmarkImportedAcquireRelease(b *testing.B) {
	p := newSharedPair(b, 2, 1)
	r := p.grant(b, peerA, 0, PageSize, AccessNwrite)
	for b.Loop() {
		if _, v := p.im.Acquire(r, 100, 1400, AccessNwrite); v != 0 {
			b.Fatal(v)
		}
		p.im.Release(r)
	}
}

// FuzzImported gives importer and owner a table in which another process wrote anything: no access leaves the mapped
// memory, and the owner's own figures stay what they are.
func FuzzImported(f *testing.F) {
	var row rowWords
	var entry directoryEntryWords
	where := rowsOffset + int(unsafe.Offsetof(row.segmentAndEntry))
	f.Add(patchOf(rowsOffset+int(unsafe.Offsetof(row.off)), 1<<31), uint32(0), uint32(8))
	f.Add(patchOf(rowsOffset+int(unsafe.Offsetof(row.n))+4, 1<<31), uint32(4000), uint32(1<<31))
	f.Add(patchOf(where, 3), uint32(0), uint32(8))
	f.Add(patchOf(where+4, 3), uint32(0), uint32(8))
	f.Add(patchOf(directoryOffset+int(unsafe.Offsetof(entry.length)), 300), uint32(0), uint32(8))
	f.Add(patchOf(directoryOffset+int(unsafe.Offsetof(entry.size)), 1<<30), uint32(0), uint32(8))
	f.Add(patchOf(directoryOffset+int(unsafe.Offsetof(entry.text)), 0x2F2E2E2F), uint32(0), uint32(8))
	f.Add(patchOf(rowsOffset, 1<<31|5), uint32(0), uint32(8))
	f.Add(patchOf(rowsOffset, 1<<31-1|1<<31), uint32(0), uint32(8))
	f.Fuzz(func(t *testing.T, patches []byte, off, n uint32) {
		p := newSharedPair(t, 2, 1)
		r := p.grant(t, peerA, 8, 4000, AccessNwrite)
		patch(p.table.shared.mem, patches)
		if im, err := OpenTable(p.table.Name(), p.table.ID(), peerB, WithDir(p.dir)); err == nil {
			_ = im.Close()
		}
		for _, ref := range []Ref{r, {1, 1}} {
			for range 2 {
				if b, v := p.im.Acquire(ref, off, n, AccessNwrite); v == 0 {
					for i := range b { // a fault, if it is outside
						b[i] = 1
					}
					p.im.Release(ref)
				}
			}
		}
		p.table.Evict(peerA)
		if err := p.table.Revoke(r); err != nil && !errors.Is(err, errPinned) {
			t.Error(err)
		} else if s := p.table.Stats(); (s.Free == 2) != (err == nil) {
			t.Errorf("%v, then %+v", err, s)
		}
	})
}
