package barrier

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// net is a set of cores and an unordered, duplicating network, watched by the
// one law of a barrier: nobody leaves epoch e before all have entered e.
type net struct {
	kind    Kind
	cores   []*Core
	entered []uint64 // epochs entered, by rank
	flying  []Message
	history []Message // every message that was ever sent
	actions Actions
	now     int64 // the clock of all cores, µs
}

var allKinds = []Kind{None, Central, Tournament, Dissemination}

// messages is how many of them an epoch takes that ends in time.
func messages(kind Kind, n int) int {
	switch kind {
	case None:
		return 0
	case Dissemination:
		return n * roundsOf(kind, n)
	}
	return 2 * (n - 1)
}

func newNet(t testing.TB, kind Kind, n int) *net {
	return &net{kind: kind, cores: newCores(t, kind.String(), n), entered: make([]uint64, n)}
}

// offer is what a rank tells the others in an epoch.
func offer(r int, epoch uint64) uint32 { return uint32((uint64(r)*7 + epoch*13) % 31) }

func (w *net) enter(r int) error {
	w.entered[r]++
	w.cores[r].setOffer(offer(r, w.cores[r].currentEpoch()))
	return w.step(r, func(a *Actions) error { return w.cores[r].enter(w.cores[r].currentEpoch(), w.now, a) })
}

func (w *net) receive(m Message) error {
	return w.step(int(m.To), func(a *Actions) error { return w.cores[m.To].Receive(m, w.now, a) })
}

func (w *net) step(r int, do func(*Actions) error) error {
	c := w.cores[r]
	a := &w.actions
	a.Send, a.Released = a.Send[:0], false
	before := c.currentEpoch()
	if err := do(a); err != nil {
		return err
	}
	w.flying = append(w.flying, a.Send...)
	w.history = append(w.history, a.Send...)
	if a.Released != (c.currentEpoch() == before+1) {
		return fmt.Errorf("rank %d: released %v, but went from epoch %d to %d", r, a.Released, before, c.currentEpoch())
	}
	if a.Released && w.kind != None {
		least := offer(0, before)
		for other := range w.cores {
			least = min(least, offer(other, before))
		}
		if got := c.lastStraggler.MinOffer; len(w.cores) > 1 && got != least {
			return fmt.Errorf("rank %d learnt in epoch %d that the least offer was %d, not %d", r, before, got, least)
		}
		for other, n := range w.entered {
			if n <= before {
				return fmt.Errorf("rank %d left epoch %d, which rank %d has not entered", r, before, other)
			}
		}
	}
	return nil
}

// drop takes message i out of flight.
func (w *net) drop(i int) Message {
	m := w.flying[i]
	w.flying[i] = w.flying[len(w.flying)-1]
	w.flying = w.flying[:len(w.flying)-1]
	return m
}

func drawKind(t *rapid.T) Kind {
	return rapid.SampledFrom(allKinds).Draw(t, "kind")
}

// TestNobodyLeavesEarly: any N, any order of entering and delivery, any
// duplication, also of messages of long ago.
func TestNobodyLeavesEarly(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		kind := drawKind(rt)
		n := rapid.IntRange(1, 64).Draw(rt, "n")
		epochs := rapid.Uint64Range(1, 4).Draw(rt, "epochs")
		copies := rapid.IntRange(0, 30).Draw(rt, "percent duplicated")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		w := newNet(t, kind, n)
		var duplicates uint64
		for {
			var ready []int
			for r, c := range w.cores {
				if !c.epochEntered && c.currentEpoch() < epochs {
					ready = append(ready, r)
				}
			}
			if len(ready)+len(w.flying) == 0 {
				break
			}
			var err error
			switch pick := rng.IntN(len(ready) + len(w.flying)); {
			case len(w.history) > 0 && rng.IntN(100) < copies:
				err = w.receive(w.history[rng.IntN(len(w.history))])
				duplicates++
			case pick < len(ready):
				err = w.enter(ready[pick])
			default:
				err = w.receive(w.drop(pick - len(ready)))
			}
			if err != nil {
				rt.Fatal(err)
			}
		}
		checkAccounts(rt, w, epochs, duplicates)
	})
}

// checkAccounts holds that everybody is through, with the messages an epoch takes,
// every one of them counted once.
func checkAccounts(t *rapid.T, w *net, epochs, duplicates uint64) {
	n := len(w.cores)
	want := uint64(messages(w.kind, n)) * epochs
	released := want / 2
	if w.kind == Dissemination {
		released = 0
	}
	var sum Counters
	for r, c := range w.cores {
		k := *c.counters
		if c.currentEpoch() != epochs || k.Epochs != epochs || w.entered[r] != epochs {
			t.Fatalf("rank %d is stuck at epoch %d of %d", r, c.currentEpoch(), epochs)
		}
		sum.ArrivesSent += k.ArrivesSent
		sum.ReleasesSent += k.ReleasesSent
		sum.Duplicate += k.Duplicate
		sum.Late += k.Late
		sum.WrongRank += k.WrongRank + k.WrongKind + k.ImpossibleEpochs
	}
	if got := uint64(len(w.history)); got != want || sum.ArrivesSent != want-released || sum.ReleasesSent != released {
		t.Fatalf("%d messages, %d arrivals, %d releases, want %d in all", got, sum.ArrivesSent, sum.ReleasesSent, want)
	}
	if sum.Duplicate+sum.Late != duplicates || sum.WrongRank != 0 {
		t.Fatalf("%d duplicates made, counted %d duplicate and %d late, %d refused",
			duplicates, sum.Duplicate, sum.Late, sum.WrongRank)
	}
}

