package source

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"ringlet/event"
	"ringlet/event/pattern"
	"ringlet/event/placing"
)

// anyGenerator draws the shape of a small generator.
func anyGenerator(t *rapid.T) GeneratorConfig {
	c := GeneratorConfig{
		Division:     divided(t, 3),
		Packing:      rapid.IntRange(1, 5).Draw(t, "packing"),
		FragmentSize: rapid.SampledFrom([]int{0, 5, 128}).Draw(t, "size"),
		Model:        pattern.Model(rapid.IntRange(0, 2).Draw(t, "model")),
		Events:       rapid.Uint64Range(1, 60).Draw(t, "events"),
		CRC:          rapid.Bool().Draw(t, "crc"),
	}
	c.RU = rapid.IntRange(0, c.Division.Units()-1).Draw(t, "ru")
	return c
}

// TestManyIsTheSameAsOneByOne holds that the parts of NextBlocks hold the blocks of Next, with their sizes and CRCs.
func TestManyIsTheSameAsOneByOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := anyGenerator(t)
		many, err := NewGenerator(c)
		if err != nil {
			t.Fatal(err)
		}
		single, _ := NewGenerator(c)
		var m BatchSource = many
		if rapid.Bool().Draw(t, "adapted") {
			m = AsBatchSource(struct{ Source }{many}, c.Division.SourceCount(c.RU))
		}
		stride := placing.PartSize(c.Division.SourceCount(c.RU), many.MaxBlock())
		var b Block
		block := make([]byte, single.MaxBlock())
		for mep, end := uint64(0), false; !end; {
			n := rapid.IntRange(1, 9).Draw(t, "n")
			mem, sizes := bytes.Repeat([]byte{0xEE}, n*stride), make([]uint32, n)
			run, err := m.NextBlocks(context.Background(), BufferStrip{mem, stride}, sizes)
			if end = errors.Is(err, io.EOF); err != nil && !end {
				t.Fatal(err)
			}
			if run.Blocks > 0 && run.MEP != mep {
				t.Fatalf("%+v at MEP %d", run, mep)
			}
			events := uint64(0)
			for i := range run.Blocks {
				if err := single.Next(context.Background(), block, &b); err != nil {
					t.Fatal(err)
				}
				part := mem[i*stride:][:sizes[i]]
				for s, info := range b.MFPs {
					if e := placing.ReadEntry(part, s); int(e.Size) != info.Size || e.CRC != info.CRC {
						t.Fatalf("MEP %d, stream %d: %+v, not %+v", mep, s, e, info)
					}
				}
				if !bytes.Equal(part[c.Division.SourceCount(c.RU)*placing.EntrySize:], block[:b.Size]) {
					t.Fatalf("MEP %d differs", mep)
				}
				events += uint64(b.Events)
				mep++
			}
			if run.Events != events {
				t.Fatalf("%d events, not %d", run.Events, events)
			}
		}
		if err := single.Next(context.Background(), block, &b); !errors.Is(err, io.EOF) {
			t.Fatalf("one by one there is more: %v", err)
		}
		if d := cmp.Diff(single.Stats(), many.Stats()); d != "" {
			t.Fatal(d)
		}
	})
}

