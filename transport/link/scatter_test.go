package link

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"ringlet/internal/invariants"
	"ringlet/shmem"
)

// scattered is many small windows of one memory, each granted to peer 1, and pieces that fill them.
func scattered(t testing.TB, d *duo, windows int) ([]Piece, []byte) {
	t.Helper()
	const windowSize = 256
	pieces, mem := newWindows(t, d, windows, windowSize)
	for i := range pieces {
		pieces[i].Data = pattern(i%(windowSize+1), byte(i))
		pieces[i].Offset = uint32(i*7) % uint32(windowSize+1-i%(windowSize+1))
	}
	return pieces, mem
}

// newWindows is so many windows of one memory, each granted to peer 1, and empty pieces for them.
func newWindows(t testing.TB, d *duo, windows, windowSize int) ([]Piece, []byte) {
	t.Helper()
	mem := make([]byte, windows*windowSize)
	table := shmem.NewTable(windows)
	pages := (len(mem) + shmem.PageSize - 1) / shmem.PageSize
	seg, err := table.Export(mem, shmem.PageRule{PageCount: pages, Peer: 1, Access: shmem.AccessNwrite})
	if err != nil {
		t.Fatal(err)
	}
	d.core[1].cfg.Table = table
	pieces := make([]Piece, windows)
	for i := range pieces {
		ref, err := table.Grant(1, seg, i*windowSize, windowSize, shmem.AccessNwrite)
		if err != nil {
			t.Fatal(err)
		}
		pieces[i] = Piece{Ref: ref, Imm: uint64(i) << 20}
	}
	return pieces, mem
}

func TestPiecesArriveOnceWhateverIsLost(t *testing.T) {
	d := newDuo(t, Config{})
	rng := rand.New(rand.NewPCG(1, 2))
	d.drop = func(int, []byte) bool { return rng.IntN(5) == 0 }
	pieces, mem := scattered(t, d, 512)
	for cookie, share := range [][]Piece{pieces[:300], pieces[300:301], pieces[301:]} {
		if !d.core[0].WriteMany(share, uint64(cookie)) {
			t.Fatal("no room")
		}
	}
	d.core[0].Fence(9)
	if !d.run(60e9) {
		t.Fatal("the link did not come to rest")
	}
	placed := map[uint64]Placement{}
	for _, e := range d.eventsOf(1, EventPlacedMany) {
		for _, p := range e.Placements {
			if _, twice := placed[p.Imm]; twice {
				t.Errorf("piece %d was placed twice", p.Imm>>20)
			}
			placed[p.Imm] = p
		}
	}
	for i, p := range pieces {
		got, ok := placed[p.Imm]
		if !ok || got.Ref != p.Ref || int(got.Length) != len(p.Data) || got.Offset != p.Offset ||
			!bytes.Equal(mem[i*256+int(p.Offset):][:len(p.Data)], p.Data) {
			t.Errorf("piece %d: told %+v", i, got)
		}
	}
	if n := len(d.eventsOf(0, EventCompleted)); n != 3 || len(d.eventsOf(0, EventFenced)) != 1 {
		t.Errorf("%d completions and %d fences", n, len(d.eventsOf(0, EventFenced)))
	}
	if s := d.core[1].Stats(); s.ChunksPlaced == 0 || s.ChunksPlaced > 512/4 {
		t.Errorf("%d datagrams brought 512 pieces", s.ChunksPlaced)
	}
}

