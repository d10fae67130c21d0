package model

import (
	"context"
	"fmt"

	"ringlet/sim"
	"ringlet/sim/component"
	"ringlet/sim/study"
)

// twoCards connects two cards of NIC-crossbar directly, by as many links side by side as they have.
var twoCards = study.Model{
	Name: "cards-direct",
	Help: "Two cards of NIC-crossbar without a switch: writes one way, and ping-pong, against their size.",
	Run: func(ctx context.Context, p *study.Params, env study.Env) (study.Outcome, error) {
		c := readCards(p)
		sizes, length := p.Sizes("requests", wordBytes, 4096), p.Time("length")
		if length <= 0 {
			p.Wrong("length", "a run takes time")
		}
		if err := p.Err(); err != nil {
			return study.Outcome{}, err
		}
		out := study.Outcome{}
		oneWay, back := study.Curve{Name: "one way"}, study.Curve{Name: "ping-pong"}
		for _, size := range sizes {
			words := (size + wordBytes - 1) / wordBytes
			for _, d := range []struct {
				name  string
				turns bool
				curve *study.Curve
			}{{"one-way", false, &oneWay}, {"ping-pong", true, &back}} {
				w := c.connect(env.Sim(), words, d.turns)
				w.instrument(fmt.Sprintf(", %s, requests of %d B", d.name, size))
				w.s.Run(ctx, env.Limits(length))
				out.Events += w.s.Executed()
				rate := w.rate()
				out.Add(fmt.Sprintf("%s-%d", d.name, size), study.Q(rate, study.Bandwidth))
				out.Add(fmt.Sprintf("%s-fullest-%d", d.name, size), study.Q(float64(w.fullest()*wordBytes), study.Bytes))
				d.curve.Points = append(d.curve.Points, [2]float64{float64(size), rate / (1 << 20)})
			}
		}
		out.Add("links", study.Q(wordBytes/c.word.Seconds(), study.Bandwidth))
		out.Add("bus", study.Q(wordBytes/c.clock.Seconds(), study.Bandwidth))
		out.Plots = []study.Plot{{
			Name:   "throughput",
			X:      "request (B)",
			Y:      "MiB/s",
			LogX:   true,
			Curves: []study.Curve{oneWay, back},
		}}
		return out, nil
	},
}

// wordBytes are those of a word: of the bus, of the FIFOs, and of two links side by side.
const wordBytes = 8

// cards is what a card and its links are made of.
type cards struct {
	clock   sim.Time // of the bus: a word
	word    sim.Time // of both links
	around  sim.Time // of a packet on the links besides its data: start, header, checks
	credit  sim.Time // of a credit on the links
	flight  sim.Time // through the transceivers, one way
	toBus   sim.Time // from the card's network side to its bus
	begin   int      // the card writes when one of so many parts of a packet is there
	fifo    int      // words, of each direction
	unit    int      // words that one credit gives back
	polling sim.Time // from the data in memory to the next request of a ping-pong
}

func readCards(p *study.Params) cards {
	cycle := p.Time("cycle")
	c := cards{
		clock:   p.Time("pci-x-clock"),
		word:    cycle,
		flight:  cycle * sim.Time(p.Int("transceivers", 0, 1000)) / 2,
		toBus:   cycle * sim.Time(p.Int("to-the-bus", 0, 1000)),
		begin:   p.Int("delivery-begins-after-one-of", 1, 100),
		fifo:    p.Int("fifo-words", 1, 1<<16),
		unit:    p.Int("credit-granularity", 1, 1024),
		polling: p.Time("polling"),
	}
	links := p.Int("links", 1, 2)
	c.word = cycle * 2 / sim.Time(links)
	c.credit = c.word * sim.Time((p.Size("credit-size", 2, 64)+wordBytes-1)/wordBytes)
	start := links * p.Size("start-of-packet", 0, 64)
	c.around = c.word * sim.Time(start+p.Size("header", 0, 64)) / wordBytes
	if c.clock <= 0 || cycle <= 0 {
		p.Wrong("pci-x-clock", "a clock of the bus and a cycle of the link take time")
	}
	if c.fifo < 4096/wordBytes+c.unit {
		p.Wrong("fifo-words", "a FIFO of %d words cannot hold a request of 4096 B and what a credit leaves out", c.fifo)
	}
	return c
}

