package link

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// runRound tells a congestion window of one round: n datagrams were sent, some of them lost.
func runRound(g *congestion, sent *uint64, n, lost int) {
	*sent += uint64(n)
	g.onAck(n-lost, lost, *sent, *sent)
	*sent++ // what ends the round is sent after it
}

func TestWindowByLoss(t *testing.T) {
	for _, tc := range []struct {
		name         string
		start, most  int
		rounds, lost int // of each 100
		least, upTo  int
	}{
		{"nothing lost at the top", 700, 700, 50, 0, 700, 700},
		{"1 % keeps it", 700, 700, 50, 1, 700, 700},
		{"2 % keeps it", 700, 700, 50, 2, 700, 700},
		{"10 % shrinks it by 0.3", 700, 700, 1, 10, 490, 490},
		{"10 % twice", 700, 700, 2, 10, 343, 343},
		{"10 % for ever leaves what keeps repair at work", 700, 700, 50, 10, minWindow, minWindow},
		{"all lost but one", 700, 700, 50, 99, minWindow, minWindow},
		{"it grows back at once, but not in one leap", 350, 700, 1, 0, 351, 450},
		{"to the credit, and not beyond", 8, 700, 200, 0, 700, 700},
		{"and with 1 % lost as well", 8, 700, 200, 1, 700, 700},
		{"a small credit", 1, 1, 10, 50, 1, 1},
	} {
		g, sent := newCongestion(tc.most), uint64(0)
		g.window, g.slowStart = tc.start, false
		for range tc.rounds {
			runRound(&g, &sent, 100, tc.lost)
		}
		if g.window < tc.least || g.window > tc.upTo {
			t.Errorf("%s: a window of %d, want %d to %d", tc.name, g.window, tc.least, tc.upTo)
		}
	}
}

// TestWindowAtRandomLoss: a path that loses 2 % at random leaves a link half of its window of jumbo frames, 150 kB of
// Ethernet's.
func TestWindowAtRandomLoss(t *testing.T) {
	for most, least := range map[int]int{116: 58, 712: 100} {
		rng := rand.New(rand.NewPCG(3, 3))
		g, sent, sum := newCongestion(most), uint64(0), 0
		const rounds = 20_000
		for range rounds {
			n, lost := g.window, 0
			for range n {
				if rng.IntN(50) == 0 {
					lost++
				}
			}
			runRound(&g, &sent, n, lost)
			sum += g.window
		}
		t.Logf("a window of %d of %d, as a mean", sum/rounds, most)
		if sum/rounds < least {
			t.Errorf("a window of %d of %d, as a mean, want %d", sum/rounds, most, least)
		}
	}
}

// TestOpening: a window opens by doubling, until something is lost.
func TestOpening(t *testing.T) {
	g, sent := newCongestion(700), uint64(0)
	for _, want := range []int{32, 64, 128} {
		if runRound(&g, &sent, 100, 0); g.window != want {
			t.Fatalf("a window of %d, not %d", g.window, want)
		}
	}
	runRound(&g, &sent, 100, 10)
	if runRound(&g, &sent, 100, 0); g.window >= 128 {
		t.Errorf("after a loss it has doubled again, to %d", g.window)
	}
}

// TestOneVerdictPerRound: however many acks tell of a round, it counts once.
func TestOneVerdictPerRound(t *testing.T) {
	g, sent := newCongestion(1000), uint64(0)
	runRound(&g, &sent, 100, 0)
	g.window = 500
	for i := range 10 { // of what was sent before the round began
		g.onAck(9, 1, sent-uint64(10-i), sent+200)
	}
	if g.window != 500 {
		t.Errorf("the window changed to %d in the middle of a round", g.window)
	}
	g.onAck(9, 1, sent+1, sent+200)
	if g.window != 350 {
		t.Errorf("after a round with 10 %% lost the window is %d, want 350", g.window)
	}
	g.onAck(0, 0, sent+500, sent+600) // an ack that says nothing new
	if g.window != 350 {
		t.Errorf("an ack of nothing made it %d", g.window)
	}
}