// TestPiecesThatMove: the bytes of a write under way lie elsewhere from some moment on, and those of the former place
// are overwritten at once. What arrives is what was to be sent, whatever is lost, of pieces that share a datagram and
// of those that take several transactions.
func TestPiecesThatMove(t *testing.T) {
	relocated := map[bool]int{}
	for after := range 40 {
		d := newDuo(t, Config{})
		rng := rand.New(rand.NewPCG(uint64(after), 2))
		d.drop = func(int, []byte) bool { return rng.IntN(5) == 0 }
		windowSize := (maxChunks + 3) * d.core[0].requester.chunkSize
		pieces, mem := newWindows(t, d, 5, windowSize)
		want := make([][]byte, len(pieces))
		for i := range pieces {
			pieces[i].Data = pattern([]int{200, windowSize - 7, 3000}[i%3], byte(i))
			want[i] = bytes.Clone(pieces[i].Data)
		}
		d.core[0].WriteMany(pieces[:2], 6)
		d.core[0].WriteMany(pieces[2:], 7)
		if after > 0 {
			d.run(int64(after-1) * 10e6)
		}
		moved := d.core[0].RelocateWrite(7, func(i int) []byte {
			p := &pieces[2+i]
			now := bytes.Clone(p.Data)
			clear(p.Data)
			return now
		})
		if d.core[0].RelocateWrite(8, nil) {
			t.Error("a write was moved that is not there")
		}
		relocated[moved]++
		if !d.run(60e9) {
			t.Fatal("the link did not come to rest")
		}
		for i := range want {
			if !bytes.Equal(mem[i*windowSize:][:len(want[i])], want[i]) {
				t.Errorf("after %d: piece %d is not what was written", after, i)
			}
		}
		if n := len(d.eventsOf(0, EventCompleted)); n != 2 || d.core[0].RelocateWrite(7, nil) {
			t.Errorf("%d completions", n)
		}
	}
	if relocated[true] < 5 || relocated[false] < 5 { // else the times above are not those at which something is under way
		t.Errorf("%d writes were moved, %d were over", relocated[true], relocated[false])
	}
}

func TestRefusedPieceKeepsNoOtherFromItsPlace(t *testing.T) {
	d := newDuo(t, Config{})
	pieces, mem := scattered(t, d, 32)
	pieces[7].Ref.Gen++
	d.core[0].WriteMany(pieces, 5)
	d.exchange()
	done := d.eventsOf(0, EventCompleted)
	if len(done) != 1 || done[0].Cookie != 5 || done[0].Reason != Reason(shmem.StaleGen) {
		t.Errorf("completed as %+v", done)
	}
	if r := d.eventsOf(1, EventRefused); len(r) != 1 || r[0].Imm != pieces[7].Imm {
		t.Errorf("refused %+v", r)
	}
	for i, p := range pieces {
		if in := bytes.Equal(mem[i*256+int(p.Offset):][:len(p.Data)], p.Data); in == (i == 7) {
			t.Errorf("piece %d is in place: %v", i, in)
		}
	}
}

// TestPiecesOfAnySize: pieces that just fit a datagram, or just not, or fill many, in all orders; and that one of them
// is refused keeps no other from its place.
func TestPiecesOfAnySize(t *testing.T) {
	const windows, windowSize = 64, 9000
	most := 1415 - headerSize - scatterHeader - pieceHeader
	for _, refused := range []int{-1, 0, windows / 2} {
		d := newDuo(t, Config{PadDatagrams: refused < 0})
		rng := rand.New(rand.NewPCG(3, uint64(refused+1)))
		d.drop = func(int, []byte) bool { return rng.IntN(10) == 0 }
		chunk := d.core[0].requester.chunkSize
		sizes := []int{0, 1, 700, 1000, most - 1, most, most + 1, chunk, chunk + 1, windowSize}
		pieces, mem := newWindows(t, d, windows, windowSize)
		for i := range pieces {
			pieces[i].Data = pattern(sizes[rng.IntN(len(sizes))], byte(i))
			pieces[i].Offset = uint32(rng.IntN(windowSize + 1 - len(pieces[i].Data)))
		}
		if refused >= 0 {
			pieces[refused].Data, pieces[refused].Offset = pattern(windowSize, 1), 0
			pieces[refused].Ref.Gen++
		}
		d.core[0].WriteMany(pieces, 5)
		if !d.run(60e9) {
			t.Fatal("the link did not come to rest")
		}
		if done := d.eventsOf(0, EventCompleted); len(done) != 1 || done[0].Cookie != 5 ||
			(done[0].Reason != 0) != (refused >= 0) {
			t.Errorf("piece %d refused: completed as %+v", refused, done)
		}
		placed := map[uint64]Placement{}
		record := func(p Placement) {
			if _, twice := placed[p.Imm]; twice {
				t.Errorf("piece %d was placed twice", p.Imm>>20)
			}
			placed[p.Imm] = p
		}
		for _, e := range d.eventsOf(1, EventPlacedMany) {
			for _, p := range e.Placements {
				record(p)
			}
		}
		for _, e := range d.eventsOf(1, EventPlaced) {
			record(Placement{Ref: e.Ref, Offset: e.Offset, Length: e.Length, Imm: e.Imm})
		}
		for i, p := range pieces {
			got, ok := placed[p.Imm]
			want := Placement{p.Ref, p.Offset, uint32(len(p.Data)), p.Imm}
			in := bytes.Equal(mem[i*windowSize+int(p.Offset):][:len(p.Data)], p.Data)
			if ok == (i == refused) || ok && (got != want || !in) {
				t.Errorf("piece %d of %d bytes, piece %d refused: told %v %+v", i, len(p.Data), refused, ok, got)
			}
		}
	}
}

