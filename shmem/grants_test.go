package shmem

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"ringlet/testkit/must"
)

func TestGrantRefusals(t *testing.T) {
	table := NewTable(3)
	mem := make([]byte, 10*PageSize-1)
	closed, err := table.Export(make([]byte, PageSize))
	must.OK(t, err)
	_, err = table.Grant(peerA, closed, 0, 1, AccessNwrite)
	const sentence = "grant segment 1 [0, +1) to peer 1 for nwrite: a page of the range is closed to this peer"
	if !errors.Is(err, errPageDenied) || err.Error() != sentence {
		t.Errorf("without a rule: %v, want %s", err, sentence)
	}
	seg, err := table.Export(mem,
		PageRule{0, 2, peerA, AccessNwrite},
		PageRule{2, 2, AnyPeer, AccessNwrite},
		PageRule{3, 2, peerA, bothWrites},
		PageRule{8, 2, peerA, AccessDmove})
	must.OK(t, err)
	const p = PageSize
	for _, c := range []struct {
		what   string
		peer   Peer
		seg    SegmentID
		off, n int
		a      Access
		want   error
	}{
		{"pages of three rules", peerA, seg, 0, 5 * p, AccessNwrite, nil},
		{"the last byte", peerA, seg, len(mem) - 1, 1, AccessDmove, nil},
		{"one byte of a closed page", peerA, seg, 5 * p, 1, AccessNwrite, errPageDenied},
		{"into a closed page", peerA, seg, 4 * p, p + 1, AccessNwrite, errPageDenied},
		{"dmove where nwrite is open", peerA, seg, 0, 1, AccessDmove, errPageDenied},
		{"both where one is open", peerA, seg, 8 * p, 1, bothWrites, errPageDenied},
		{"another's pages", peerB, seg, 0, 1, AccessNwrite, errPageDenied},
		{"pages of the rule for any", peerB, seg, 3*p - 8, 16, AccessNwrite, ErrOverlap},
		{"a byte of a live grant", peerA, seg, 5*p - 1, 1, AccessNwrite, ErrOverlap},
		{"around a live grant", peerA, seg, 8 * p, len(mem) - 8*p, AccessDmove, ErrOverlap},
		{"empty", peerA, seg, 0, 0, AccessNwrite, errOutOfSegment},
		{"negative length", peerA, seg, 0, -1, AccessNwrite, errOutOfSegment},
		{"negative offset", peerA, seg, -1, 2, AccessNwrite, errOutOfSegment},
		{"past the end", peerA, seg, len(mem) - 1, 2, AccessDmove, errOutOfSegment},
		{"overflow", peerA, seg, 1, int(^uint(0) >> 1), AccessNwrite, errOutOfSegment},
		{"no access", peerA, seg, 0, 1, 0, errBadAccess},
		{"unknown access", peerA, seg, 0, 1, 32, errBadAccess},
		{"to any peer", AnyPeer, seg, 0, 1, AccessNwrite, errBadPeer},
		{"segment 0", peerA, 0, 0, 1, AccessNwrite, errUnknownSegment},
		{"segment beyond", peerA, seg + 1, 0, 1, AccessNwrite, errUnknownSegment},
	} {
		_, err := table.Grant(c.peer, c.seg, c.off, c.n, c.a)
		var ge *opError
		if !errors.Is(err, c.want) || c.want != nil && !errors.As(err, &ge) {
			t.Errorf("%s: %v, want %v", c.what, err, c.want)
		}
	}
	if _, err := table.Grant(peerA, seg, 8*p, 1, AccessDmove); err != nil {
		t.Errorf("the third window: %v", err)
	}
	if _, err := table.Grant(peerA, seg, 8*p+1, 1, AccessDmove); !errors.Is(err, ErrTableFull) {
		t.Errorf("a fourth of three windows: %v", err)
	}
	if r := table.Stats().Refused; r["page denied"] != 6 || r["overlap"] != 3 || r["no free window"] != 1 {
		t.Errorf("refused: %v", r)
	}
}

