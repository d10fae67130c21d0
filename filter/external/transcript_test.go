package external

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"ringlet/filter"
	"ringlet/testkit/must"
	"ringlet/testkit/transcript"
)

// TestTranscripts plays every transcript in testdata with a core.
func TestTranscripts(t *testing.T) {
	transcript.Play(t, func(t *testing.T) transcript.Answer {
		p := &player{t: t, now: time.Unix(1000, 0)}
		return func(command string) string { return p.say(strings.Fields(command)) }
	})
}

type player struct {
	t    *testing.T
	now  time.Time
	core core
}

// named are the words for what an answer was.
var named = [...]string{answerUsed: "taken", answerLate: "late", answerDoubled: "doubled", answerUnassigned: "unasked",
	answerInvalid: "invalid"}

func (p *player) say(w []string) string {
	switch w[0] {
	case "process": // process with 10 ms for an event
		p.core = core{deadline: p.ms(w[2])}
	case "hand": // hand event 100, or hand events 100 101
		c := caseOf(p.event(w[2]), len(w)-2)
		c.Entry = []byte(strings.Join(w[2:], " "))
		p.core.assign(c, p.now)
	case "wait": // wait 5 ms
		p.now = p.now.Add(p.ms(w[1]))
		finished, back := p.core.expire(p.now, nil)
		return p.end(finished, back)
	case "accepts", "rejects", "fails", "decides": // accepts 100; decides 100 3
		d := map[string]filter.Decision{"accepts": filter.Accepted, "rejects": filter.Rejected,
			"fails": filter.Failed}[w[0]]
		if w[0] == "decides" {
			d = filter.Decision(p.event(w[2]))
		}
		return p.answer(p.event(w[1]), resultOf(p.event(w[1]), d, 0))
	case "says": // says of 100: 00 01 02; of 100: nothing; of 100 what is of 101
		event := p.event(strings.TrimSuffix(w[2], ":"))
		switch w[3] {
		case "what":
			return p.answer(event, resultOf(p.event(w[6]), filter.Accepted, 0))
		case "nothing":
			return p.answer(event, nil)
		}
		b, err := hex.DecodeString(strings.Join(w[3:], ""))
		must.OK(p.t, err)
		return p.answer(event, b)
	case "leaves":
		return p.end(p.core.releaseCases(0, nil))
	case "dies":
		return p.end(p.core.releaseCases(filter.Failed, nil))
	case "show":
		return p.show()
	default:
		p.t.Fatalf("no command: %v", w)
	}
	return ""
}

func (p *player) answer(event uint64, b []byte) string {
	finished, what := p.core.applyAnswer(event, b, p.now)
	return named[what] + "\n" + p.end(finished, nil)
}

// end says which cases come back.
func (p *player) end(finished *filter.Case, back []*filter.Case) string {
	var b strings.Builder
	if finished != nil {
		fmt.Fprintf(&b, "settled: %s:", finished.Entry)
		for _, v := range finished.Verdicts {
			fmt.Fprintf(&b, " %v", v.Decision)
		}
		b.WriteString("\n")
	}
	for _, c := range back {
		fmt.Fprintf(&b, "given back: %s\n", c.Entry)
	}
	return b.String()
}

func (p *player) show() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d MEPs with the process, %d given up and not answered; may have more: %v;", len(p.core.cases),
		len(p.core.overdue), p.core.acceptsCase())
	for i, n := range p.core.answerCounts {
		fmt.Fprintf(&b, " %d %s", n, named[i])
	}
	fmt.Fprintf(&b, "; longest %v\n", p.core.judgingMax)
	return b.String()
}

func (p *player) event(word string) uint64 {
	n, err := strconv.ParseUint(word, 10, 64)
	must.OK(p.t, err)
	return n
}

func (p *player) ms(word string) time.Duration {
	return time.Duration(p.event(word)) * time.Millisecond
}

// FuzzAnswer holds that whatever bytes a process gives as an answer, an event has a verdict only if they say one that
// is the process's to say; that nothing else changes; and that each answer is counted as one thing.
func FuzzAnswer(f *testing.F) {
	for d := range 6 {
		f.Add(uint64(5), resultOf(5, filter.Decision(d), 3))
	}
	f.Add(uint64(7), resultOf(7, filter.Accepted, 0))
	f.Add(uint64(1<<48+5), resultOf(5, filter.Accepted, 0))
	f.Add(uint64(5), resultOf(5, filter.Accepted, 0)[:15])
	f.Add(uint64(5), append(resultOf(5, filter.Accepted, 0), 0))
	f.Add(uint64(0), []byte{})
	f.Fuzz(func(t *testing.T, event uint64, b []byte) {
		now := time.Unix(1000, 0)
		c := core{deadline: time.Second}
		one := caseOf(5, 2)
		c.assign(one, now)
		finished, what := c.applyAnswer(event, b, now)
		v := filter.Verdict{}
		if what == answerUsed {
			v = one.Verdicts[event-5]
			if string(resultOf(event, v.Decision, v.Score)[8:12]) != string([]byte{b[8], 0, b[10], b[11]}) {
				t.Fatalf("%x is taken as %+v", b, v)
			}
		}
		if said := v.Decision != 0; finished != nil || said != (what == answerUsed) || c.answerCounts[what] != 1 ||
			v.Decision == filter.TimedOut {
			t.Fatalf("event %d: %x: %+v, %v", event, b, v, what)
		}
		if _, what = c.applyAnswer(5, resultOf(5, filter.Rejected, 0), now); what != answerUsed && event != 5 {
			t.Fatalf("event 5 cannot be answered any more: %v", what)
		}
	})
}
