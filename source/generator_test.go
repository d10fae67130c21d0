package source

import (
	"bytes"
	"context"
	"errors"
	"hash/crc32"
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"ringlet/event"
	"ringlet/event/pattern"
	"ringlet/event/placing"
)

// divided draws the sources of up to most readout units.
func divided(t *rapid.T, most int) placing.Division {
	return placing.NewDivision(rapid.SliceOfN(rapid.IntRange(1, 4), 1, most).Draw(t, "division")...)
}

// TestGeneratorBlocks checks every promise of Block on generators of any shape, and their content with the builder's
// check.
func TestGeneratorBlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := GeneratorConfig{
			Division:     divided(t, 4),
			Packing:      rapid.IntRange(1, 40).Draw(t, "packing"),
			FragmentSize: rapid.SampledFrom([]int{0, 5, 133}).Draw(t, "size"),
			Model:        pattern.Model(rapid.IntRange(0, 2).Draw(t, "model")),
			Seed:         rapid.Uint64().Draw(t, "seed"),
			Events:       rapid.Uint64Range(1, 130).Draw(t, "events"),
			Align:        uint8(rapid.IntRange(0, 3).Draw(t, "align")),
			CRC:          rapid.Bool().Draw(t, "crc"),
		}
		c.RU = rapid.IntRange(0, c.Division.Units()-1).Draw(t, "ru")
		g, err := NewGenerator(c)
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		rule, err := c.Pattern()
		if err != nil {
			t.Fatal(err)
		}
		var b Block
		events := uint64(0)
		for k := uint64(0); ; k++ {
			dst := bytes.Repeat([]byte{0xEE}, g.MaxBlock()+8)
			err := g.Next(context.Background(), dst, &b)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			checkBlock(t, c, k, b, dst)
			for _, info := range b.MFPs {
				m, err := event.ParseMFP(dst[info.Offset:])
				if err != nil {
					t.Fatal(err)
				}
				if err := rule.CheckMFP(m); err != nil {
					t.Fatal(err)
				}
			}
			events += uint64(b.Events)
		}
		if events != c.Events {
			t.Fatalf("%d events came, want %d", events, c.Events)
		}
		if s := g.Stats(); s.Events != events || s.MFPs != s.Blocks*uint64(c.Division.SourceCount(c.RU)) {
			t.Fatalf("counters %+v", s)
		}
	})
}

func checkBlock(t *rapid.T, c GeneratorConfig, k uint64, b Block, dst []byte) {
	first := k * uint64(c.Packing)
	if b.MEP != k || b.FirstEvent != first || uint64(b.Events) != min(uint64(c.Packing), c.Events-first) ||
		len(b.MFPs) != c.Division.SourceCount(c.RU) {
		t.Fatalf("block %d: %+v", k, b)
	}
	if b.Size > len(dst)-8 || b.Size%4 != 0 {
		t.Fatalf("block %d has %d bytes", k, b.Size)
	}
	at := 0
	for s, info := range b.MFPs {
		if info.Offset != at || int(info.Source) != c.Division.FirstSource(c.RU)+s {
			t.Fatalf("MFP %d of block %d: %+v, want offset %d", s, k, info, at)
		}
		m, err := event.ParseMFP(dst[info.Offset:])
		if err != nil {
			t.Fatal(err)
		}
		if int(m.Size()) != info.Size || m.Source() != info.Source || m.FirstEvent() != first ||
			m.NumFragments() != b.Events {
			t.Fatalf("MFP %d of block %d does not agree with %+v", s, k, info)
		}
		want := uint32(0)
		if c.CRC {
			want = crc32.Checksum(m.Bytes(), crc32.MakeTable(crc32.Castagnoli))
		}
		if info.CRC != want {
			t.Fatalf("CRC %08x, want %08x", info.CRC, want)
		}
		at = roundUpToWord(at + info.Size)
		if len(bytes.Trim(dst[info.Offset+info.Size:at], "\x00")) != 0 {
			t.Fatal("bytes between MFPs are not zero")
		}
	}
	if at != b.Size || dst[at] != 0xEE {
		t.Fatalf("block %d ends at %d, its size is %d; the byte behind is %#x", k, at, b.Size, dst[at])
	}
}

func TestGeneratorRefuses(t *testing.T) {
	ok := GeneratorConfig{
		Division:     placing.EvenDivision(2, 3),
		Packing:      100,
		FragmentSize: 133,
	}
	for want, change := range map[string]func(*GeneratorConfig){
		"there is no readout unit":       func(c *GeneratorConfig) { c.Division = placing.Division{} },
		"readout unit: number 2":         func(c *GeneratorConfig) { c.RU = 2 },
		"packing: 0 events":              func(c *GeneratorConfig) { c.Packing = 0 },
		"packing: 65536 events":          func(c *GeneratorConfig) { c.Packing = 65536 },
		"streams: readout unit 1 of 2":   func(c *GeneratorConfig) { c.Division = placing.NewDivision(3, 0) },
		"more than the 65536 sources":    func(c *GeneratorConfig) { c.Division = placing.EvenDivision(2, 40000) },
		"whose largest fragments exceed": func(c *GeneratorConfig) { c.FragmentSize = 1e9 },
		"more than the 4 GiB":            func(c *GeneratorConfig) { c.Packing, c.FragmentSize, c.Align = 65535, 55000, 12 },
	} {
		c := ok
		change(&c)
		if _, err := NewGenerator(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	g, err := NewGenerator(ok)
	if err != nil {
		t.Fatal(err)
	}
	var space *bufferTooSmallError
	if err := g.Next(t.Context(), make([]byte, 10), new(Block)); !errors.As(err, &space) || space.Need != g.MaxBlock() {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dst := make([]byte, g.MaxBlock())
	if err := g.Next(ctx, dst, new(Block)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := errors.Join(g.Close(), g.Close()); err != nil {
		t.Error(err)
	}
	if err := g.Next(t.Context(), dst, new(Block)); !errors.Is(err, io.EOF) {
		t.Errorf("after Close: %v", err)
	}
}

func TestGeneratorDoesNotAllocate(t *testing.T) {
	g, err := NewGenerator(GeneratorConfig{
		Division:     placing.NewDivision(3),
		Packing:      500,
		FragmentSize: 133,
		Align:        2,
		CRC:          true,
	})
	if err != nil {
		t.Fatal(err)
	}
	dst := make([]byte, g.MaxBlock())
	var b Block
	ctx := t.Context()
	if a := testing.AllocsPerRun(20, func() {
		if err := g.Next(ctx, dst, &b); err != nil {
			t.Error(err)
		}
	}); a != 0 {
		t.Errorf("%g allocations per block", a)
	}
}

func BenchmarkGenerator(b *testing.B) {
	for name, crc := range map[string]bool{"plain": false, "crc": true} {
		b.Run(name, func(b *testing.B) {
			g, err := NewGenerator(GeneratorConfig{
				Division:     placing.NewDivision(3),
				Packing:      2000,
				FragmentSize: 133,
				Align:        2,
				CRC:          crc,
			})
			if err != nil {
				b.Fatal(err)
			}
			dst := make([]byte, g.MaxBlock())
			var blk Block
			for b.Loop() {
				if err := g.Next(b.Context(), dst, &blk); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(int64(blk.Size))
		})
	}
}
