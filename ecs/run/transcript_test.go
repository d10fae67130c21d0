package run

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"ringlet/ecs/partition/fault"
	"ringlet/testkit/transcript"
)

// TestTranscripts plays testdata/*.txt. What is said is what happens to a run, one second after the other; the answer
// is the phase that it comes to, what is to be done, and what is new of it.
//
//	> new [events|end_of_input]   another run, which ends by itself for that
//	> KIND [by USER] [of NODE] [for REASON] [has CODE] [COMPONENT: WHAT]
//	> done [alone] [bad RECORD] [broken SOURCE] [input COMPONENT: WHAT]
//	> late done                   it answers what was to be done in a phase before
//
// REASON "asked" stands for that somebody has given the command. What is found has "begun", "ending" and "missing NODE"
// instead of a user.
func TestTranscripts(t *testing.T) {
	transcript.Play(t, func(t *testing.T) transcript.Answer {
		p := &player{t: t}
		return p.say
	})
}

type player struct {
	t     *testing.T
	state State
	now   time.Time
}

var epoch = time.Unix(1000, 0)

func (p *player) say(line string) string {
	if kind, what, _ := strings.Cut(line, " "); kind == "new" {
		p.state, p.now = State{ByItself: what}, epoch
		return ""
	}
	p.now = p.now.Add(time.Second)
	in := Input{At: p.now, Ticket: p.state.Ticket}
	if rest, late := strings.CutPrefix(line, "late "); late {
		in.Ticket--
		line = rest
	}
	for _, r := range table {
		for _, on := range r.on {
			if strings.HasPrefix(line+" ", string(on)+" ") {
				in.Kind = on
			}
		}
	}
	if in.Kind == "" {
		return "not understood\n"
	}
	p.parse(&in, strings.Fields(strings.TrimPrefix(line, string(in.Kind))))
	before := p.state
	var do []Action
	p.state, do = p.state.Step(in)
	return p.describe(&before, do)
}

// parse reads what is said of an input.
func (p *player) parse(in *Input, words []string) {
	for len(words) > 0 {
		word, next := words[0], ""
		if len(words) > 1 {
			next = words[1]
		}
		words = words[min(2, len(words)):]
		switch word {
		case "by":
			in.By = next
		case "of":
			in.Node = next
		case "for":
			if in.Reason = next; next == "asked" {
				in.Reason = EndStopped
			}
		case "has":
			in.Code = next
			in.Found.Cause = &Cause{Fault: fault.Fault{Component: "n2", What: "was first"}, Code: next}
		case "begun":
			in.Found.Begun = epoch
			words = slices.Concat(strings.Fields(next), words)
		case "ending":
			in.Found.Ending = epoch
			words = slices.Concat(strings.Fields(next), words)
		case "missing":
			in.Missing = append(in.Missing, next)
		case "alone":
			in.SelfStop = true
			words = slices.Concat(strings.Fields(next), words)
		case "bad":
			in.BadInput = next
		case "broken":
			in.BrokenSource = next
		case "input":
			in.InputFault = &fault.Fault{Component: strings.TrimSuffix(next, ":"), What: strings.Join(words, " ")}
			return
		default:
			component, is := strings.CutSuffix(word, ":")
			if !is {
				p.t.Fatalf("%q is not understood", word)
			}
			in.Fault = &fault.Fault{Component: component, What: strings.Join(append([]string{next}, words...), " ")}
			return
		}
	}
}

// describe is what an input has led to, and what is new.
func (p *player) describe(before *State, do []Action) string {
	s := &p.state
	var b strings.Builder
	b.WriteString(s.Phase.String())
	if len(do) > 0 {
		b.WriteString(": " + join(do))
	}
	b.WriteString("\n")
	say := func(format string, args ...any) { fmt.Fprintf(&b, "   "+format+"\n", args...) }
	if s.End != before.End {
		say("it ends for %s", s.End)
	}
	if s.StoppedBy != before.StoppedBy {
		say("%s has stopped it", s.StoppedBy)
	}
	if s.Ending != before.Ending {
		say("it is to end since %v", s.Ending.Sub(epoch))
	}
	if s.Cause != before.Cause {
		say("its record says %s: %s (%s)", s.Cause.Component, s.Cause.What, s.Cause.Code)
	}
	if s.Fault != before.Fault {
		say("its report blames %s: %s", s.Fault.Component, s.Fault.What)
	}
	if s.GivenUp && !before.GivenUp {
		say("it is given up")
	}
	return b.String()
}