func TestExportAndWithdraw(t *testing.T) {
	table, mem := NewTable(1), make([]byte, 4*PageSize)
	if _, err := table.Export(nil); !errors.Is(err, errOutOfSegment) {
		t.Errorf("nothing exported: %v", err)
	}
	for _, r := range []PageRule{
		{0, 5, peerA, bothWrites}, {-1, 2, peerA, bothWrites}, {1, 0, peerA, bothWrites},
		{4, int(^uint(0) >> 1), peerA, bothWrites},
	} {
		if _, err := table.Export(mem, r); !errors.Is(err, errOutOfSegment) {
			t.Errorf("rule %+v: %v", r, err)
		}
	}
	if _, err := table.Export(mem, PageRule{0, 1, peerA, 0}); !errors.Is(err, errBadAccess) {
		t.Errorf("rule without access: %v", err)
	}
	seg, err := table.Export(mem[:2*PageSize], PageRule{0, 1, peerA, bothWrites})
	must.OK(t, err)
	if _, err := table.Export(mem[PageSize:]); !errors.Is(err, ErrOverlap) {
		t.Errorf("memory exported twice: %v", err)
	}
	if _, err := table.Export(mem[2*PageSize:]); err != nil {
		t.Errorf("neighbouring memory: %v", err)
	}
	r, err := table.Grant(peerA, seg, 0, 1, AccessDmove)
	must.OK(t, err)
	if err := table.Withdraw(seg); !errors.Is(err, errInUse) {
		t.Errorf("withdraw with a live grant: %v", err)
	}
	if n := table.RevokePeer(peerB); n != 0 {
		t.Errorf("revoked %d of a peer without grants", n)
	}
	if n := table.RevokePeer(peerA); n != 1 {
		t.Errorf("revoked %d, want 1", n)
	}
	if err := table.Revoke(r); !errors.Is(err, errStaleRef) {
		t.Errorf("revoked twice: %v", err)
	}
	for _, want := range []error{nil, errUnknownSegment} {
		if err := table.Withdraw(seg); !errors.Is(err, want) {
			t.Errorf("withdraw: %v, want %v", err, want)
		}
	}
	if seg2, err := table.Export(mem[:PageSize]); err != nil || seg2 == seg {
		t.Errorf("export anew: %v, %v", seg2, err)
	}
}

// TestLend: memory of no segment is one peer's until it is revoked, and what cannot be lent is refused and counted.
func TestLend(t *testing.T) {
	table, mem := NewTable(2), make([]byte, 100)
	for _, c := range []struct {
		what string
		peer Peer
		n    int
		a    Access
		want error
	}{
		{"to any peer", AnyPeer, 1, AccessNwrite, errBadPeer},
		{"no access", peerA, 1, 0, errBadAccess},
		{"nothing", peerA, 0, AccessNwrite, errOutOfSegment},
		{"one half", peerA, 50, AccessNwrite, nil},
		{"the other", peerA, 50, AccessNwrite, nil},
		{"a third of two windows", peerA, 1, AccessNwrite, ErrTableFull},
	} {
		_, err := table.Lend(c.peer, mem[:c.n], c.a)
		var oe *opError
		if !errors.Is(err, c.want) || c.want != nil && !errors.As(err, &oe) {
			t.Errorf("%s: %v, want %v", c.what, err, c.want)
		}
	}
	if n := table.RevokePeer(peerA); n != 2 {
		t.Errorf("revoked %d, want 2", n)
	}
	ref, err := table.Lend(peerB, mem[10:20], AccessNwrite)
	must.OK(t, err)
	if _, v := table.Acquire(peerA, ref, 0, 1, AccessNwrite); v == 0 {
		t.Error("another peer writes to it")
	}
	if _, v := table.Acquire(peerB, ref, 0, 11, AccessNwrite); v == 0 {
		t.Error("its peer writes past its end")
	}
	dst, v := table.Acquire(peerB, ref, 9, 1, AccessNwrite)
	if v != 0 {
		t.Fatal(v)
	}
	dst[0] = 7
	table.Release(ref)
	must.OK(t, table.Revoke(ref))
	if _, v := table.Acquire(peerB, ref, 0, 1, AccessNwrite); v != StaleGen {
		t.Errorf("after the end: %v", v)
	}
	s := table.Stats()
	if mem[19] != 7 || s.Free != 2 || s.Granted != 3 || s.Revoked != 3 || len(table.SegmentNames()) != 1 {
		t.Errorf("%v, %+v", mem, s)
	}
}

