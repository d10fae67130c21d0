package backlog

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"ringlet/testkit/transcript"
)

// TestTranscripts plays every transcript in testdata with the core.
func TestTranscripts(t *testing.T) {
	transcript.Play(t, func(t *testing.T) transcript.Answer {
		p := &player{t: t, core: core{writerTimeout: 10 * time.Second}}
		return func(command string) string { return p.say(strings.Fields(command)) }
	})
}

type player struct {
	t    *testing.T
	core core
	runs []runState
}

// say takes a command: "run WORDS", "segment NAME closed at N [WORDS]" of the last run, "forget", or "at N s".
func (p *player) say(w []string) string {
	switch w[0] {
	case "forget":
		p.runs = nil
	case "run":
		r := runState{}
		for _, word := range w[1:] {
			switch word {
			case "removes":
				r.IsBacklog = true
			case "concluded":
				r.Concluded = true
			case "open":
				r.OpenSegments++
			case "live":
				r.OpenSegments++
				r.LiveSegments++
			default:
				p.t.Fatalf("%q", word)
			}
		}
		p.runs = append(p.runs, r)
	case "segment":
		s := segmentState{Name: w[1], ClosedAt: time.Unix(int64(transcript.Number(p.t, w[4])), 0)}
		words := strings.Join(w[5:], " ")
		s.Drained, s.FilesGone = strings.Contains(words, "drained"), strings.Contains(words, "gone")
		s.Damaged = strings.Contains(words, "damaged")
		r := &p.runs[len(p.runs)-1]
		r.Segments = append(r.Segments, s)
	case "at":
		n := p.core.next(time.Duration(transcript.Number(p.t, w[1]))*time.Second, p.runs)
		switch n.act {
		case actRemove, actDrain:
			return fmt.Sprintf("%v %s of run %d\n", n.act, p.runs[n.RunIndex].Segments[n.SegmentIndex].Name, n.RunIndex)
		case actRecover:
			return fmt.Sprintf("%v run %d\n", n.act, n.RunIndex)
		}
		return fmt.Sprintf("%v\n", n.act)
	}
	return ""
}
