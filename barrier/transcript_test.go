package barrier

import (
	"fmt"
	"strings"
	"testing"

	"ringlet/testkit/transcript"
)

// TestTranscripts plays testdata/*.txt.
//
//	barrier KIND N   N ranks before epoch 0, nothing in flight
//	enter R …        ranks enter, in this order
//	deliver F→T      the oldest message in flight from F to T arrives
//	repeat F→T       it arrives, and a copy stays in flight
//	again            the message that arrived last arrives once more
//	lose F→T         it never arrives
//	deliver all      everything arrives, in order of sending, until all is quiet
//	forge MESSAGE    this message arrives, though nobody sent it
//	ask R            the time-out strikes at rank R
//	missing R        whom rank R names
//	reset E          all ranks stand before epoch E
//	clock T          it is now T µs on everybody's clock
//	counters R       what rank R has counted
func TestTranscripts(t *testing.T) {
	transcript.Play(t, func(t *testing.T) transcript.Answer {
		w := &world{}
		return func(command string) string {
			w.log.Reset()
			w.command(t, command)
			return w.log.String()
		}
	})
}

// world is a set of cores and the messages between them.
type world struct {
	cores  []*Core
	flying []Message
	last   Message
	now    int64 // the clock of all cores, µs
	log    strings.Builder
}

func (w *world) say(format string, args ...any) { fmt.Fprintf(&w.log, format+"\n", args...) }

func (w *world) command(t *testing.T, line string) {
	t.Helper()
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "barrier":
		var name string
		var n int
		scan(t, rest, "%s %d", &name, &n)
		w.cores, w.flying = newCores(t, name, n), nil
	case "enter":
		for field := range strings.FieldsSeq(rest) {
			var r int
			scan(t, field, "%d", &r)
			w.step(r, fmt.Sprintf("rank %d enters epoch %d", r, w.cores[r].currentEpoch()), func(a *Actions) error {
				return w.cores[r].enter(w.cores[r].currentEpoch(), w.now, a)
			})
		}
	case "deliver", "repeat", "lose":
		if rest == "all" {
			for len(w.flying) > 0 {
				w.deliver(w.pick(t, 0, false))
			}
			return
		}
		var from, to uint16
		scan(t, rest, "%d→%d", &from, &to)
		m := w.pick(t, w.find(t, from, to), word == "repeat")
		if word == "lose" {
			w.say("lost: %s", m)
			return
		}
		w.deliver(m)
	case "again":
		w.deliver(w.last)
	case "forge":
		var name string
		var m Message
		scan(t, rest, "%d→%d %s %d", &m.From, &m.To, &name, &m.Epoch)
		m.Kind = map[string]messageKind{"arrive": kindArrive, "release": kindRelease, "query": kindQuery}[name]
		if m.Kind == kindQuery {
			_, origin, _ := strings.Cut(rest, " for ")
			scan(t, origin, "%d over %d", &m.Origin, &m.Path)
		}
		w.deliver(m)
	case "clock":
		scan(t, rest, "%d", &w.now)
	default:
		w.look(t, word, rest)
	}
}

// look holds the commands of the inquiry.
func (w *world) look(t *testing.T, word, rest string) {
	t.Helper()
	var r int
	scan(t, rest, "%d", &r)
	switch word {
	case "ask":
		w.step(r, fmt.Sprintf("rank %d asks, waiting for %v", r, w.cores[r].waitingFor()), func(a *Actions) error {
			w.cores[r].startInquiry(a)
			return nil
		})
	case "missing":
		w.say("rank %d misses %v", r, w.cores[r].missingRanks())
	case "counters":
		w.say("rank %d counted %s", r, countersText(*w.cores[r].counters))
	default:
		t.Fatalf("unknown command %q", word)
	}
}

func (w *world) deliver(m Message) {
	w.last = m
	w.step(int(m.To), m.String(), func(a *Actions) error { return w.cores[m.To].Receive(m, w.now, a) })
}

// step runs one step of one core and tells what it did.
func (w *world) step(rank int, what string, do func(*Actions) error) {
	w.say("%s", what)
	var a Actions
	epoch := w.cores[rank].currentEpoch()
	if err := do(&a); err != nil {
		w.say("  refused: %v", err)
	}
	for _, m := range a.Send {
		w.say("  sends %s", m)
	}
	if a.Released {
		held := ""
		if h := w.cores[rank].lastStraggler; h.AfterFirst > 0 {
			held = fmt.Sprintf(", held by %d for %v of %v", h.Rank, h.AfterSecondLast, h.AfterFirst)
		}
		w.say("  rank %d leaves epoch %d%s", rank, epoch, held)
	}
	w.flying = append(w.flying, a.Send...)
}

func (w *world) find(t *testing.T, from, to uint16) int {
	t.Helper()
	for i, m := range w.flying {
		if m.From == from && m.To == to {
			return i
		}
	}
	t.Fatalf("nothing is in flight from %d to %d", from, to)
	return -1
}

func (w *world) pick(t *testing.T, i int, keep bool) Message {
	t.Helper()
	m := w.flying[i]
	if !keep {
		w.flying = append(w.flying[:i], w.flying[i+1:]...)
	}
	return m
}

func newCores(t testing.TB, kind string, n int) []*Core {
	t.Helper()
	k, err := ParseKind(kind)
	if err != nil {
		t.Fatal(err)
	}
	cores := make([]*Core, n)
	for r := range cores {
		if cores[r], err = NewCore(k, n, r); err != nil {
			t.Fatal(err)
		}
	}
	return cores
}

func scan(t *testing.T, s, format string, into ...any) {
	t.Helper()
	if _, err := fmt.Sscanf(s, format, into...); err != nil {
		t.Fatalf("%q is not %q: %v", s, format, err)
	}
}

// countersText lists the counters that are not zero.
func countersText(c Counters) string {
	var words []string
	for _, f := range []struct {
		name string
		n    uint64
	}{
		{"epochs", c.Epochs}, {"arrives sent", c.ArrivesSent}, {"releases sent", c.ReleasesSent},
		{"early", c.Early}, {"duplicate", c.Duplicate}, {"late", c.Late}, {"wrong rank", c.WrongRank},
		{"wrong kind", c.WrongKind}, {"ahead", c.ImpossibleEpochs}, {"queries", c.Queries},
		{"replies", c.RepliesHandled}, {"unasked", c.UnsolicitedReplies},
	} {
		if f.n > 0 {
			words = append(words, fmt.Sprintf("%s %d", f.name, f.n))
		}
	}
	return strings.Join(words, ", ")
}