func TestGenerationWrapsPastZero(t *testing.T) {
	table := NewTable(1, FirstGeneration(^uint32(0)))
	seg, err := table.Export(make([]byte, PageSize), PageRule{0, 1, AnyPeer, bothWrites})
	must.OK(t, err)
	for _, want := range []uint32{^uint32(0), 1, 2} {
		r, err := table.Grant(peerA, seg, 0, 1, AccessNwrite)
		if err != nil || r.Gen != want {
			t.Fatalf("generation %d, %v; want %d", r.Gen, err, want)
		}
		must.OK(t, table.Revoke(r))
	}
	for _, g := range []uint32{0, ^uint32(0)} {
		if _, v := table.Acquire(peerA, Ref{0, g}, 0, 1, AccessNwrite); v != StaleGen {
			t.Errorf("generation %d: %v", g, v)
		}
	}
	if _, err := NewTable(-1).Grant(peerA, 1, 0, 1, AccessNwrite); err == nil {
		t.Error("a table without windows gave a grant")
	}
}

// grantModel is what a Table must agree with: the live grants in a map.
type grantModel struct {
	table *Table
	im    *ImportedTable // of a shared table, by peer A; else nil
	segs  []SegmentID
	live  map[Ref]modelGrant
	dead  []Ref
}

type modelGrant struct {
	peer   Peer
	seg    SegmentID
	off, n int
	a      Access
}

const modelWindows, modelPages = 12, 2

// TestTableAgreesWithModel drives a table, and one that is shared together with its importer.
func TestTableAgreesWithModel(t *testing.T) {
	rules := []PageRule{{0, modelPages, AnyPeer, AccessNwrite}, {0, 1, peerA, AccessDmove}}
	alone := &grantModel{table: NewTable(modelWindows)}
	p := newSharedPair(t, modelWindows, modelPages)
	must.OK(t, p.table.Withdraw(p.id))
	other, err := Create("ringlet-t-other", modelPages*PageSize, WithDir(p.dir))
	must.OK(t, err)
	defer func() { _ = other.Close() }()
	shared := &grantModel{table: p.table, im: p.im}
	for _, seg := range []*Segment{p.seg, other} {
		id, err := alone.table.Export(make([]byte, modelPages*PageSize), rules...)
		must.OK(t, err)
		alone.segs = append(alone.segs, id)
		id, err = p.table.ExportSegment(seg, rules...)
		must.OK(t, err)
		shared.segs = append(shared.segs, id)
	}
	for name, m := range map[string]*grantModel{"alone": alone, "shared": shared} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				m.live, m.dead = map[Ref]modelGrant{}, nil
				defer func() {
					for r := range m.live {
						must.OK(t, m.table.Revoke(r))
					}
				}()
				t.Repeat(map[string]func(*rapid.T){
					"grant": m.grant, "revoke": m.revoke, "acquire": m.acquire, "": m.check,
				})
			})
			if s := m.table.Stats(); s.Free != modelWindows || s.UnbalancedReleases != 0 {
				t.Errorf("stats %+v", s)
			}
		})
	}
	if n := p.im.unbalancedReleases.Load(); n != 0 {
		t.Errorf("%d releases of the importer without an acquire", n)
	}
}

func (m *grantModel) grant(t *rapid.T) {
	g := modelGrant{
		peer: Peer(rapid.IntRange(1, 2).Draw(t, "peer")),
		seg:  rapid.SampledFrom(m.segs).Draw(t, "segment"),
		off:  rapid.IntRange(0, modelPages*PageSize).Draw(t, "off"),
		n:    rapid.OneOf(rapid.IntRange(1, 64), rapid.IntRange(1, 4000)).Draw(t, "n"),
		a:    rapid.SampledFrom([]Access{AccessNwrite, AccessDmove, bothWrites}).Draw(t, "access"),
	}
	inside := g.off+g.n <= modelPages*PageSize
	open := g.a == AccessNwrite || g.peer == peerA && g.off+g.n <= PageSize
	overlap := false
	for _, l := range m.live {
		overlap = overlap || l.seg == g.seg && l.off < g.off+g.n && g.off < l.off+l.n
	}
	r, err := m.table.Grant(g.peer, g.seg, g.off, g.n, g.a)
	want := inside && open && !overlap && len(m.live) < modelWindows
	if (err == nil) != want {
		t.Fatalf("grant %+v: %v; the model says %v", g, err, want)
	}
	if err != nil {
		return
	}
	if _, twice := m.live[r]; twice || r.Gen == 0 {
		t.Fatalf("reference %+v is not fresh", r)
	}
	m.live[r] = g
}

func (m *grantModel) revoke(t *rapid.T) {
	r := m.someRef(t)
	_, live := m.live[r]
	if err := m.table.Revoke(r); (err == nil) != live {
		t.Fatalf("revoke %+v: %v; live %v", r, err, live)
	}
	if live {
		delete(m.live, r)
		m.dead = append(m.dead, r)
	}
}