// TestPieceOfSeveralTransactions: one piece has more chunks than a transaction can.
func TestPieceOfSeveralTransactions(t *testing.T) {
	d := newDuo(t, Config{})
	windowSize := (maxChunks + 3) * d.core[0].requester.chunkSize
	pieces, mem := newWindows(t, d, 3, windowSize)
	pieces[0].Data, pieces[1].Data, pieces[2].Data = pattern(9, 1), pattern(windowSize, 2), pattern(7, 3)
	d.core[0].WriteMany(pieces, 5)
	if !d.run(60e9) || len(d.eventsOf(0, EventCompleted)) != 1 {
		t.Fatal("the link did not come to rest, or told more than one outcome")
	}
	for i, p := range pieces {
		if !bytes.Equal(mem[i*windowSize:i*windowSize+len(p.Data)], p.Data) {
			t.Errorf("piece %d is not in place", i)
		}
	}
	reported := uint32(0)
	for _, e := range d.eventsOf(1, EventPlaced) {
		if e.Imm != pieces[1].Imm || e.Ref != pieces[1].Ref || e.Offset != reported {
			t.Errorf("told %+v behind %d bytes", e, reported)
		}
		reported += e.Length
	}
	if int(reported) != windowSize {
		t.Errorf("%d of %d bytes were told", reported, windowSize)
	}
}

func TestMalformedPiecesAreNamed(t *testing.T) {
	d := newDuo(t, Config{})
	pieces, _ := scattered(t, d, 16)
	d.core[0].WriteMany(pieces[:4], 1)
	buf := make([]byte, 1415)
	good := buf[:d.core[0].Next(d.now, buf)]
	for name, bad := range map[string][]byte{
		"cut off":   good[:len(good)-1],
		"no pieces": withByte(good, headerSize+2, 0),
		"too many":  withByte(good, headerSize+2, 5),
		"too long":  withByte(good, headerSize+scatterHeader+17, 4),
	} {
		other := newDuo(t, Config{})
		if err := other.core[1].Receive(1, bad); err == nil || !strings.Contains(err.Error(), "pieces") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func withByte(b []byte, at int, v byte) []byte {
	b = bytes.Clone(b)
	b[at] = v
	return b
}

func TestPiecesAllocateNothing(t *testing.T) {
	if invariants.Enabled {
		t.Skip("SKIPPED: the race detector allocates")
	}
	d := newDuo(t, Config{PadDatagrams: true})
	pieces, _ := scattered(t, d, 256)
	s := &shuttle{core: d.core, buf: make([]byte, 1415), now: 1e9}
	round := func() {
		s.core[0].WriteMany(pieces, 1)
		s.exchange()
	}
	for range DefaultSeqWindow {
		round()
	}
	if n := testing.AllocsPerRun(50, round); n != 0 {
		t.Errorf("%v allocations per round", n)
	}
	if st := s.core[0].Stats(); !s.core[0].isIdle() || st.WritesRefused+st.DatagramsResent != 0 {
		t.Errorf("%+v", st)
	}
}