// TestPrepared holds what prepared blocks are: valid, with their own event ids and CRCs, the content coming again, the
// memory not written but for the ids.
func TestPrepared(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := anyGenerator(t)
		blocks, buffers := rapid.IntRange(1, 6).Draw(t, "blocks"), rapid.IntRange(1, 3).Draw(t, "rounds")
		buffers *= blocks
		p, err := NewPrepared(c, blocks, buffers)
		if err != nil {
			t.Fatal(err)
		}
		stride := placing.PartSize(c.Division.SourceCount(c.RU), p.MaxBlock())
		mem := make([]byte, buffers*stride)
		contents := map[string]string{}
		single := rapid.Bool().Draw(t, "one by one")
		var b Block
		for mep := uint64(0); ; mep++ {
			buffer := mem[int(mep)%buffers*stride:][:stride]
			sizes := make([]uint32, 1)
			lead := c.Division.SourceCount(c.RU) * placing.EntrySize
			if single {
				if err = p.Next(context.Background(), buffer[lead:], &b); err == nil {
					for i := range b.MFPs {
						placing.PutEntry(buffer, i, placing.Entry{Size: uint32(b.MFPs[i].Size), CRC: b.MFPs[i].CRC})
					}
				}
			} else {
				_, err = p.NextBlocks(context.Background(), BufferStrip{buffer, stride}, sizes)
			}
			if errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			at := lead
			for s := range c.Division.SourceCount(c.RU) {
				e := placing.ReadEntry(buffer, s)
				data := buffer[at:][:e.Size]
				m, err := event.ParseMFP(data)
				if err != nil || m.FirstEvent() != mep*uint64(c.Packing) || int(m.Source()) != c.Division.FirstSource(c.RU)+s {
					t.Fatalf("MEP %d: %v, first event %d", mep, err, m.FirstEvent())
				}
				if want := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)); c.CRC && e.CRC != want || !c.CRC && e.CRC != 0 {
					t.Fatalf("MEP %d: CRC %08x", mep, e.CRC)
				}
				if m.NumFragments() == c.Packing {
					key := fmt.Sprint(s, int(mep)%blocks)
					was := bytes.Clone(data)
					binary.LittleEndian.PutUint64(was[8:], 0)
					if before, known := contents[key]; known && before != string(was) {
						t.Fatalf("MEP %d: block %s has changed", mep, key)
					}
					contents[key] = string(was)
				}
				at = roundUpToWord(at + int(e.Size))
			}
			if !single && int(sizes[0]) != at {
				t.Fatalf("MEP %d: %d bytes, not %d", mep, sizes[0], at)
			}
		}
		if s := p.Stats(); s.Events != c.Events || s.MFPs != s.Blocks*uint64(c.Division.SourceCount(c.RU)) {
			t.Fatalf("%+v", s)
		}
	})
}

func TestManyRefusesSmallBuffers(t *testing.T) {
	c := GeneratorConfig{
		Division:     placing.EvenDivision(1, 1),
		Packing:      1,
		FragmentSize: 128,
		Model:        pattern.Constant,
	}
	g, err := NewGenerator(c)
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPrepared(c, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewPrepared(c, 0, 1); err == nil {
		t.Error("no blocks are prepared")
	}
	if _, err := NewPrepared(c, 4, 6); err == nil || !strings.Contains(err.Error(), "give a multiple of 4 buffers") {
		t.Error(err)
	}
	stride := placing.PartSize(1, g.MaxBlock())
	for name, m := range map[string]BatchSource{"generator": g, "prepared": p} {
		for _, s := range []BufferStrip{{make([]byte, 1000), stride - 1}, {make([]byte, 2*stride-1), stride}, {}} {
			var space *bufferTooSmallError
			if _, err := m.NextBlocks(context.Background(), s, make([]uint32, 2)); !errors.As(err, &space) {
				t.Errorf("%s: %v", name, err)
			}
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := m.NextBlocks(ctx, BufferStrip{make([]byte, stride), stride}, make([]uint32, 1)); !errors.Is(err,
			context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func BenchmarkMany(b *testing.B) {
	for _, crc := range []bool{false, true} {
		c := GeneratorConfig{
			Division:     placing.EvenDivision(2, 1),
			Packing:      1,
			FragmentSize: 128,
			Model:        pattern.Constant,
			CRC:          crc,
		}
		const buffers = 1024
		g, err := NewGenerator(c)
		if err != nil {
			b.Fatal(err)
		}
		p, err := NewPrepared(c, buffers, buffers)
		if err != nil {
			b.Fatal(err)
		}
		stride := placing.PartSize(1, g.MaxBlock())
		mem, sizes := make([]byte, buffers*stride), make([]uint32, buffers)
		for name, m := range map[string]BatchSource{"generated": g, "prepared": p} {
			b.Run(fmt.Sprintf("%s, crc %v", name, crc), func(b *testing.B) {
				b.ReportAllocs()
				for n := 0; n < b.N; n += buffers {
					if _, err := m.NextBlocks(context.Background(), BufferStrip{mem, stride},
						sizes[:min(buffers, b.N-n)]); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func TestManyAllocatesNothing(t *testing.T) {
	c := GeneratorConfig{
		Division:     placing.EvenDivision(1, 2),
		Packing:      3,
		FragmentSize: 128,
		CRC:          true,
	}
	g, _ := NewGenerator(c)
	p, _ := NewPrepared(c, 4, 8)
	stride := placing.PartSize(2, g.MaxBlock())
	mem, sizes := make([]byte, 8*stride), make([]uint32, 8)
	for name, m := range map[string]BatchSource{"generator": g, "prepared": p} {
		if n := testing.AllocsPerRun(100, func() {
			if _, err := m.NextBlocks(context.Background(), BufferStrip{mem, stride}, sizes); err != nil {
				t.Fatal(err)
			}
		}); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