// TestSilenceShrinksTheWindow: a link that hears nothing sends ever less, and is back at the full credit soon after
// it hears again.
func TestSilenceShrinksTheWindow(t *testing.T) {
	d := newDuo(t, Config{CongestionControl: true})
	c := d.core[0]
	silent := true
	d.drop = func(int, []byte) bool { return silent }
	for i := range 60 {
		d.write(0, 0, pattern(3*c.requester.chunkSize, byte(i)), uint64(i))
	}
	d.run(3 * second)
	if s := c.Stats(); s.Timeouts < 3 || c.recovery.congestion.window != minWindow {
		t.Errorf("after a silence and %d time-outs the window is %d", s.Timeouts, c.recovery.congestion.window)
	}
	if live, _ := c.InFlight(); live[spaceRequests] > goldenCredit {
		t.Errorf("%d datagrams in flight", live[spaceRequests])
	}
	silent = false
	if !d.run(60 * second) {
		t.Fatal("stuck after the silence")
	}
	for i := 0; i < 40 && c.recovery.congestion.window < goldenCredit; i++ {
		d.write(0, 0, pattern(90*c.requester.chunkSize, byte(i)), uint64(i))
		d.run(second)
	}
	if c.recovery.congestion.window != goldenCredit {
		t.Errorf("the window has grown back to %d of %d", c.recovery.congestion.window, goldenCredit)
	}
}

// TestSilenceRepairsSignalsAtOnce: the window bounds the repair of writes, not that of the signals and answers that
// others wait for; and it shrinks once, however much is silent.
func TestSilenceRepairsSignalsAtOnce(t *testing.T) {
	d := newDuo(t, Config{CongestionControl: true})
	c := d.core[0]
	d.drop = func(int, []byte) bool { return true }
	for i := range maxTimeoutRepairs {
		c.Signal([]byte{byte(i)})
		d.exchange() // each in a datagram of its own
	}
	d.write(0, 0, pattern(12*c.requester.chunkSize, 1), 1)
	d.exchange()
	d.now = c.recovery.deadline()
	c.Tick(d.now) // probes
	d.exchange()
	c.recovery.congestion.window = 10
	d.now = c.recovery.deadline()
	c.Tick(d.now)
	writes, signals := c.recovery.send[spaceRequests].awaitingRepair, c.recovery.send[spaceResponses].awaitingRepair
	if c.recovery.congestion.window != 7 || writes != 7 || signals != maxTimeoutRepairs {
		t.Errorf("with a window of %d, %d datagrams with writes are sent again, and %d with signals",
			c.recovery.congestion.window, writes, signals)
	}
}

// bottleneck is a switch port that several links share: it forwards one datagram per tick and drops what its queue
// has no room for.
type bottleneck struct {
	now        int64
	tick       int64 // ns per datagram
	delay      int64 // ns each way
	queueLimit int
	queue      []flight // to the receivers
	acks       []flight // acks
	lost       []int    // by flow
	forwarded  []int
	rng        *rand.Rand
}

type flight struct {
	flow int
	at   int64
	data []byte
}

// flow is one link that always has something to write.
type flow struct {
	*duo
	born          int64
	pendingWrites int
}

func newFlow(t *testing.T, window int, born int64) *flow {
	d := newDuo(t, Config{
		CongestionControl: true,
		Credit:            window,
		SeqWindow:         4096,
		AckEvery:          window / 6,
	})
	return &flow{duo: d, born: born}
}

// feed keeps requests in the queue.
func (f *flow) feed() {
	for _, ev := range f.core[0].Events(nil) {
		if ev.Kind == EventCompleted {
			f.pendingWrites--
		}
	}
	for f.pendingWrites < 8 {
		f.core[0].Write(Write{Ref: f.ref[0], Data: f.memory[0][:100*f.core[0].requester.chunkSize]})
		f.pendingWrites++
	}
}

