package tagnet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"ringlet/tagnet/core"
	"ringlet/testkit/transcript"
)

// TestTranscripts plays every transcript in testdata: what the ends of a session keep, and which control is obeyed.
func TestTranscripts(t *testing.T) {
	transcript.Play(t, func(t *testing.T) transcript.Answer {
		p := &player{t: t}
		return func(command string) string { return p.say(strings.Fields(command)) }
	})
}

type player struct {
	t     *testing.T
	box   outbox[int]
	fence fence
	calls int // of controls: the clock
}

// say gives one command and tells its answer, each line ended.
func (p *player) say(w []string) string {
	switch w[0] {
	case "outbox":
		return p.outbox(w[1:])
	case "taken":
		before, ok := core.CountRepeated(uint64(p.number(w[1])), uint64(p.number(w[3])), p.number(w[5]))
		return fmt.Sprintf("%d taken before, no gap %v\n", before, ok)
	case "term":
		p.calls++
		rose, err := p.fence.admit(Term{Number: uint64(p.number(w[1])), Holder: w[3]}, time.Unix(int64(p.calls), 0).UTC())
		return fmt.Sprintf("new %v, obeyed is %d of %s\n", rose, p.fence.term.Number, p.fence.term.Holder) + complaint(err)
	}
	return "not understood\n"
}

func complaint(err error) string {
	if err == nil {
		return ""
	}
	return fmt.Sprintf("refused: %v\n", err)
}

func (p *player) number(word string) int { return transcript.Number(p.t, word) }

// outbox plays what a unit has to say.
func (p *player) outbox(w []string) string {
	o := &p.box
	switch w[0] {
	case "give":
		for range p.number(w[1]) {
			o.push(int(o.total()))
		}
	case "take":
		first, items := o.claim(nil, p.number(w[1]))
		return fmt.Sprintf("from %d: %v\n", first, items)
	case "ack":
		if !o.ack(uint64(p.number(w[1]))) {
			return "that cannot be\n"
		}
	case "cut":
		o.rewind()
	default:
		p.t.Fatalf("no command %q", w)
	}
	return fmt.Sprintf("%d given, %d sent, %d acknowledged, %d never sent\n", o.total(), o.sent, o.acked, o.unsent())
}
