package quic

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"
)

// detectorRun runs a detector against a path: what carries says of a probe sent at a time, after a round trip of rtt.
// It returns when the detector changed its mind, ms.
type detectorRun struct {
	detector blackHoleDetector
	now      int64
	answers  []answerAt
	changes  []int64
	rounds   int
}

type answerAt struct {
	at    int64
	round uint64
	full  bool
}

const ms = int64(time.Millisecond)

func (p *detectorRun) run(until, rtt int64, used bool, carries func(now int64, full bool) bool) {
	for ; p.now < until*ms; p.now += ms {
		was := p.detector.isNarrow
		for len(p.answers) > 0 && p.answers[0].at <= p.now {
			p.detector.onAnswer(p.now, p.answers[0].round, p.answers[0].full)
			p.answers = p.answers[1:]
		}
		if p.detector.step(p.now, used) {
			p.rounds++
			for _, full := range [...]bool{true, false} {
				if carries(p.now, full) {
					p.answers = append(p.answers, answerAt{p.now + rtt*ms, p.detector.round, full})
				}
			}
		}
		if p.detector.isNarrow != was {
			p.changes = append(p.changes, p.now/ms)
		}
	}
}

func carriesAll(int64, bool) bool          { return true }
func carriesNothing(int64, bool) bool      { return false }
func carriesSmall(_ int64, full bool) bool { return !full }

// TestHole: what a detector makes of paths of all kinds, and by when.
func TestHole(t *testing.T) {
	for _, rtt := range []int64{1, 20, 200} {
		var p detectorRun
		p.run(2000, rtt, true, carriesAll)
		if p.changes != nil || p.rounds < 7 || p.rounds > 9 {
			t.Errorf("rtt %d: a path that carries all: %v, %d rounds", rtt, p.changes, p.rounds)
		}
		p.run(4000, rtt, true, carriesSmall)
		if len(p.changes) != 1 || p.changes[0] > 2000+250+5*(rtt+31)+rtt || p.changes[0] < 2100 {
			t.Errorf("rtt %d: a path that shrinks at 2000 is found at %v", rtt, p.changes)
		}
		before := p.rounds
		p.run(600_000, rtt, true, carriesSmall)
		if len(p.changes) != 1 || p.rounds-before > 30 {
			t.Errorf("rtt %d: narrow for ten minutes: %v, %d rounds", rtt, p.changes, p.rounds-before)
		}
		p.run(640_000, rtt, false, carriesAll)
		if len(p.changes) != 2 || p.changes[1] > 631_000 {
			t.Errorf("rtt %d: it grows at 600000, and is found to at %v", rtt, p.changes)
		}
		was := p.rounds
		p.run(700_000, rtt, false, carriesAll)
		if p.rounds != was {
			t.Errorf("rtt %d: %d rounds for a connection that sends nothing", rtt, p.rounds-was)
		}
	}
}

// TestOutageIsNoHole: where nothing arrives nothing is learnt, and a round is sent now and then.
func TestOutageIsNoHole(t *testing.T) {
	var p detectorRun
	p.run(1000, 1, true, carriesAll)
	before := p.rounds
	p.run(61_000, 1, true, carriesNothing)
	if p.changes != nil || p.rounds-before > 62 {
		t.Errorf("%v, %d rounds", p.changes, p.rounds-before)
	}
	p.run(62_000, 1, true, carriesAll)
	if p.changes != nil || p.detector.missedRounds != 0 {
		t.Errorf("%v after the outage, %d misses", p.changes, p.detector.missedRounds)
	}
}

// TestLossIsNoHoleForLong: whatever is lost at random, a path that carries full packets is never thought narrow for
// longer than a few rounds.
func TestLossIsNoHoleForLong(t *testing.T) {
	var p detectorRun
	r := rand.New(rand.NewPCG(1, 2))
	p.run(600_000, 5, true, func(_ int64, full bool) bool { return !full || r.IntN(2) > 0 })
	narrow, since := int64(0), int64(0)
	for i, at := range p.changes {
		if i%2 == 0 {
			since = at
		} else {
			narrow += at - since
		}
	}
	if narrow > 200_000 {
		t.Errorf("half of the full ones lost for 600 s: narrow for %d ms, %d times", narrow, len(p.changes)/2)
	}
}

// TestOldAnswersProveNothing: neither those that come late nor those that somebody sends again.
func TestOldAnswersProveNothing(t *testing.T) {
	var p detectorRun
	p.run(2000, 1, true, carriesAll)
	old := p.detector.round
	p.run(4000, 1, true, func(now int64, full bool) bool {
		p.detector.onAnswer(now, old, true)
		p.detector.onAnswer(now, old+1000, true) // of a round to come
		return !full
	})
	if len(p.changes) != 1 {
		t.Fatalf("%v", p.changes)
	}
	for round := range p.detector.provenRound + 1 {
		p.detector.onAnswer(p.now, round, true)
	}
	if !p.detector.isNarrow {
		t.Error("answers from before the path became narrow have it carry full packets")
	}
}