func (m *grantModel) acquire(t *rapid.T) {
	r := m.someRef(t)
	peer := Peer(rapid.IntRange(1, 2).Draw(t, "peer"))
	off, n := rapid.Uint32Range(0, 5000).Draw(t, "off"), rapid.Uint32Range(0, 5000).Draw(t, "n")
	a := rapid.SampledFrom([]Access{AccessNwrite, AccessDmove}).Draw(t, "access")
	g, live := m.live[r]
	want := live && g.peer == peer && g.a&a != 0 && int(off+n) <= g.n
	b, v := m.table.Acquire(peer, r, off, n, a)
	if (v == 0) != want {
		t.Fatalf("acquire %+v of %+v: %v; the model says %v", r, g, v, want)
	}
	if m.im != nil && peer == peerA {
		theirs, w := m.im.Acquire(r, off, n, a)
		if w != v && !(w == NoWindow && v == StaleGen) {
			t.Fatalf("the importer says %v, the owner %v", w, v)
		}
		if w == 0 {
			for i := range theirs {
				theirs[i]++
			}
			if !bytes.Equal(b, theirs) {
				t.Fatal("owner and importer do not mean the same bytes")
			}
			m.im.Release(r)
		}
	}
	if v == 0 {
		if len(b) != int(n) {
			t.Fatalf("%d bytes, want %d", len(b), n)
		}
		m.table.Release(r)
	}
}

// someRef is a live reference, a dead one, or one never given.
func (m *grantModel) someRef(t *rapid.T) Ref {
	refs := append([]Ref{{0, 0}, {modelWindows, 1}}, m.dead...)
	for w := uint32(0); w < modelWindows; w++ { // in a fixed order, so that rapid can shrink
		for r := range m.live {
			if r.Window == w {
				refs = append(refs, r)
			}
		}
	}
	return rapid.SampledFrom(refs).Draw(t, "ref")
}

func (m *grantModel) check(t *rapid.T) {
	s := m.table.Stats()
	if s.Live != len(m.live) || s.Free+s.Live != modelWindows || s.Granted-s.Revoked != uint64(len(m.live)) {
		t.Fatalf("%d live in the model; stats %+v", len(m.live), s)
	}
}

// TestGrantsOverlapWhereTheyMay holds that peers share the bytes of a segment that allows it, each by its own grant,
// and that the end of one grant leaves the others.
func TestGrantsOverlapWhereTheyMay(t *testing.T) {
	table := NewTable(4)
	mem := make([]byte, 2*PageSize)
	all := AccessNwrite | AccessRead | AccessLock
	seg, err := table.Export(mem, PageRule{0, 2, AnyPeer, all})
	if err != nil {
		t.Fatal(err)
	}
	if err := table.AllowOverlap(seg + 1); !errors.Is(err, errUnknownSegment) {
		t.Errorf("overlap in a segment that there is not: %v", err)
	}
	if err := table.AllowOverlap(seg); err != nil {
		t.Fatal(err)
	}
	a, err := table.Grant(peerA, seg, 0, 2*PageSize, all)
	if err != nil {
		t.Fatal(err)
	}
	b, err := table.Grant(peerB, seg, PageSize, PageSize, AccessRead)
	if err != nil {
		t.Fatal(err)
	}
	if err := table.AllowOverlap(seg); !errors.Is(err, errInUse) {
		t.Errorf("overlap behind the first grant: %v", err)
	}
	if _, v := table.Acquire(peerB, b, 0, 8, AccessLock); v != NoAccess {
		t.Errorf("a lock where reading is allowed: %v", v)
	}
	if err := table.Revoke(a); err != nil {
		t.Fatal(err)
	}
	if _, v := table.Acquire(peerA, a, 0, 8, AccessRead); v != StaleGen {
		t.Errorf("a read behind Revoke: %v", v)
	}
	got, v := table.Acquire(peerB, b, 8, 8, AccessRead)
	if v != 0 {
		t.Fatal(v)
	}
	Word(got).Store(7)
	if mem[PageSize+8] != 7 || Word(got[1:]) != nil || Word(got[:7]) != nil {
		t.Errorf("a word is not where it belongs, or stands where none can")
	}
	table.Release(b)
	if err := table.Revoke(b); err != nil {
		t.Fatal(err)
	}
	if err := table.Withdraw(seg); err != nil {
		t.Fatal(err)
	}
}