// wire is two cards, each the other's peer.
type wire struct {
	cards
	s     *sim.Sim
	ends  [2]*card
	words int  // of a request
	turns bool // ping-pong: a host answers each request that it gets with its own

	first, last sim.Time // when the first and the last request were in memory
	placed      uint64   // requests in memory
	gaps        sim.Histogram
}

// card is a card, its bus and its host.
type card struct {
	w    *wire
	peer *card
	bus  *component.Bus

	// outgoing
	requested       int // requests that the host has made, and the engine has not begun
	reading         int // words of the request under way that are not in the FIFO
	outWords        int // words in the FIFO
	ready           int // packets that are whole in the FIFO
	wordsLeftToSend int // words of the packet on the link that have not left
	busy            bool
	credit          int // words of the other card's FIFO, as far as this one knows

	// incoming
	packets             []incoming
	inWords, maxInWords int // words in the FIFO
	owed                int // words that went to the host, for which no credit is under way
	credits             int // that wait for the link
}

// incoming is a packet that comes in, or waits for the bus.
type incoming struct {
	there, written int
	open           bool // the card has told its bus side
}

// instrument shows how far apart requests are in memory, and how full the receivers' FIFOs are.
func (w *wire) instrument(nameSuffix string) {
	if w.s.Observed() {
		w.s.Show("from one request in memory to the next"+nameSuffix, &w.gaps)
		w.s.Watch("words in the receivers' FIFOs"+nameSuffix, sim.Microsecond, func() int64 {
			return int64(w.ends[0].inWords + w.ends[1].inWords)
		})
		for i, n := range w.ends {
			n.bus.Trace(fmt.Sprintf("bus of card %d", i), func(c component.Client) string {
				if _, ok := c.(*fetching); ok {
					return "fetched"
				}
				return "delivered"
			})
		}
	}
}

func (c cards) connect(s *sim.Sim, words int, turns bool) *wire {
	w := &wire{
		cards: c,
		s:     s,
		words: words,
		turns: turns,
	}
	for i := range w.ends {
		n := &card{w: w, bus: component.NewBus(w.s, 0), credit: c.fifo}
		n.bus.Attach((*fetching)(n))
		n.bus.Attach((*delivering)(n))
		w.ends[i] = n
	}
	w.ends[0].peer, w.ends[1].peer = w.ends[1], w.ends[0]
	w.ends[0].makeRequest()
	return w
}

// rate is of data, in bytes per second: from the first request in memory to the last one.
func (w *wire) rate() float64 {
	if w.placed < 2 {
		return 0
	}
	return sim.PerSecond((w.placed-1)*uint64(w.words*wordBytes), w.last-w.first)
}

// fullest is the most words that the FIFO of a receiver held.
func (w *wire) fullest() int { return max(w.ends[0].maxInWords, w.ends[1].maxInWords) }

// makeRequest has the host make a request. One way, it always has one more.
func (n *card) makeRequest() {
	n.requested++
	n.bus.Kick()
}

// fetching is the engine as a client of the bus: it reads from the host's memory.
type fetching card

// Offer is the next word, if the FIFO has room for it.
func (e *fetching) Offer() (sim.Time, bool) {
	return e.w.clock, (e.reading > 0 || e.requested > 0) && e.outWords < e.w.fifo
}

// Begin takes the request, and the room.
func (e *fetching) Begin() {
	if e.reading == 0 {
		e.reading = e.w.words
		if e.w.turns {
			e.requested--
		}
	}
	e.outWords++
}

// End: the word is in the FIFO. A packet goes when it is whole (NIC-crossbar §3.1.6.1).
func (e *fetching) End() {
	if e.reading--; e.reading == 0 {
		e.ready++
		(*card)(e).send()
	}
}