// TestDepth: when everybody has entered and a rank sends one message and handles
// one message per step, each direction takes Rounds steps, and a dissemination has
// one direction.
func TestDepth(t *testing.T) {
	for _, kind := range allKinds[1:] {
		for n := 1; n <= 130; n++ {
			w := newNet(t, kind, n)
			for r := range n {
				if err := w.enter(r); err != nil {
					t.Fatal(err)
				}
			}
			outbox, inbox := make([][]Message, n), make([][]Message, n)
			steps, arrived := 0, 0
			for len(w.flying) > 0 || slices.ContainsFunc(w.cores, func(c *Core) bool { return c.currentEpoch() < 1 }) {
				steps++
				for _, m := range w.flying {
					outbox[m.From] = append(outbox[m.From], m)
				}
				w.flying = w.flying[:0]
				for r := range outbox {
					if len(outbox[r]) > 0 {
						m := outbox[r][0]
						outbox[r] = outbox[r][1:]
						inbox[m.To] = append(inbox[m.To], m)
					}
				}
				for r := range inbox {
					if len(inbox[r]) > 0 {
						m := inbox[r][0]
						inbox[r] = inbox[r][1:]
						if err := w.receive(m); err != nil {
							t.Fatal(err)
						}
					}
				}
				if arrived == 0 && w.cores[0].currentEpoch() == 1 {
					arrived = steps
				}
			}
			for r, c := range w.cores {
				if c.currentEpoch() != 1 {
					t.Fatalf("%s n=%d: rank %d was not released", kind, n, r)
				}
			}
			want, release := roundsOf(kind, n), roundsOf(kind, n)
			if kind == Dissemination {
				release = 0
			}
			if arrived != want || steps-arrived != release {
				t.Errorf("%s n=%d: %d steps to arrive, %d to release, want %d and %d", kind, n, arrived, steps-arrived, want,
					release)
			}
		}
	}
}

// TestMissingIsNamed: some ranks are dead, some alive but not inside. Whoever
// waits names at least one of them, nobody else, and the only one if it is one.
func TestMissingIsNamed(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		kind := rapid.SampledFrom(allKinds[1:]).Draw(rt, "kind")
		n := rapid.IntRange(2, 64).Draw(rt, "n")
		some := rapid.SliceOfNDistinct(rapid.IntRange(0, n-1), 1, min(n-1, 5), rapid.ID[int])
		missing := some.Draw(rt, "missing")
		dead := make(map[int]bool)
		for _, r := range missing {
			dead[r] = rapid.Bool().Draw(rt, "dead")
		}
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		w := newNet(t, kind, n)
		for _, r := range rng.Perm(n) {
			if !slices.Contains(missing, r) {
				must(rt, w.enter(r))
			}
		}
		deliverAll(rt, w, rng, dead)
		var reports []report
		for r, c := range w.cores {
			if slices.Contains(missing, r) {
				if !dead[r] {
					reports = append(reports, c.report())
				}
				continue
			}
			reports = append(reports, c.report())
			before := len(w.history)
			must(rt, w.step(r, func(a *Actions) error { c.startInquiry(a); return nil }))
			deliverAll(rt, w, rng, dead)
			checkNames(rt, fmt.Sprintf("rank %d", r), c.missingRanks(), missing)
			if queries := count(w.history[before:], kindQuery); queries > n-1 {
				rt.Fatalf("rank %d's inquiry took %d queries among %d ranks", r, queries, n)
			}
		}
		named := culprits(reports)
		checkNames(rt, "all reports together", named, missing)
		for _, r := range missing {
			if !dead[r] && !slices.Contains(named, r) {
				rt.Fatalf("rank %d reports that it has not entered, but is not among %v", r, named)
			}
		}
	})
}

func checkNames(t *rapid.T, who string, named, missing []int) {
	if len(named) == 0 || len(missing) == 1 && len(named) != 1 {
		t.Fatalf("%s names %v, missing is %v", who, named, missing)
	}
	for _, r := range named {
		if !slices.Contains(missing, r) {
			t.Fatalf("%s names %v, missing is %v", who, named, missing)
		}
	}
}

// deliverAll delivers everything in random order; what goes to the dead is lost.
func deliverAll(t *rapid.T, w *net, rng *rand.Rand, dead map[int]bool) {
	for len(w.flying) > 0 {
		if m := w.drop(rng.IntN(len(w.flying))); !dead[int(m.To)] {
			must(t, w.receive(m))
		}
	}
}

func must(t interface{ Fatal(args ...any) }, err error) {
	if err != nil {
		t.Fatal(err)
	}
}

