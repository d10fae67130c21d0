package model

import (
	"testing"

	"pgregory.net/rapid"

	"ringlet/sim"
)

// direct is what F83 plays.
func direct() cards {
	const cycle = 12800 * sim.Picosecond
	return cards{
		clock:              10 * sim.Nanosecond,
		wordTime:           cycle,
		packetOverheadTime: 3 * cycle,
		creditTime:         cycle,
		flightTime:         45 * cycle / 2,
		toBusDelay:         5 * cycle,
		startDivisor:       4,
		fifo:               1023,
		wordsPerCredit:     32,
	}
}

// oneWayTime is the time of one request of so many words, alone, added up by hand: it is read, then it leaves word by
// word, and is written word by word from the time at which a quarter of it has come.
func (c *cards) oneWayTime(words int) sim.Time {
	sent := sim.Time(words)*c.clock + c.packetOverheadTime
	came := func(i int) sim.Time { return sent + sim.Time(i)*c.wordTime + c.flightTime }
	at := came((words+c.startDivisor-1)/c.startDivisor) + c.toBusDelay
	for i := 1; i <= words; i++ {
		at = max(at, came(i)) + c.clock
	}
	return at
}

// TestPingPong: an answer waits for nothing but a credit that may be on the link, one for so many words.
func TestPingPong(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := direct()
		c.startDivisor = rapid.IntRange(1, 8).Draw(t, "begin")
		c.pollingDelay = sim.Time(rapid.IntRange(0, 3000).Draw(t, "polling")) * sim.Nanosecond
		words := rapid.IntRange(1, 512).Draw(t, "words")
		w := c.connect(sim.New(1), words, true)
		w.s.Run(t.Context(), sim.Limits{Until: 200 * sim.Microsecond})
		turn, took := c.oneWayTime(words), w.last-w.first
		least := sim.Time(w.requestsPlaced-1) * (turn + c.pollingDelay)
		credits := sim.Time(int(w.requestsPlaced)*words/c.wordsPerCredit+1) * c.creditTime
		if w.first != turn || took < least || took > least+credits {
			t.Fatalf("%d words: the first after %v, want %v; %d in %v", words, w.first, turn, w.requestsPlaced, w.last)
		}
	})
}

// TestOneWay: the links are full, whatever the size; each packet costs them its data and what goes with it.
func TestOneWay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := direct()
		words := rapid.IntRange(1, 512).Draw(t, "words")
		w := c.connect(sim.New(1), words, false)
		w.s.Run(t.Context(), sim.Limits{Until: 200 * sim.Microsecond})
		took := w.last - w.first
		if want := sim.Time(w.requestsPlaced-1) * (c.packetOverheadTime + sim.Time(words)*c.wordTime); took < want ||
			took > want+want/100 {
			t.Fatalf("%d words: %d requests in %v, want %v", words, w.requestsPlaced, took, want)
		}
	})
}

// TestCredits: with FIFOs of any size no word is lost, none is written twice, and nothing stands still.
func TestCredits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := direct()
		words := rapid.IntRange(1, 512).Draw(t, "words")
		c.wordsPerCredit = rapid.IntRange(1, 64).Draw(t, "unit")
		c.fifo = words + c.wordsPerCredit + rapid.IntRange(0, 100).Draw(t, "more")
		c.startDivisor = rapid.IntRange(1, 4).Draw(t, "begin")
		c.clock = sim.Time(rapid.IntRange(5, 40).Draw(t, "clock")) * sim.Nanosecond
		w := c.connect(sim.New(1), words, false)
		w.s.Run(t.Context(), sim.Limits{Until: 200 * sim.Microsecond})
		from, to := w.ends[0], w.ends[1]
		if to.inWords < 0 || w.maxFIFOWords() > c.fifo || from.outWords < 0 || from.outWords > c.fifo ||
			from.peerCreditWords < 0 {
			t.Fatalf("%d words in a FIFO of %d: out %d, in %d, credit %d", w.maxFIFOWords(), c.fifo, from.outWords, to.inWords,
				from.peerCreditWords)
		}
		// one after the other, and the credits' way
		alone := c.oneWayTime(words) + 2*c.flightTime + c.creditTime*sim.Time(words)
		if least := uint64(200 * sim.Microsecond / (alone + c.toBusDelay)); w.requestsPlaced+2 < least {
			t.Fatalf("%d requests, one after the other they would be %d", w.requestsPlaced, least)
		}
	})
}
