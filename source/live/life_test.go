package live

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"ringlet/testkit/transcript"
)

// TestTranscripts plays testdata/*.txt, each with a source of its own.
//
//	attached, attached and follows   a front-end attaches
//	gone                             it is gone
//	wants COMMAND                    the run wants the source there
//	ready #N, done #N                it replies to ticket N
//	failed #N WORDS                  likewise, and says why
//	over                             it declares the end of its data
//	stored, taken                    fragments of it wait to be taken, or none does
func TestTranscripts(t *testing.T) {
	transcript.Play(t, func(t *testing.T) transcript.Answer {
		var l Life
		var stored bool
		return func(line string) string {
			if line == "stored" || line == "taken" {
				stored = line == "stored"
				return describeLife(l.Status(stored))
			}
			return describeStep(&l, parseLifeInput(t, line), stored)
		}
	})
}

// describeStep gives a life an input, and says what it answers and how far it is.
func describeStep(l *Life, in LifeInput, stored bool) string {
	var out strings.Builder
	for _, c := range l.Step(in) {
		fmt.Fprintf(&out, "%v #%d\n", c.Command, c.Ticket)
	}
	return out.String() + describeLife(l.Status(stored))
}

// describeLife says how far a source is.
func describeLife(s LifeStatus) string {
	out := fmt.Sprintf("wanted %v: ", s.Wanted)
	if !s.Arrived {
		out += "not "
	}
	out += "there"
	if s.Untaken {
		out += ", its last fragments are not taken"
	}
	if s.Failed != "" {
		out += ", failed: " + s.Failed
	}
	return out + "\n"
}

func parseLifeInput(t *testing.T, line string) (in LifeInput) {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "attached":
		return LifeInput{Event: FrontendAttached, Follows: rest == "and follows"}
	case "gone":
		return LifeInput{Event: FrontendGone}
	case "over":
		return LifeInput{Event: FrontendOver}
	case "wants":
		for c := Prepare; c <= End; c++ {
			if c.String() == rest {
				return LifeInput{Event: RunWants, Command: c}
			}
		}
	case "ready", "failed", "done":
		in.Event = FrontendReplied
		in.Reply = map[string]Reply{"ready": ReplyReady, "failed": ReplyFailed, "done": ReplyDone}[word]
		ticket, why, _ := strings.Cut(rest, " ")
		in.Why = why
		if _, err := fmt.Sscanf(ticket, "#%d", &in.Ticket); err == nil {
			return in
		}
	}
	t.Fatalf("no input: %s", line)
	return in
}

// TestLife holds, over random lives, what a front-end may rely on: the first command of a connection is Prepare, or End
// if the run ends; Begin comes once, and only to one that is ready for Prepare; Pause and Resume take turns; nothing
// follows End; a front-end that does not follow the run hears nothing; tickets grow; and a front-end that answers all
// is where the run wants it.
func TestLife(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l Life
		var attached, follows, ready bool
		var given []TicketedCommand // in this connection
		var last uint64
		step := func(in LifeInput) {
			for _, c := range l.Step(in) {
				if !attached || !follows {
					t.Fatalf("%v is told to nobody", c.Command)
				}
				if c.Ticket <= last {
					t.Fatalf("ticket %d follows %d", c.Ticket, last)
				}
				last = c.Ticket
				if err := mayFollow(given, c.Command, ready); err != nil {
					t.Fatal(err)
				}
				given = append(given, c)
			}
		}
		wanted := Prepare
		t.Repeat(map[string]func(*rapid.T){
			"attach": func(t *rapid.T) {
				if attached {
					return
				}
				attached, follows, ready, given = true, rapid.Bool().Draw(t, "follows"), false, nil
				step(LifeInput{Event: FrontendAttached, Follows: follows})
			},
			"gone": func(*rapid.T) {
				attached, follows, given = false, false, nil
				step(LifeInput{Event: FrontendGone})
			},
			"want": func(t *rapid.T) {
				c := rapid.SampledFrom([]Command{Prepare, Begin, Pause, Resume, End, 0, 9}).Draw(t, "command")
				if c == Resume {
					step(LifeInput{Event: RunWants, Command: c})
					c = Begin
				} else {
					step(LifeInput{Event: RunWants, Command: c})
				}
				if c > Prepare && c <= End && wanted != End {
					wanted = c
				}
			},
			"reply": func(t *rapid.T) {
				ticket := rapid.Uint64Range(0, last+2).Draw(t, "ticket")
				reply := rapid.SampledFrom([]Reply{ReplyReady, ReplyFailed, ReplyDone}).Draw(t, "reply")
				if len(given) > 0 && ticket == given[0].Ticket && reply == ReplyReady && given[len(given)-1].Ticket == ticket {
					ready = true
				}
				step(LifeInput{Event: FrontendReplied, Ticket: ticket, Reply: reply, Why: "x"})
			},
			"answer all": func(*rapid.T) {
				for n := -1; n != len(given); {
					if n = len(given); n == 0 {
						break
					}
					reply := ReplyReady
					if given[n-1].Command == End {
						reply = ReplyDone
					}
					ready = true
					step(LifeInput{Event: FrontendReplied, Ticket: given[n-1].Ticket, Reply: reply})
				}
				if s := l.Status(false); attached && follows && (!s.Arrived || s.Wanted != wanted) {
					t.Fatalf("all is answered, and the source is at %+v, wanted %v after %v", s, wanted, given)
				}
			},
			"": func(t *rapid.T) {
				if s := l.Status(false); s.Attached != attached || s.Wanted != wanted {
					t.Fatalf("status %+v, attached %v, wanted %v", s, attached, wanted)
				}
			},
		})
	})
}

// mayFollow says why a command may not follow those given before in a connection; nil if it may. ready: the front-end
// was ready for Prepare.
func mayFollow(given []TicketedCommand, c Command, ready bool) error {
	begun, before := false, Command(0)
	for _, g := range given {
		begun, before = begun || g.Command == Begin, g.Command
	}
	switch {
	case before == End:
	case c == End:
		return nil
	case before == 0 && c == Prepare:
		return nil
	case !ready:
	case c == Begin && !begun, c == Pause && begun && before != Pause, c == Resume && before == Pause:
		return nil
	}
	return fmt.Errorf("%v may not follow %v, ready %v", c, given, ready)
}
