package link

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestIncast: seven links that write to one port of 200 Mbit/s with a queue of 32 kB, as with no discipline at all,
// lose much, but the port stays busy and nobody starves.
func TestIncast(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: it is long, and there is one goroutine")
	}
	for _, tc := range []struct {
		name               string
		tick               int64 // ns per datagram
		queueLimit, window int   // datagrams
	}{{"1500", 60_000, 22, 700}, {"9000", 360_000, 4, 117}} {
		t.Run(tc.name, func(t *testing.T) {
			const n = 7
			b := &bottleneck{
				rng:        rand.New(rand.NewPCG(1, 1)),
				tick:       tc.tick,
				queueLimit: tc.queueLimit,
				delay:      100_000,
				now:        1e9,
				lost:       make([]int, n),
				forwarded:  make([]int, n),
			}
			var flows []*flow
			for range n {
				flows = append(flows, newFlow(t, tc.window, 0))
			}
			b.run(flows, 3e9)
			b.lost, b.forwarded = make([]int, n), make([]int, n)
			begin := b.now
			b.run(flows, b.now+4e9)
			ticks := (b.now - begin) / b.tick
			all, lost, windows := 0, 0, ""
			for i := range n {
				all, lost, windows = all+b.forwarded[i], lost+b.lost[i], windows+fmt.Sprintf(" %d",
					flows[i].core[0].recovery.congestion.window)
			}
			if least := slices.Min(b.forwarded); least*n*3 < all || int64(all)*10 < ticks*9 {
				t.Errorf("%v carried in %d ticks", b.forwarded, ticks)
			}
			t.Logf("%v carried, windows%s, %.1f %% lost, port busy %.0f %%", b.forwarded, windows,
				100*float64(lost)/float64(all+lost), 100*float64(all)/float64(ticks))
		})
	}
}
