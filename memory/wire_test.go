package memory

import (
	"bytes"
	"context"
	"encoding/hex"
	"testing"

	"ringlet/shmem"
	"ringlet/testkit/must"
	"ringlet/testkit/transcript"
	"ringlet/transport/simnet"
)

// TestMessagesGolden holds the bytes of docs/format/memory.md.
func TestMessagesGolden(t *testing.T) {
	var b bytes.Buffer
	for _, m := range []message{
		{kind: kindFind, id: 0x10001, body: []byte("words")},
		{kind: kindCompare, id: 0x20001, ref: shmem.Ref{Window: 3, Gen: 4}, off: 16, a: 5, b: 6},
		{kind: kindRead, id: 0x30001, ref: shmem.Ref{Window: 3, Gen: 4}, off: 4096, length: maxReadPiece, a: 7, b: 8},
		{kind: kindAnswer, id: 0x10001, a: 2 * PageSize, b: 17, body: appendRuns(nil, []pageRun{
			{first: 1, count: 1, allow: AllowAll, attributes: Dmove | Combining, ref: shmem.Ref{Window: 3, Gen: 4}},
		})},
		{kind: kindAnswer, id: 0x20001, status: ErrDenied},
	} {
		raw := m.append(nil)
		b.WriteString(m.kind.String() + "\n" + hex.Dump(raw))
		back, err := parse(raw)
		must.OK(t, err)
		if again := back.append(nil); !bytes.Equal(again, raw) {
			t.Errorf("%v is read as %+v", m.kind, back)
		}
	}
	transcript.Expect(t, "testdata/messages.golden", b.String())
}

// FuzzParse: nothing that comes makes the owner's core fail, and what is read is written the same again.
func FuzzParse(f *testing.F) {
	for _, m := range []message{
		{kind: kindFind, id: 1, body: []byte("words")},
		{kind: kindLoad, id: 2, length: 8, off: 4096},
		{kind: kindAdd, id: 3, ref: shmem.Ref{Window: 1, Gen: 1}, off: 1<<32 - 8, a: 1},
		{kind: kindNotify, id: 4, ref: shmem.Ref{Gen: 1}, off: 8191},
		{kind: kindNotify, id: 4, ref: shmem.Ref{Gen: 1}, off: 1 << 32},
		{kind: kindAnswer, id: 5, body: make([]byte, runBytes)},
	} {
		f.Add(m.append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parse(b)
		if err != nil {
			return
		}
		if again := m.append(nil); !bytes.Equal(again, b) {
			t.Fatalf("%x is written as %x", b, again)
		}
		if runs, err := parseRuns(m.body, 1<<20); err == nil && !bytes.Equal(appendRuns(nil, runs), cleared(m.body)) {
			t.Fatalf("%x is read as %v", m.body, runs)
		}
		s := newOwnerScript(t)
		s.export("words", "rwln")
		s.owner.request(1, &message{kind: kindFind, id: 1, body: []byte("words")})
		m.id |= 2 // behind the import
		if m.kind != kindAnswer && m.kind != kindRevoked {
			s.owner.request(1, &m)
		}
	})
}

// cleared is a table of rows without what stands in their padding.
func cleared(b []byte) []byte {
	b = bytes.Clone(b)
	for i := range b {
		if at := i % runBytes; at == 10 || at == 11 {
			b[i] = 0
		}
	}
	return b
}

// TestLoadsAndStoresAllocateNothing: what is called for each word or line of data over memory.
func TestLoadsAndStoresAllocateNothing(t *testing.T) {
	w := newWorld(t, 1, simnet.Faults{}, 1, t.TempDir())
	defer w.close()
	ctx := context.Background()
	seg := w.segment(4 * PageSize)
	defer seg.Close()
	_, err := w.spaces[0].Export("words", seg, allPages(4))
	must.OK(t, err)
	im, err := w.spaces[0].Import(ctx, "words")
	must.OK(t, err)
	data := make([]byte, 128)
	for name, f := range map[string]func() error{
		"write": func() error { return im.Write(ctx, 4096, data) },
		"read":  func() error { return im.Read(ctx, 4096, data) },
		"add":   func() error { _, err := im.Add(ctx, 0, 1); return err },
	} {
		if n := testing.AllocsPerRun(100, func() { must.OK(t, f()) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkLocal(b *testing.B) {
	w := newWorld(b, 1, simnet.Faults{}, 1, b.TempDir())
	defer w.close()
	ctx := context.Background()
	seg := w.segment(4 * PageSize)
	defer seg.Close()
	_, err := w.spaces[0].Export("words", seg, allPages(4))
	must.OK(b, err)
	im, err := w.spaces[0].Import(ctx, "words")
	must.OK(b, err)
	data := make([]byte, 128)
	b.Run("put128", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = im.Write(ctx, 4096, data)
		}
	})
	b.Run("add", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = im.Add(ctx, 0, 1)
		}
	})
}
