package link

import (
	"bytes"
	"encoding/binary"
	"testing"

	"ringlet/shmem"
	"ringlet/testkit/golden"
)

// FuzzReceive gives a core that has requests of its own under way whatever datagrams the input holds, each after two
// bytes of length. Nothing but the granted bytes may change, and the accounts must stay in order.
func FuzzReceive(f *testing.F) {
	join := func(names ...string) (b []byte) {
		for _, n := range names {
			g := golden.Hex(f, n)
			b = append(binary.LittleEndian.AppendUint16(b, uint16(len(g))), g...)
		}
		return b
	}
	f.Add(join("write", "write"))
	f.Add(join("dmove", "signal"))
	f.Add(join("echo", "done"))
	f.Add(join("refused", "echo", "write"))
	f.Add(join("signal", "signal", "done", "done"))
	f.Add(join("part", "write", "part"))
	f.Add(join("pieces", "pieces"))
	refused := join("pieces")
	refused[2+headerSize+scatterHeader]++ // the window of the first piece: the other one is placed all the same
	f.Add(refused)
	f.Fuzz(func(t *testing.T, in []byte) {
		const pages = 3
		mem := bytes.Repeat([]byte{0xA5}, pages*shmem.PageSize)
		table, ref := exportTo(t, mem)
		c := New(Config{
			View:        0x0203,
			MaxDatagram: 1415,
			Peer:        1,
			Table:       table,
		})
		StartSpaces(goldenSeq, c)
		for i := range 4 {
			c.Write(Write{
				Ref:    ref,
				Data:   make([]byte, 2000*i),
				Cookie: uint64(i),
				Dmove:  i == 1,
			})
			c.Signal([]byte{byte(i)})
		}
		c.Fence(9)
		buf := make([]byte, 1415)
		got, now := uint64(0), int64(1)
		for len(in) >= 2 {
			n := min(int(binary.LittleEndian.Uint16(in)), len(in)-2)
			_ = c.Receive(now, in[2:2+n]) // a datagram that does not parse is counted
			in = in[2+n:]
			got++
			fuzzTurn(t, c, now, buf)
			now += 1e8
		}
		checkFuzzed(t, c, got, mem)
	})
}

// fuzzTurn lets the core do what its owner would.
func fuzzTurn(t *testing.T, c *Core, now int64, buf []byte) {
	c.EndBatch()
	c.Tick(now)
	for i := 0; ; i++ {
		n := c.Next(now, buf)
		if n == 0 {
			break
		}
		if n < headerSize || n > len(buf) || i > DefaultSeqWindow {
			t.Fatalf("datagram %d in a row is %d bytes long", i, n)
		}
	}
	for _, ev := range c.Events(nil) {
		if ev.Kind == EventPlaced && uint64(ev.Offset)+uint64(ev.Length) > shmem.PageSize {
			t.Fatalf("%d bytes placed at %d", ev.Length, ev.Offset)
		}
	}
	if err := c.requester.audit(); err != nil {
		t.Fatal(err)
	}
}

func checkFuzzed(t *testing.T, c *Core, got uint64, mem []byte) {
	s := c.Stats()
	if s.DatagramsReceived != got {
		t.Fatalf("%d datagrams received, %d counted", got, s.DatagramsReceived)
	}
	if rest := s.DatagramsMalformed + s.DatagramsStale + s.DatagramsBeyondCredit + s.DatagramsDuplicate +
		s.AcksReceived; s.DatagramsMalformed > got || rest > 2*got {
		t.Fatalf("of %d datagrams too many were dropped: %+v", got, s)
	}
	// A chunk of pieces of which one is refused counts as refused, and the others are placed.
	if s.BytesPlaced > 0 && s.ChunksPlaced+s.ChunksRefused == 0 {
		t.Fatalf("bytes placed without chunks: %+v", s)
	}
	for _, page := range [][]byte{mem[:shmem.PageSize], mem[len(mem)-shmem.PageSize:]} {
		if bytes.Count(page, []byte{0xA5}) != len(page) {
			t.Fatal("a byte outside the grant has changed")
		}
	}
}

func FuzzParseHeader(f *testing.F) {
	f.Add(golden.Hex(f, "write"))
	f.Add(golden.Hex(f, "echo"))
	f.Fuzz(func(t *testing.T, in []byte) {
		h, err := parseHeader(in)
		if _, ok := FirstTarget(in); ok && (err != nil || h.kind != spaceRequests) {
			t.Fatalf("%x has a target, and is no request", in)
		}
		if err != nil {
			return
		}
		out := make([]byte, headerSize)
		putHeader(out, h)
		if !bytes.Equal(out, in[:headerSize]) {
			t.Fatalf("%x parsed as %+v, which is %x", in[:headerSize], h, out)
		}
	})
}

func FuzzParseWrite(f *testing.F) {
	f.Add(golden.Hex(f, "write")[headerSize:], uint16(1371))
	f.Add(golden.Hex(f, "dmove")[headerSize:], uint16(7))
	f.Fuzz(func(t *testing.T, in []byte, chunkSize uint16) {
		u := max(int(chunkSize), 1)
		var w writeFrame
		n, why := parseWrite(in, u, &w)
		if why != "" {
			return
		}
		if len(w.data) > u || uint64(w.transactionOffset)+uint64(w.transactionSize) > 1<<32 ||
			int(w.chunk)*u+len(w.data) > int(w.transactionSize) {
			t.Fatalf("accepted %+v with chunks of %d", w, u)
		}
		out := make([]byte, n)
		putWriteHeader(out, &w, len(w.data))
		copy(out[writeHeaderSize:], w.data)
		want := bytes.Clone(in[:n])
		want[0], want[26], want[27] = frameWrite, 0, 0 // the type was looked at before; reserved bytes are not
		out[1] = want[1]                               // flags without a meaning are ignored
		if !bytes.Equal(out, want) {
			t.Fatalf("%x parsed as %+v, which is %x", want, w, out)
		}
	})
}

func FuzzParseSpaceAck(f *testing.F) {
	f.Add(golden.Hex(f, "echo")[headerSize:])
	f.Fuzz(func(t *testing.T, in []byte) {
		next, limit, bitmap, rest, ok := parseSpaceAck(in)
		if !ok {
			return
		}
		if spaceAckHeader+len(bitmap)+len(rest) != len(in) || len(bitmap)%8 != 0 {
			t.Fatalf("%d bytes of bitmap, %d left of %d", len(bitmap), len(rest), len(in))
		}
		s, _ := spacesAt(next-8, 64, 16)
		for range 12 {
			if s.hasCredit() {
				s.newRecord()
			}
		}
		s.applyAck(next, limit, bitmap)
		if s.inFlight < 0 || s.inFlight > 12 || int32(s.oldestLive-s.nextNumber) > 0 {
			t.Fatalf("%d live in [%d,%d)", s.inFlight, s.oldestLive, s.nextNumber)
		}
	})
}
