package source

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"ringlet/event"
	"ringlet/event/placing"
	"ringlet/event/velo"
	"ringlet/readoutunit/source/frontend"
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
			c := GeneratorConfig{RU: ru, Division: placing.SpreadDivision(100, rus), Packing: 6, Seed: 3, Events: 20, CRC: true,
				Detector: simulated(t)}
			g, err := NewGenerator(c)
			if err != nil {
				t.Fatal(err)
			}
			each(t, g, c, func(source uint16, ev uint64, board velo.Board) {
				at, got := fmt.Sprint(source, " ", ev), string(board)
				if was, is := want[at]; is && was != got {
					t.Fatalf("source %d, event %d differs with %d readout units", source, ev, rus)
				}
				want[at] = got
			})
		}
	}
	c := GeneratorConfig{Division: placing.EvenDivision(4, 25), RU: 2, Packing: 6, Seed: 3, Events: 60,
		Detector: simulated(t)}
	p, err := NewPrepared(c, 2, 4)
	if err != nil {
		t.Fatal(err)
	}
	again := 0
	each(t, p, c, func(source uint16, ev uint64, board velo.Board) {
		was := []byte(want[fmt.Sprint(source, " ", ev%24%12)])
		velo.SetEvent(was, uint16(ev))
		if ev < 48 && !bytes.Equal(was, board) {
			t.Fatalf("source %d, event %d is not that of the prepared block", source, ev)
		}
		again++
	})
	if again != 60*25 {
		t.Errorf("%d fragments", again)
	}
}

// each goes through all fragments, each of the four buffers in turn, and checks them.
func each(t *testing.T, src Source, c GeneratorConfig, see func(source uint16, ev uint64, board velo.Board)) {
	t.Helper()
	var buffers [4][]byte
	var b Block
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
	_, err := NewGenerator(GeneratorConfig{Division: placing.EvenDivision(4, 3), Packing: 10, Detector: simulated(t)})
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
	c := GeneratorConfig{Division: placing.EvenDivision(1, 100), Packing: packing, Seed: 1, Detector: d}
	run := func(b *testing.B, src BatchSource) {
		s := BufferStrip{Stride: (placing.PartSize(100, src.MaxBlock()) + 63) &^ 63}
		s.Mem = make([]byte, buffers*s.Stride)
		sizes := make([]uint32, 1)
		k := 0
		next := func() {
			one := BufferStrip{Mem: s.Mem[k%buffers*s.Stride:][:s.Stride], Stride: s.Stride}
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
		g, err := NewGenerator(c)
		if err != nil {
			b.Fatal(err)
		}
		run(b, g)
	})
	b.Run("prepared", func(b *testing.B) {
		p, err := NewPrepared(c, buffers, buffers)
		if err != nil {
			b.Fatal(err)
		}
		run(b, p)
	})
}
