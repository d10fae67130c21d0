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
		clock:  10 * sim.Nanosecond,
		word:   cycle,
		around: 3 * cycle,
		credit: cycle,
		flight: 45 * cycle / 2,
		toBus:  5 * cycle,
		begin:  4,
		fifo:   1023,
		unit:   32,
	}
}

// oneWayTime is the time of one request of so many words, alone, added up by hand: it is read, then it leaves word by
// word, and is written word by word from the time at which a quarter of it has come.
func (c *cards) oneWayTime(words int) sim.Time {
	sent := sim.Time(words)*c.clock + c.around
	came := func(i int) sim.Time { return sent + sim.Time(i)*c.word + c.flight }
	at := came((words+c.begin-1)/c.begin) + c.toBus
	for i := 1; i <= words; i++ {
		at = max(at, came(i)) + c.clock
	}
	return at
}

// TestPingPong: an answer waits for nothing but a credit that may be on the link, one for so many words.
func TestPingPong(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := direct()
		c.begin = rapid.IntRange(1, 8).Draw(t, "begin")
		c.polling = sim.Time(rapid.IntRange(0, 3000).Draw(t, "polling")) * sim.Nanosecond
		words := rapid.IntRange(1, 512).Draw(t, "words")
		w := c.connect(sim.New(1), words, true)
		w.s.Run(t.Context(), sim.Limits{Until: 200 * sim.Microsecond})
		turn, took := c.oneWayTime(words), w.last-w.first
		least := sim.Time(w.placed-1) * (turn + c.polling)
		credits := sim.Time(int(w.placed)*words/c.unit+1) * c.credit
		if w.first != turn || took < least || took > least+credits {
			t.Fatalf("%d words: the first after %v, want %v; %d in %v", words, w.first, turn, w.placed, w.last)
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
		if want := sim.Time(w.placed-1) * (c.around + sim.Time(words)*c.word); took < want || took > want+want/100 {
			t.Fatalf("%d words: %d requests in %v, want %v", words, w.placed, took, want)
		}
	})
}

// TestCredits: with FIFOs of any size no word is lost, none is written twice, and nothing stands still.
func TestCredits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := direct()
		words := rapid.IntRange(1, 512).Draw(t, "words")
		c.unit = rapid.IntRange(1, 64).Draw(t, "unit")
		c.fifo = words + c.unit + rapid.IntRange(0, 100).Draw(t, "more")
		c.begin = rapid.IntRange(1, 4).Draw(t, "begin")
		c.clock = sim.Time(rapid.IntRange(5, 40).Draw(t, "clock")) * sim.Nanosecond
		w := c.connect(sim.New(1), words, false)
		w.s.Run(t.Context(), sim.Limits{Until: 200 * sim.Microsecond})
		from, to := w.ends[0], w.ends[1]
		if to.inWords < 0 || w.fullest() > c.fifo || from.outWords < 0 || from.outWords > c.fifo || from.credit < 0 {
			t.Fatalf("%d words in a FIFO of %d: out %d, in %d, credit %d", w.fullest(), c.fifo, from.outWords, to.inWords,
				from.credit)
		}
		alone := c.oneWayTime(words) + 2*c.flight + c.credit*sim.Time(words) // one after the other, and the credits' way
		if least := uint64(200 * sim.Microsecond / (alone + c.toBus)); w.placed+2 < least {
			t.Fatalf("%d requests, one after the other they would be %d", w.placed, least)
		}
	})
}
