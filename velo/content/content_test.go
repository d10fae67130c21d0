package content_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"ringlet/event"
	"ringlet/event/placing"
	"ringlet/source"
	"ringlet/velo"
	"ringlet/velo/content"
	"ringlet/velo/frontend"
)

func simulated(t testing.TB) *frontend.Detector {
	t.Helper()
	c := frontend.Default()
	c.Collisions.Particles = 20 // less work
	d, err := frontend.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestDetectorBlocks: however many readout units share the boards, each board's fragments are the same; with --prepared
// a block comes again under event ids of its own, which its fragments name.
func TestDetectorBlocks(t *testing.T) {
	want := map[string]string{}
	for _, rus := range []int{1, 4, 7} {
		for ru := range rus {
			c := source.GeneratorConfig{RU: ru, Division: placing.SpreadDivision(100, rus), Packing: 6, Seed: 3, Events: 20,
				CRC:     true,
				Content: content.KindOf(simulated(t), false, 0)}
			g, err := source.NewGenerator(c)
			if err != nil {
				t.Fatal(err)
			}
			each(t, g, c, func(id uint16, ev uint64, board velo.Board) {
				at, got := fmt.Sprint(id, " ", ev), string(board)
				if was, is := want[at]; is && was != got {
					t.Fatalf("source %d, event %d differs with %d readout units", id, ev, rus)
				}
				want[at] = got
			})
		}
	}
	c := source.GeneratorConfig{Division: placing.EvenDivision(4, 25), RU: 2, Packing: 6, Seed: 3, Events: 60,
		Content: content.KindOf(simulated(t), false, 0)}
	p, err := source.NewPrepared(c, 2, 4)
	if err != nil {
		t.Fatal(err)
	}
	again := 0
	each(t, p, c, func(id uint16, ev uint64, board velo.Board) {
		was := []byte(want[fmt.Sprint(id, " ", ev%24%12)])
		velo.SetEvent(was, uint16(ev))
		if ev < 48 && !bytes.Equal(was, board) {
			t.Fatalf("source %d, event %d is not that of the prepared block", id, ev)
		}
		again++
	})
	if again != 60*25 {
		t.Errorf("%d fragments", again)
	}
}

// each goes through all fragments, each of the four buffers in turn, and checks them.
func each(t *testing.T, src source.Source, c source.GeneratorConfig, see func(id uint16, ev uint64, board velo.Board)) {
	t.Helper()
	var buffers [4][]byte
	var b source.Block
	for k := 0; ; k++ {
		if buffers[k%4] == nil {
			buffers[k%4] = make([]byte, src.MaxBlock())
		}
		dst := buffers[k%4]
		err := src.Next(t.Context(), dst, &b)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, info := range b.MFPs {
			m, err := event.ParseMFP(dst[info.Offset:])
			if err != nil || m.Source() != info.Source {
				t.Fatal(err)
			}
			for f := m.Cursor(); f.Next(); {
				board, err := velo.ParseBoard(f.Data())
				if err != nil || board.Event() != uint16(f.Event()) || board.Number() != int(info.Source) {
					t.Fatalf("source %d, event %d: %v", info.Source, f.Event(), err)
				}
				see(info.Source, f.Event(), board)
			}
		}
	}
}

func TestDetectorNeedsASourceForEachBoard(t *testing.T) {
	_, err := source.NewGenerator(source.GeneratorConfig{Division: placing.EvenDivision(4, 3), Packing: 10,
		Content: content.KindOf(simulated(t), false, 0)})
	if err == nil || !strings.Contains(err.Error(), "fewer than the detector's 100 boards") {
		t.Error(err)
	}
}

// BenchmarkDetector is the rate of one readout unit that has all boards: events made anew, and prepared ones.
func BenchmarkDetector(b *testing.B) {
	d, err := frontend.New(frontend.Default())
	if err != nil {
		b.Fatal(err)
	}
	const packing, buffers = 100, 4
	c := source.GeneratorConfig{Division: placing.EvenDivision(1, 100), Packing: packing, Seed: 1,
		Content: content.KindOf(d, false, 0)}
	run := func(b *testing.B, src source.BatchSource) {
		s := source.BufferStrip{Stride: (placing.PartSize(100, src.MaxBlock()) + 63) &^ 63}
		s.Mem = make([]byte, buffers*s.Stride)
		sizes := make([]uint32, 1)
		k := 0
		next := func() {
			one := source.BufferStrip{Mem: s.Mem[k%buffers*s.Stride:][:s.Stride], Stride: s.Stride}
			if _, err := src.NextBlocks(b.Context(), one, sizes); err != nil {
				b.Fatal(err)
			}
			k++
		}
		for range buffers {
			next()
		}
		b.ReportAllocs()
		for b.Loop() {
			next()
		}
		b.ReportMetric(float64(b.N)*packing/b.Elapsed().Seconds(), "events/s")
	}
	b.Run("anew", func(b *testing.B) {
		g, err := source.NewGenerator(c)
		if err != nil {
			b.Fatal(err)
		}
		run(b, g)
	})
	b.Run("prepared", func(b *testing.B) {
		p, err := source.NewPrepared(c, buffers, buffers)
		if err != nil {
			b.Fatal(err)
		}
		run(b, p)
	})
}
