package link_test

import (
	"testing"
	"time"

	"ringlet/shmem"
	"ringlet/transport/link"
	"ringlet/transport/simnet"
)

// paced is one end that writes, some writes at a time, and signals after each that is placed, as a readout unit does
// in a shift of one; its peer answers each signal.
type paced struct {
	pair            *simnet.Pair
	core            [2]*link.Core
	ref             shmem.Ref
	data            []byte
	requested       int
	done            int
	answersReceived int // answers
	wanted          int
	bad             bool
	spare           []link.Event
}

func newPaced(t *testing.T, loss float64, size int, delay time.Duration, seed uint64) *paced {
	t.Helper()
	r := &paced{data: noise[:size]}
	cfg := quicConfig(8942, 116)
	var ref [2]shmem.Ref
	r.core, ref = newCores(t, outageMemory, 0, cfg)
	r.ref = ref[0]
	r.pair = simnet.NewPair(r.core[0], r.core[1], cfg.MaxDatagram, simnet.Faults{Delay: delay, Loss: loss}, seed)
	r.pair.SetSendModes(simnet.Inline, simnet.Inline)
	r.pair.OnChange = r.read
	return r
}

// request has the writer write once more.
func (r *paced) request() {
	if r.requested == r.wanted {
		return
	}
	r.requested++
	r.core[0].WriteMany([]link.Piece{{Ref: r.ref, Data: r.data}}, 0)
	r.pair.Wake(0)
}

func (r *paced) read(e int) {
	events := r.core[e].Events(r.spare)
	r.spare = events
	for i := range events {
		switch ev := &events[i]; ev.Kind {
		case link.EventCompleted:
			r.done++
			r.core[0].Signal([]byte("done"))
			r.pair.Wake(0)
		case link.EventSignal:
			if e == 1 {
				r.core[1].Signal([]byte("go on"))
				r.pair.Wake(1)
				break
			}
			r.answersReceived++
			r.request()
		case link.EventRefused:
			r.bad = true
		}
	}
}

// pace is how long a number of writes take, so many at a time, each with what it says afterwards.
func pace(t *testing.T, loss float64, size, atOnce, writes int, seed uint64) time.Duration {
	t.Helper()
	r := newPaced(t, loss, size, 50*time.Microsecond, seed)
	r.wanted = writes
	begun := r.pair.Now()
	for range atOnce {
		r.request()
	}
	if !r.pair.Run(time.Minute, func() bool { return r.answersReceived == writes || r.bad }) || r.bad {
		t.Fatalf("%d of %d writes are over after a minute, loss %v, size %d, seed %d", r.answersReceived, writes, loss, size,
			seed)
	}
	return time.Duration(r.pair.Now() - begun)
}

// maxPace is what a link waits at its first loss, since it has measured no long round trip yet: it assumes one.
const maxPace = 60 * time.Millisecond

// TestPaceAtLoss: but for what it waits once, 2 % of loss cost a link no more than half of its rate, at any size of
// a write, one after the other or many at once. What 5 % cost is told: more than the window takes
// for anything but a queue that overflows.
func TestPaceAtLoss(t *testing.T) {
	const writes = 2000
	sizes := []int{850, 8500, 25_000, 85_000, 250_000}
	for _, size := range sizes[:link.Fewer(len(sizes))] {
		for _, atOnce := range []int{1, 4, 16} {
			clean := pace(t, 0, size, atOnce, writes, 1)
			lossy, worse := pace(t, 0.02, size, atOnce, writes, 1), pace(t, 0.05, size, atOnce, writes, 1)
			lossy, worse = max(clean, lossy-maxPace), max(clean, worse-maxPace)
			share, less := float64(clean)/float64(lossy), float64(clean)/float64(worse)
			t.Logf("%6d bytes, %2d at once: a write in %3d µs; %.2f of the rate at 2 %%, %.2f at 5 %%",
				size, atOnce, clean.Microseconds()/writes, share, less)
			if share < 0.5 {
				t.Errorf("%d bytes, %d at once: at 2 %% of loss %.2f of the rate is left", size, atOnce, share)
			}
		}
	}
}

// TestLossIsLearnedAtOnce: a link of small MEPs has few datagrams, so that it has to learn from its first loss how
// long repair may wait. A hundred writes take twice as long as without loss at most, but for what it waits once.
func TestLossIsLearnedAtOnce(t *testing.T) {
	const writes, seeds = 100, 20
	clean, lossy := pace(t, 0, 850, 1, writes, 0), time.Duration(0)
	for seed := range uint64(seeds) {
		lossy += pace(t, 0.02, 850, 1, writes, seed) / seeds
	}
	t.Logf("%d writes take %v, and %v at a loss of 0.02", writes, clean, lossy)
	if lossy > 2*clean+maxPace {
		t.Errorf("%d writes take %v at a loss of 0.02, want at most %v", writes, lossy, 2*clean+maxPace)
	}
}