func (b *bottleneck) run(flows []*flow, until int64) {
	buf := make([]byte, 1415)
	for ; b.now < until; b.now += b.tick {
		for _, i := range b.rng.Perm(len(flows)) { // nobody is always the first at a place that falls free
			f := flows[i]
			if b.now < f.born {
				continue
			}
			f.feed()
			f.core[0].Tick(b.now)
			f.core[1].Tick(b.now)
			for n := f.core[0].Next(b.now, buf); n > 0; n = f.core[0].Next(b.now, buf) {
				if len(b.queue) >= b.queueLimit {
					b.lost[i]++
					continue
				}
				b.queue = append(b.queue, flight{flow: i, data: append([]byte(nil), buf[:n]...), at: b.now + b.delay})
			}
			for n := f.core[1].Next(b.now, buf); n > 0; n = f.core[1].Next(b.now, buf) {
				b.acks = append(b.acks, flight{flow: i, data: append([]byte(nil), buf[:n]...), at: b.now + b.delay})
			}
		}
		if len(b.queue) > 0 && b.queue[0].at <= b.now {
			p := b.queue[0]
			b.queue = b.queue[1:]
			b.forwarded[p.flow]++
			c := flows[p.flow].core[1]
			_ = c.Receive(b.now, p.data)
			c.EndBatch()
			c.Events(nil)
		}
		for len(b.acks) > 0 && b.acks[0].at <= b.now {
			p := b.acks[0]
			b.acks = b.acks[1:]
			_ = flows[p.flow].core[0].Receive(b.now, p.data)
		}
	}
}

// TestLinksShareABottleneck: two links through one tail-drop queue get shares within a factor, lose little once they
// have found their pace, and leave the port busy.
func TestLinksShareABottleneck(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: it is long, and there is one goroutine")
	}
	const window = 700
	for _, tc := range []struct {
		queueLimit int
		late       int64 // the second link begins so much later, ns
		base       int64 // delay each way, ns
	}{
		{queueLimit: 100}, {queueLimit: 300}, {queueLimit: 1000}, {queueLimit: 64, base: 300_000}, {queueLimit: 256,
			base: 1_000_000},
		{queueLimit: 100, late: 300e6}, {queueLimit: 300, late: 300e6}, {queueLimit: 1000, late: 300e6},
		{queueLimit: 256, late: 300e6, base: 1_000_000},
	} {
		t.Run(fmt.Sprintf("queue %d, late %d ms, delay %d µs", tc.queueLimit, tc.late/1e6, tc.base/1000), func(t *testing.T) {
			// 1 Gbit/s
			b := &bottleneck{
				rng:        rand.New(rand.NewPCG(1, 1)),
				tick:       12_000,
				queueLimit: tc.queueLimit,
				delay:      20_000 + tc.base,
				now:        1e9,
				lost:       make([]int, 2),
				forwarded:  make([]int, 2),
			}
			flows := []*flow{newFlow(t, window, 0), newFlow(t, window, 1e9+tc.late)}
			b.run(flows, 1e9+tc.late+0.6e9) // to find their pace
			b.lost, b.forwarded = make([]int, 2), make([]int, 2)
			begin := b.now
			b.run(flows, b.now+0.75e9)
			ticks := (b.now - begin) / b.tick
			all, lost := b.forwarded[0]+b.forwarded[1], b.lost[0]+b.lost[1]
			t.Logf("%d and %d carried, windows %d and %d, %.1f %% lost, port busy %.0f %%", b.forwarded[0], b.forwarded[1],
				flows[0].core[0].recovery.congestion.window, flows[1].core[0].recovery.congestion.window,
				100*float64(lost)/float64(all+lost), 100*float64(all)/float64(ticks))
			// A queue as deep as the whole credit of a link lets the first one in keep it: nothing is lost that
			// would make it share.
			if most := 2 + tc.queueLimit/500; max(b.forwarded[0], b.forwarded[1]) > most*min(b.forwarded[0], b.forwarded[1]) {
				t.Errorf("shares %d and %d", b.forwarded[0], b.forwarded[1])
			}
			if 16*lost > all+lost {
				t.Errorf("%d of %d lost", lost, all+lost)
			}
			if int64(all)*10 < ticks*8 {
				t.Errorf("the port carried %d in %d ticks", all, ticks)
			}
		})
	}
}

