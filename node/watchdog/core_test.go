package watchdog

import "testing"

func TestAStalledLoopIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		looks func(tick int) []uint64 // under way at each tick
		gone  func(tick int) bool
		ticks int // after which it ends; 0: never
		want  tickResult
		which int
	}{
		"nothing is looked after": {looks: func(int) []uint64 { return nil }},
		"looks come and go":       {looks: func(tick int) []uint64 { return []uint64{uint64(tick), 0} }},
		"a look is long, and not too long": {looks: func(tick int) []uint64 {
			return []uint64{1 + uint64(tick)/5, uint64(tick % 2)}
		}},
		"the second stands still": {func(tick int) []uint64 { return []uint64{uint64(tick), 7} }, nil, 7, tickStalled, 1},
		"it stands still later": {func(tick int) []uint64 { return []uint64{min(uint64(tick), 20)} },
			nil, 26, tickStalled, 0},
		"one that comes is taken in": {func(tick int) []uint64 { return []uint64{0, 0, 3}[:1+min(tick/10, 2)] },
			nil, 26, tickStalled, 2},
		"the parent is gone": {func(tick int) []uint64 { return []uint64{uint64(tick)} },
			func(tick int) bool { return tick > 10 }, 14, tickOrphan, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := core{stallTicks: 6, endGraceTicks: 3}
			for tick := 1; tick <= 100; tick++ {
				v, which := w.tick(c.looks(tick), c.gone != nil && c.gone(tick))
				if v == tickAlive {
					continue
				}
				if v != c.want || which != c.which || tick != c.ticks {
					t.Errorf("at tick %d: %v of %d, not %v of %d at %d", tick, v, which, c.want, c.which, c.ticks)
				}
				return
			}
			if c.ticks != 0 {
				t.Errorf("it never ended, and was to after %d ticks", c.ticks)
			}
		})
	}
}