// send gives the link what comes next: credits first, then a packet that the other card has room for.
func (n *card) send() {
	w := n.w
	switch {
	case n.busy:
	case n.credits > 0:
		n.busy = true
		n.credits--
		w.s.ScheduleAfter(w.credit, (*creditSent)(n), 0, 0)
	case n.ready > 0 && n.credit >= w.words:
		n.busy = true
		n.ready--
		n.credit -= w.words
		n.wordsLeftToSend = w.words
		w.s.ScheduleAfter(w.around+w.word, (*wordSent)(n), 0, 0)
	}
}

type wordSent card

// Handle: a word has left the FIFO.
func (e *wordSent) Handle(int64, int64) {
	n, w := (*card)(e), e.w
	n.outWords--
	w.s.ScheduleAfter(w.flight, (*wordArrived)(n.peer), 0, 0)
	if n.wordsLeftToSend--; n.wordsLeftToSend > 0 {
		w.s.ScheduleAfter(w.word, e, 0, 0)
	} else {
		n.busy = false
		n.send()
	}
	n.bus.Kick()
}

type wordArrived card

// Handle: a word is in the FIFO of the receiver, which tells its bus side when enough of the packet is there.
func (e *wordArrived) Handle(int64, int64) {
	n, w := (*card)(e), e.w
	if i := len(n.packets); i == 0 || n.packets[i-1].there == w.words {
		n.packets = append(n.packets, incoming{})
	}
	p := &n.packets[len(n.packets)-1]
	p.there++
	n.inWords++
	n.maxInWords = max(n.maxInWords, n.inWords)
	if enough := (w.words + w.begin - 1) / w.begin; p.there == enough {
		w.s.ScheduleAfter(w.toBus, (*packetAnnounced)(n), 0, 0)
	}
	n.bus.Kick()
}

type packetAnnounced card

// Handle: the bus side knows of one more packet.
func (e *packetAnnounced) Handle(int64, int64) {
	for i := range e.packets {
		if !e.packets[i].open {
			e.packets[i].open = true
			break
		}
	}
	e.bus.Kick()
}

// delivering is the engine as a client of the bus: it writes to the host's memory.
type delivering card

// Offer is the next word of the first packet, if it has come.
func (e *delivering) Offer() (sim.Time, bool) {
	return e.w.clock, len(e.packets) > 0 && e.packets[0].open && e.packets[0].there > e.packets[0].written
}

// Begin has nothing to take: the word leaves the FIFO at its end.
func (e *delivering) Begin() {}

// End: the word is in memory; credits say so, each for a number of words.
func (e *delivering) End() {
	n, w := (*card)(e), e.w
	p := &n.packets[0]
	p.written++
	n.inWords--
	n.owed++
	n.credits += n.owed / w.unit
	n.owed %= w.unit
	n.send()
	if p.written < w.words {
		return
	}
	n.packets = n.packets[:copy(n.packets, n.packets[1:])]
	if w.placed++; w.placed == 1 {
		w.first = w.s.Now()
	} else {
		w.gaps.Add(int64(w.s.Now() - w.last))
	}
	w.last = w.s.Now()
	if w.turns {
		w.s.ScheduleAfter(w.polling, (*answerDue)(n), 0, 0)
	}
}

type answerDue card

// Handle: the host has seen the data, and sends as much back.
func (e *answerDue) Handle(int64, int64) { (*card)(e).makeRequest() }

type creditSent card

// Handle: a credit is on its way.
func (e *creditSent) Handle(int64, int64) {
	n := (*card)(e)
	n.busy = false
	n.w.s.ScheduleAfter(n.w.flight, (*creditArrived)(n.peer), 0, 0)
	n.send()
}

type creditArrived card

// Handle: the other card has room again.
func (e *creditArrived) Handle(int64, int64) {
	e.credit += e.w.unit
	(*card)(e).send()
}
