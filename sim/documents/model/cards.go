package model

import (
	"context"
	"fmt"

	"ringlet/sim"
	"ringlet/sim/component"
	"ringlet/sim/study"
)

// twoCards connects two cards of NIC-crossbar directly, by their links side by side.
var twoCards = study.Model{
	Name: "cards-direct",
	Help: "Two cards of NIC-crossbar without a switch: writes one way, and ping-pong, against their size.",
	Run: func(ctx context.Context, p *study.Params, env study.Env) (study.Outcome, error) {
		c := readCards(p)
		sizes, length := p.Sizes("requests", wordBytes, 4096), p.Time("length")
		if length <= 0 {
			p.AddError("length", "must be above 0")
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
				out.Add(fmt.Sprintf("%s-fullest-%d", d.name, size), study.Q(float64(w.maxFIFOWords()*wordBytes), study.Bytes))
				d.curve.Points = append(d.curve.Points, [2]float64{float64(size), rate / (1 << 20)})
			}
		}
		out.Add("links", study.Q(wordBytes/c.wordTime.Seconds(), study.Bandwidth))
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

// wordBytes is the size of a word: of the bus, of the FIFOs, and of two links side by side.
const wordBytes = 8

// cards has the parameters of a card and its links.
type cards struct {
	clock              sim.Time // of the bus: a word
	wordTime           sim.Time // of both links: a word
	packetOverheadTime sim.Time // of a packet on the links besides its data: start, header, checks
	creditTime         sim.Time // of a credit on the links
	flightTime         sim.Time // through the transceivers, one way
	toBusDelay         sim.Time // from the card's network side to its bus
	startDivisor       int      // the card announces a packet when 1/startDivisor of it has come
	fifo               int      // words, of each direction
	wordsPerCredit     int      // words that one credit gives back
	pollingDelay       sim.Time // from data in memory to the next request of a ping-pong
}

func readCards(p *study.Params) cards {
	cycle := p.Time("cycle")
	c := cards{
		clock:          p.Time("pci-x-clock"),
		wordTime:       cycle,
		flightTime:     cycle * sim.Time(p.Int("transceivers", 0, 1000)) / 2,
		toBusDelay:     cycle * sim.Time(p.Int("to-the-bus", 0, 1000)),
		startDivisor:   p.Int("delivery-begins-after-one-of", 1, 100),
		fifo:           p.Int("fifo-words", 1, 1<<16),
		wordsPerCredit: p.Int("credit-granularity", 1, 1024),
		pollingDelay:   p.Time("polling"),
	}
	links := p.Int("links", 1, 2)
	c.wordTime = cycle * 2 / sim.Time(links)
	c.creditTime = c.wordTime * sim.Time((p.Size("credit-size", 2, 64)+wordBytes-1)/wordBytes)
	start := links * p.Size("start-of-packet", 0, 64)
	c.packetOverheadTime = c.wordTime * sim.Time(start+p.Size("header", 0, 64)) / wordBytes
	if c.clock <= 0 || cycle <= 0 {
		p.AddError("pci-x-clock", "pci-x-clock and cycle must be above 0")
	}
	if c.fifo < 4096/wordBytes+c.wordsPerCredit {
		p.AddError("fifo-words", "a FIFO of %d words cannot hold a request of 4096 B and the words not yet credited", c.fifo)
	}
	return c
}

// cardPair is two cards connected to each other.
type cardPair struct {
	cards
	s            *sim.Sim
	ends         [2]*card
	requestWords int  // of a request
	pingPong     bool // a host answers each request with one of its own

	first, last    sim.Time // when the first and the last request were in memory
	requestsPlaced uint64
	placementGaps  sim.Histogram
}

// card is a card, its bus and its host.
type card struct {
	w    *cardPair
	peer *card
	bus  *component.Bus

	// outgoing
	requestsWaiting int // made by the host, not begun by the engine
	wordsToRead     int // of the request under way, not yet in the FIFO
	outWords        int // words in the FIFO
	readyPackets    int // complete packets in the FIFO
	wordsLeftToSend int // of the packet on the link, not yet sent
	linkBusy        bool
	peerCreditWords int // free words of the other card's FIFO, as far as this card knows

	// incoming
	packets             []incomingPacket
	inWords, maxInWords int // words in the FIFO
	owed                int // words that went to the host and are not yet credited
	creditsWaiting      int // credits that wait for the link
}

// incomingPacket is a packet that arrives, or waits for the bus.
type incomingPacket struct {
	arrivedWords, writtenWords int
	announced                  bool // its bus side knows the packet
}

// instrument watches the gaps between requests in memory, and the receivers' FIFOs.
func (w *cardPair) instrument(nameSuffix string) {
	if w.s.InstrumentsEnabled() {
		w.s.AddHistogram("from one request in memory to the next"+nameSuffix, &w.placementGaps)
		w.s.Watch("words in the receivers' FIFOs"+nameSuffix, sim.Microsecond, func() int64 {
			return int64(w.ends[0].inWords + w.ends[1].inWords)
		})
		for i, n := range w.ends {
			n.bus.TraceTransfers(fmt.Sprintf("bus of card %d", i), func(c component.Client) string {
				if _, ok := c.(*busReader); ok {
					return "fetched"
				}
				return "delivered"
			})
		}
	}
}

func (c cards) connect(s *sim.Sim, words int, turns bool) *cardPair {
	w := &cardPair{
		cards:        c,
		s:            s,
		requestWords: words,
		pingPong:     turns,
	}
	for i := range w.ends {
		n := &card{w: w, bus: component.NewBus(w.s, 0), peerCreditWords: c.fifo}
		n.bus.Attach((*busReader)(n))
		n.bus.Attach((*busWriter)(n))
		w.ends[i] = n
	}
	w.ends[0].peer, w.ends[1].peer = w.ends[1], w.ends[0]
	w.ends[0].makeRequest()
	return w
}

// rate is in bytes of data per second, from the first request in memory to the last one.
func (w *cardPair) rate() float64 {
	if w.requestsPlaced < 2 {
		return 0
	}
	return sim.PerSecond((w.requestsPlaced-1)*uint64(w.requestWords*wordBytes), w.last-w.first)
}

// maxFIFOWords is the most words that a receiver's FIFO held.
func (w *cardPair) maxFIFOWords() int { return max(w.ends[0].maxInWords, w.ends[1].maxInWords) }

// makeRequest has the host make a request. One way, the host always has another one.
func (n *card) makeRequest() {
	n.requestsWaiting++
	n.bus.Kick()
}

// busReader is the engine as a client of the bus: it reads from the host's memory.
type busReader card

// Offer is the next word, if the FIFO has space for it.
func (e *busReader) Offer() (sim.Time, bool) {
	return e.w.clock, (e.wordsToRead > 0 || e.requestsWaiting > 0) && e.outWords < e.w.fifo
}

// Begin takes the request, and the space.
func (e *busReader) Begin() {
	if e.wordsToRead == 0 {
		e.wordsToRead = e.w.requestWords
		if e.w.pingPong {
			e.requestsWaiting--
		}
	}
	e.outWords++
}

// End puts the word into the FIFO. A packet is sent when it is complete (NIC-crossbar §3.1.6.1).
func (e *busReader) End() {
	if e.wordsToRead--; e.wordsToRead == 0 {
		e.readyPackets++
		(*card)(e).send()
	}
}

// send puts on the link credits first, then a packet for which the other card has space.
func (n *card) send() {
	w := n.w
	switch {
	case n.linkBusy:
	case n.creditsWaiting > 0:
		n.linkBusy = true
		n.creditsWaiting--
		w.s.ScheduleAfter(w.creditTime, (*creditSent)(n), 0, 0)
	case n.readyPackets > 0 && n.peerCreditWords >= w.requestWords:
		n.linkBusy = true
		n.readyPackets--
		n.peerCreditWords -= w.requestWords
		n.wordsLeftToSend = w.requestWords
		w.s.ScheduleAfter(w.packetOverheadTime+w.wordTime, (*wordSent)(n), 0, 0)
	}
}

type wordSent card

// Handle: a word has left the FIFO.
func (e *wordSent) Handle(int64, int64) {
	n, w := (*card)(e), e.w
	n.outWords--
	w.s.ScheduleAfter(w.flightTime, (*wordArrived)(n.peer), 0, 0)
	if n.wordsLeftToSend--; n.wordsLeftToSend > 0 {
		w.s.ScheduleAfter(w.wordTime, e, 0, 0)
	} else {
		n.linkBusy = false
		n.send()
	}
	n.bus.Kick()
}

type wordArrived card

// Handle puts a word into the receiver's FIFO, and announces the packet to the bus side when enough of it is there.
func (e *wordArrived) Handle(int64, int64) {
	n, w := (*card)(e), e.w
	if i := len(n.packets); i == 0 || n.packets[i-1].arrivedWords == w.requestWords {
		n.packets = append(n.packets, incomingPacket{})
	}
	p := &n.packets[len(n.packets)-1]
	p.arrivedWords++
	n.inWords++
	n.maxInWords = max(n.maxInWords, n.inWords)
	if enough := (w.requestWords + w.startDivisor - 1) / w.startDivisor; p.arrivedWords == enough {
		w.s.ScheduleAfter(w.toBusDelay, (*packetAnnounced)(n), 0, 0)
	}
	n.bus.Kick()
}

type packetAnnounced card

// Handle announces one more packet to the bus side.
func (e *packetAnnounced) Handle(int64, int64) {
	for i := range e.packets {
		if !e.packets[i].announced {
			e.packets[i].announced = true
			break
		}
	}
	e.bus.Kick()
}

// busWriter is the engine as a client of the bus: it writes to the host's memory.
type busWriter card

// Offer is the next word of the first announced packet, if it has come.
func (e *busWriter) Offer() (sim.Time, bool) {
	return e.w.clock, len(e.packets) > 0 && e.packets[0].announced && e.packets[0].arrivedWords > e.packets[0].writtenWords
}

// Begin has nothing to take: the word leaves the FIFO at its end.
func (e *busWriter) Begin() {}

// End writes the word to memory; credits return its space, each for a number of words.
func (e *busWriter) End() {
	n, w := (*card)(e), e.w
	p := &n.packets[0]
	p.writtenWords++
	n.inWords--
	n.owed++
	n.creditsWaiting += n.owed / w.wordsPerCredit
	n.owed %= w.wordsPerCredit
	n.send()
	if p.writtenWords < w.requestWords {
		return
	}
	n.packets = n.packets[:copy(n.packets, n.packets[1:])]
	if w.requestsPlaced++; w.requestsPlaced == 1 {
		w.first = w.s.Now()
	} else {
		w.placementGaps.Add(int64(w.s.Now() - w.last))
	}
	w.last = w.s.Now()
	if w.pingPong {
		w.s.ScheduleAfter(w.pollingDelay, (*answerDue)(n), 0, 0)
	}
}

type answerDue card

// Handle: the host has seen the data, and sends a request of its own.
func (e *answerDue) Handle(int64, int64) { (*card)(e).makeRequest() }

type creditSent card

// Handle: a credit has left, and arrives after its flight.
func (e *creditSent) Handle(int64, int64) {
	n := (*card)(e)
	n.linkBusy = false
	n.w.s.ScheduleAfter(n.w.flightTime, (*creditArrived)(n.peer), 0, 0)
	n.send()
}

type creditArrived card

// Handle: the other card has space again.
func (e *creditArrived) Handle(int64, int64) {
	e.peerCreditWords += e.w.wordsPerCredit
	(*card)(e).send()
}
