package partition

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"ringlet/ecs/record"
	ecsrun "ringlet/ecs/run"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
	"ringlet/testkit/transcript"
)

// TestTranscripts plays testdata/*.txt: a control comes back. What is said is what it finds, and the answer is what it
// does next.
//
//	> back [configuration|view|run]   a control comes back; its saved state holds so much
//	> done                            the step was done
//	> fails [STATE…]                  it was not; the nodes are in these states
//	> nodes STATE…                    the step was done, and the nodes are in these states; "silent": it tells nothing
//	> record RECORD                   the record is read
//	> told TELLING…                   the run is taken up, and nodes and scheduler tell this of it
//	> RECORD: TELLING…                both, of a control that has got so far
//	> orphan RECORD                   the record of a run whose nodes could not be taken up
//
// A record is open, begun, stopped, abandoned, struck or closed. "going N" and "paused N" count nodes, "alone" is that
// nodes have ended the run by themselves, "missing" that one of them or the scheduler cannot tell, "held" that the
// scheduler is paused.
func TestTranscripts(t *testing.T) {
	transcript.Play(t, func(t *testing.T) transcript.Answer {
		p := &adoptPlayer{t: t}
		return func(line string) string {
			if records, reports, both := strings.Cut(line, ":"); both {
				p.say("back", []string{"run"})
				p.say("done", nil)
				p.say("done", nil)
				if does := p.say("record", []string{records}); p.nextStep().action != adoptTakeUp {
					return does
				}
				return p.say("told", strings.Fields(reports))
			}
			words := strings.Fields(line)
			return p.say(words[0], words[1:])
		}
	})
}

type adoptPlayer struct {
	t *testing.T
	adoption
	holds string // what the saved state does
}

var errFails = errors.New("it failed")

func recordCalled(name string) *ecsv1.Run {
	now := timestamppb.Now()
	return proto.CloneOf(map[string]*ecsv1.Run{
		"open":    {StartBegun: now},
		"begun":   {StartBegun: now, StartDone: now},
		"stopped": {StartBegun: now, StartDone: now, StopBegun: now, End: ecsrun.EndStopped},
		"abandoned": {
			StartBegun: now,
			StartDone:  now,
			StopBegun:  now,
			End:        ecsrun.EndStopped,
			Cause:      &ecsv1.Cause{Component: "alice", Code: ecsrun.CodeAbandoned},
		},
		"struck": {
			StartBegun: now,
			StartDone:  now,
			StopBegun:  now,
			End:        ecsrun.EndFault,
			Cause:      &ecsv1.Cause{Component: "n2", What: "its process was killed by signal 9"},
		},
		"closed": {StartBegun: now, StopDone: now, Verdict: ecsv1.Verdict_VERDICT_ABORTED},
	}[name])
}

// say takes what is found, and answers with the step that follows.
func (p *adoptPlayer) say(word string, more []string) string {
	before := p.nextStep().action
	switch word {
	case "back":
		p.adoption, p.holds = adoption{}, strings.Join(more, "")
		return p.step()
	case "done":
		if before == adoptRecall {
			p.saved = savedStateWith(p.holds)
		}
	case "fails", "nodes":
		p.nodeStates = nil
		for _, s := range more {
			p.nodeStates = append(p.nodeStates, strings.TrimPrefix(s, "silent"))
		}
		if word == "fails" {
			p.noteDone(before, errFails)
			return p.step()
		}
	case "record":
		p.record = recordCalled(more[0])
	case "told":
		p.reports = p.parseReports(more)
	case "orphan":
		r := recordCalled(more[0])
		closeOrphan(r)
		return fmt.Sprintf("it is %s (%s)\n   %s\n", strings.TrimPrefix(r.GetVerdict().String(), "VERDICT_"), r.GetEnd(),
			r.GetCause().GetComponent()+": "+r.GetCause().GetWhat())
	default:
		return "not understood\n"
	}
	p.noteDone(before, nil)
	return p.step()
}

// savedStateWith is a saved state that holds so much; nil: nothing.
func savedStateWith(what string) *savedState {
	switch what {
	case "configuration":
		return &savedState{}
	case "view":
		return &savedState{View: json.RawMessage("{}")}
	case "run":
		return &savedState{View: json.RawMessage("{}"), Run: 3}
	}
	return nil
}

func (p *adoptPlayer) parseReports(w []string) *ecsrun.Reports {
	what := &ecsrun.Reports{}
	for ; len(w) > 0; w = w[1:] {
		switch w[0] {
		case "going":
			what.Running = transcript.Number(p.t, w[1])
			w = w[1:]
		case "paused":
			what.Paused = transcript.Number(p.t, w[1])
			w = w[1:]
		case "alone":
			what.SelfStop = true
		case "missing":
			what.Missing = []string{"n2"}
		case "held":
			what.SchedulerPaused = true
		default:
			p.t.Fatalf("%q is told by nobody", w[0])
		}
	}
	return what
}

// step is the next step in words.
func (p *adoptPlayer) step() string {
	s := p.nextStep()
	text := s.action.String()
	if s.endCause != "" {
		text += " (" + s.endCause + ")"
	}
	if s.cause != nil {
		text += "\n   " + s.cause.Component + ": " + s.cause.What
	}
	return text + "\n"
}

// Every step is in a transcript, and every one comes to an end, whatever is found and whatever fails.
func TestAdoptionEnds(t *testing.T) {
	reached := [adoptActionCount]bool{}
	for _, holds := range []string{"nothing", "configuration", "view", "run"} {
		for _, rec := range []string{"open", "begun", "stopped", "abandoned", "struck", "closed"} {
			for reports := range 32 {
				for fails := range adoptActionCount + 1 {
					if fails == adoptOffline { // it is where the machine is
						continue
					}
					a := adoption{}
					for n := 0; ; n++ {
						step := a.nextStep()
						reached[step.action] = true
						var err error
						switch step.action {
						case fails:
							err = errFails
						case adoptRecall:
							a.saved = savedStateWith(holds)
						case adoptReadRecord:
							a.record = recordCalled(rec)
						case adoptTakeUp:
							a.reports = &ecsrun.Reports{
								Running:         reports & 1,
								Paused:          reports >> 1 & 1,
								SchedulerPaused: reports>>2&1 == 1,
							}
							if reports>>3&1 == 1 {
								a.reports.Missing = []string{"n2"}
							}
							if reports>>4 == 1 {
								a.reports.SelfStop = true
							}
						default:
							a.nodeStates = [][]string{{"Ready", "Ready"}, {"Ready", ""}, {"NotReady", "NotReady"}}[reports%3]
						}
						if a.noteDone(step.action, err); err == nil && step.action.isLast() {
							break
						}
						if n > int(adoptActionCount) {
							t.Fatalf("%s, %s, told %b, %v fails: it goes round at %v", holds, rec, reports, fails, step.action)
						}
					}
				}
			}
		}
	}
	for act, is := range reached {
		if !is {
			t.Errorf("nothing led to: %v", adoptAction(act))
		}
	}
	if r := recordCalled("closed"); !record.IsClosed(r) {
		t.Error("the record that is called closed is not")
	}
}