// TestQueueOfOnesOwn: the first round trips of seven links are short, of signals. Then all send at once through one
// slow port, which throws nothing away: what is sent waits for up to 200 ms. What is sent again meanwhile is sent in
// vain. If it were so much that no datagram were heard of before it is sent again, no round trip would ever be
// measured, and the links would never learn (found by the sweep of barriers: ports of 20 Mbit/s that built a tenth
// of what they could).
func TestQueueOfOnesOwn(t *testing.T) {
	b := &bottleneck{
		rng:        rand.New(rand.NewPCG(1, 1)),
		tick:       3_600_000,
		queueLimit: 1 << 20,
		delay:      100_000,
		now:        1e9,
		lost:       make([]int, 7),
		forwarded:  make([]int, 7),
	}
	var flows []*flow
	for range b.lost {
		f := newFlow(t, 8, 0)
		f.now = b.now
		for range 4 {
			f.core[0].Signal([]byte("this is how large it is"))
			f.exchange()
		}
		flows = append(flows, f)
	}
	b.run(flows, b.now+5e9)
	sent, again := uint64(0), uint64(0)
	for _, f := range flows {
		s := f.core[0].Stats()
		sent, again = sent+s.DatagramsSent, again+s.DatagramsResent
	}
	t.Logf("%d datagrams, %d of them again", sent, again)
	if again*5 > sent { // it was five of six
		t.Errorf("%d of %d datagrams were sent again", again, sent)
	}
}

// TestBurstLostAfterSpuriousRetransmissions: a port that has just become slow lets the first datagrams of a burst
// through so late that they are sent again too soon, and throws the rest away. From then on waits are long, and what is
// heard of a probe need not be of the probe. A link that only probes again then repairs one datagram for each wait: 60
// of them took 17 s, and a barrier holds out for 5 (up to 3 of 200 runs whose port fell from 200 to 10 Mbit/s, on a
// busy machine).
func TestBurstLostAfterSpuriousRetransmissions(t *testing.T) {
	const delay, most = 15 * millisecond, 3 * int64(1e9)
	d := newDuo(t, Config{CongestionControl: true, Credit: 100, SeqWindow: 4096, AckEvery: 16})
	d.core[0].recovery.loss.spuriousBackoff, d.core[0].recovery.congestion.window = maxSpurious, 100
	d.core[0].Write(Write{Ref: d.ref[0], Data: d.memory[0][:60*d.core[0].requester.chunkSize]})
	buf := make([]byte, 1415)
	for d.core[0].Next(d.now, buf) > 0 { // all of them lost
	}
	type packet struct {
		at   int64
		data []byte
	}
	var inFlight [2][]packet
	for began := d.now; ; d.now += millisecond {
		if d.now-began > most {
			t.Fatalf("not repaired after %d s; %+v", most/1e9, d.core[0].Stats())
		}
		for i := range d.core {
			for len(inFlight[i]) > 0 && inFlight[i][0].at <= d.now {
				if err := d.core[i].Receive(d.now, inFlight[i][0].data); err != nil {
					t.Fatal(err)
				}
				d.core[i].EndBatch()
				inFlight[i] = inFlight[i][1:]
			}
			d.core[i].Tick(d.now)
			for n := d.core[i].Next(d.now, buf); n > 0; n = d.core[i].Next(d.now, buf) {
				inFlight[1-i] = append(inFlight[1-i], packet{d.now + delay, append([]byte(nil), buf[:n]...)})
			}
		}
		for _, ev := range d.core[0].Events(nil) {
			if ev.Kind == EventCompleted {
				t.Logf("repaired after %d ms; %d datagrams sent again", (d.now-began)/millisecond,
					d.core[0].Stats().DatagramsResent)
				return
			}
		}
	}
}