// TestHalvesMakeTheWhole for packets of all lengths, with halves in either order, among others and doubled.
func TestHalvesMakeTheWhole(t *testing.T) {
	k, err := newPathKey(bytes.Repeat([]byte{7}, pathKeyMaterial))
	if err != nil {
		t.Fatal(err)
	}
	var at [maxReassemblies]reassembly
	for n := minPacketSize; n <= maxPacketSize; n++ {
		p := make([]byte, n)
		for i := range p {
			p[i] = byte(rand.Uint32())
		}
		halves := splitPacket(&k, uint64(n), p)
		if rand.IntN(2) == 0 {
			halves[0], halves[1] = halves[1], halves[0]
		}
		var joined []byte
		for i, b := range halves {
			var h pathHeader
			if !h.parse(b) || h.token != k.token || !k.isAuthentic(b) {
				t.Fatalf("half %d of %d bytes does not parse, or is not authentic", i, n)
			}
			for range 1 + rand.IntN(2)*(1-i) {
				var lost int
				if joined, lost = reassemble(&at, &h, b); lost != 0 || (joined != nil) != (i == 1) {
					t.Fatalf("half %d of %d bytes: %d lost, whole %v", i, n, lost, joined != nil)
				}
			}
		}
		if !bytes.Equal(joined, p) {
			t.Fatalf("what was put together of %d bytes differs", n)
		}
	}
}

// splitPacket makes the halves of a packet.
func splitPacket(k *pathKey, number uint64, p []byte) (halves [2][]byte) {
	step := (len(p) + 1) / 2
	for i, half := range [...][]byte{p[:step], p[step:]} {
		h := pathHeader{kind: kindFirstHalf + byte(i), length: len(p), number: number}
		halves[i] = make([]byte, h.size())
		k.seal(halves[i], h, half)
	}
	return halves
}

// TestHalvesThatAreLost are counted, and an old one takes no place from a new one.
func TestHalvesThatAreLost(t *testing.T) {
	k, err := newPathKey(make([]byte, pathKeyMaterial))
	if err != nil {
		t.Fatal(err)
	}
	var at [maxReassemblies]reassembly
	put := func(number uint64, half int) (bool, int) {
		b := splitPacket(&k, number, make([]byte, maxPacketSize))[half]
		var h pathHeader
		if !h.parse(b) {
			t.Fatal("it does not parse")
		}
		joined, lost := reassemble(&at, &h, b)
		return joined != nil, lost
	}
	for i, step := range []struct {
		number uint64
		half   int
		joined bool
		lost   int
	}{
		{maxReassemblies + 1, 0, false, 0},
		{1, 1, false, 1},                           // older
		{maxReassemblies + 1, 1, true, 0},          // still there
		{2*maxReassemblies + 1, 1, false, 0},       //
		{3*maxReassemblies + 1, 1, false, 1},       // newer
		{2*maxReassemblies + 1, 0, false, 1},       // too late
		{3*maxReassemblies + 1, 0, true, 0},        //
		{3*maxReassemblies + 2, 1, false, 0},       // another place
		{1<<60 + 2, 0, false, 1},                   //
		{1<<60 + 2, 1, true, 0},                    //
		{1<<60 + 2, 1, false, 0},                   // a straggler waits for nobody
		{1<<60 + maxReassemblies + 2, 0, false, 1}, //
	} {
		if joined, lost := put(step.number, step.half); joined != step.joined || lost != step.lost {
			t.Errorf("step %d: whole %v, %d lost", i, joined, lost)
		}
	}
}

// FuzzHalf: whatever comes from the network is told apart from what the peer made, without harm.
func FuzzHalf(f *testing.F) {
	k, err := newPathKey(make([]byte, pathKeyMaterial))
	if err != nil {
		f.Fatal(err)
	}
	halves := splitPacket(&k, 1, make([]byte, maxPacketSize-1))
	f.Add(halves[0])
	f.Add(halves[1])
	f.Add([]byte{kindAnswer})
	probe := make([]byte, minPacketSize)
	k.seal(probe, pathHeader{kind: kindProbe, length: minPacketSize, number: 3}, nil)
	f.Add(probe)
	f.Fuzz(func(t *testing.T, b []byte) {
		var h pathHeader
		if !h.parse(b) {
			return
		}
		_ = k.isAuthentic(b)
		var at [maxReassemblies]reassembly
		if h.kind == kindFirstHalf || h.kind == kindSecondHalf {
			if joined, lost := reassemble(&at, &h, b); joined != nil || lost != 0 {
				t.Fatalf("one half makes a packet of %d bytes, %d lost", len(joined), lost)
			}
		}
	})
}