func count(list []Message, kind messageKind) int {
	n := 0
	for _, m := range list {
		if m.Kind == kind {
			n++
		}
	}
	return n
}

// TestEveryInterleaving visits every state that two epochs can reach: every order
// of entering, delivery and one duplication of any message at any moment.
func TestEveryInterleaving(t *testing.T) {
	for _, c := range []struct {
		kind   Kind
		n      int
		epochs uint64
	}{{Central, 3, 2}, {Tournament, 3, 2}, {Tournament, 4, 1}, {Dissemination, 2, 3}, {Dissemination, 3, 2},
		{Dissemination, 4, 1}} {
		start := &state{net: newNet(t, c.kind, c.n), copies: 1}
		seen := map[string]bool{start.key(): true}
		ends := 0
		for todo := []*state{start}; len(todo) > 0; {
			s := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			next := s.successors(t, c.epochs)
			if len(next) == 0 {
				ends++
				for r, core := range s.net.cores {
					if core.currentEpoch() != c.epochs {
						t.Fatalf("%s n=%d: rank %d is stuck at epoch %d in %s", c.kind, c.n, r, core.currentEpoch(), s.key())
					}
				}
			}
			for _, s := range next {
				if k := s.key(); !seen[k] {
					seen[k] = true
					todo = append(todo, s)
				}
			}
		}
		if ends == 0 {
			t.Fatalf("%s n=%d never ends", c.kind, c.n)
		}
		t.Logf("%s n=%d: %d states, %d ends", c.kind, c.n, len(seen), ends)
	}
}

// state is a net with a budget of duplications.
type state struct {
	net    *net
	copies int
}

func (s *state) key() string {
	var b strings.Builder
	for _, c := range s.net.cores {
		fmt.Fprintf(&b, "%d%v", c.epoch, c.epochEntered)
		switch x := c.algorithm.(type) {
		case *bracket:
			fmt.Fprintf(&b, "%v ", x.arrivedBits)
		case *dissemination:
			fmt.Fprintf(&b, "%d%b%b ", x.round, x.arrivals[0].roundBits, x.arrivals[1].roundBits)
		}
	}
	flying := slices.SortedFunc(slices.Values(s.net.flying), func(x, y Message) int {
		return strings.Compare(x.String(), y.String())
	})
	fmt.Fprintf(&b, "%v %d", flying, s.copies)
	return b.String()
}

// after returns the state after a step, or fails the test on a broken law.
func (s *state) after(t *testing.T, copies int, do func(*net) error) *state {
	c := &net{kind: s.net.kind, entered: slices.Clone(s.net.entered), flying: slices.Clone(s.net.flying)}
	for _, core := range s.net.cores {
		clone := *core
		switch x := core.algorithm.(type) {
		case *bracket:
			copied := *x
			copied.arrivedBits = slices.Clone(x.arrivedBits)
			clone.algorithm = &copied
		case *dissemination:
			copied := *x
			clone.algorithm = &copied
		}
		c.cores = append(c.cores, &clone)
	}
	if err := do(c); err != nil {
		t.Fatalf("%v\nfrom %s", err, s.key())
	}
	return &state{net: c, copies: copies}
}

func (s *state) successors(t *testing.T, epochs uint64) []*state {
	var next []*state
	for r, c := range s.net.cores {
		if !c.epochEntered && c.currentEpoch() < epochs {
			next = append(next, s.after(t, s.copies, func(w *net) error { return w.enter(r) }))
		}
	}
	different := make(map[Message]int)
	for i, m := range s.net.flying {
		different[m] = i
	}
	for i := range maps.Values(different) {
		m := s.net.flying[i]
		next = append(next, s.after(t, s.copies, func(w *net) error { w.drop(i); return w.receive(m) }))
		if s.copies > 0 {
			next = append(next, s.after(t, s.copies-1, func(w *net) error { return w.receive(m) }))
		}
	}
	return next
}

// TestALostMessageAccusesNobody: everybody has entered, so whoever still waits finds that nobody is missing.
func TestALostMessageAccusesNobody(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		kind := rapid.SampledFrom(allKinds[1:]).Draw(rt, "kind")
		n := rapid.IntRange(2, 64).Draw(rt, "n")
		lost := rapid.IntRange(0, messages(kind, n)-1).Draw(rt, "lost")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		w := newNet(t, kind, n)
		for _, r := range rng.Perm(n) {
			must(rt, w.enter(r))
		}
		for sent := 0; len(w.flying) > 0; sent++ {
			if m := w.drop(rng.IntN(len(w.flying))); sent != lost {
				must(rt, w.receive(m))
			}
		}
		waiting := 0
		for r, c := range w.cores {
			if !c.epochEntered {
				continue
			}
			waiting++
			must(rt, w.step(r, func(a *Actions) error { c.startInquiry(a); return nil }))
			deliverAll(rt, w, rng, nil)
			if named := c.missingRanks(); len(named) > 0 {
				rt.Fatalf("rank %d names %v", r, named)
			}
		}
		if waiting == 0 {
			rt.Fatal("nobody waits, though a message was lost")
		}
	})
}
