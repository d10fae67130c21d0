package fsm

import (
	"fmt"
	"strings"
	"testing"

	"ringlet/testkit/transcript"
)

// TestTranscripts plays testdata/*.txt. Every file begins with the component
// bu1, Offline.
//
//	load … recover           a command
//	done, timeout            the present transition is done, or out of time
//	done #N, timeout #N      transition N is
//	moved, moved #N          the work of the present transition, or of N, gets further
//	failed WORDS             the present transition fails
//	fault WORDS              something breaks
//	degraded WORDS           and restored, included, excluded: the flags
//	in STATE                 begin anew in this state, transition #1 being the last
func TestTranscripts(t *testing.T) {
	transcript.Play(t, func(t *testing.T) transcript.Answer {
		var s Status
		return func(line string) string {
			var out strings.Builder
			s = playLine(t, &out, s, line)
			return out.String()
		}
	})
}

func playLine(t *testing.T, out *strings.Builder, s Status, line string) Status {
	if name, ok := strings.CutPrefix(line, "in "); ok {
		state, err := ParseState(name)
		if err != nil {
			t.Fatal(err)
		}
		begun := Status{State: state, Seq: 1}
		if row, ok := transitionVia(state); ok {
			begun.Command = row.Command
		}
		return begun
	}
	next, actions, err := machine{Component: "bu1"}.step(s, parseInput(t, s, line))
	fmt.Fprintf(out, "%s → %s\n", s.State, next.State)
	if err != nil {
		fmt.Fprintf(out, "  refused: %v\n", err)
	}
	if len(actions) > 0 {
		words := make([]string, len(actions))
		for i, a := range actions {
			words[i] = a.String()
		}
		fmt.Fprintf(out, "  %s\n", strings.Join(words, ", "))
	}
	for _, c := range []struct {
		name        string
		before, now Cause
	}{{"cause", s.Cause, next.Cause}, {"degraded", s.Degraded, next.Degraded}, {"forced", s.Forced, next.Forced}} {
		if c.before != c.now {
			fmt.Fprintf(out, "  %s: %v\n", c.name, c.now)
		}
	}
	if s.Included != next.Included {
		fmt.Fprintf(out, "  included: %v\n", next.Included)
	}
	if next.Faults > 1 && next.Faults != s.Faults {
		fmt.Fprintf(out, "  faults: %d\n", next.Faults)
	}
	return next
}

func parseInput(t *testing.T, s Status, line string) input {
	if c, err := ParseCommand(line); err == nil {
		return commandInput(c)
	}
	word, rest, _ := strings.Cut(line, " ")
	why := Cause{What: rest}
	seq := s.Seq
	if strings.HasPrefix(rest, "#") {
		if _, err := fmt.Sscanf(rest, "#%d", &seq); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
	}
	switch word {
	case "done":
		return doneInput(seq)
	case "timeout":
		return timeoutInput(seq)
	case "moved":
		return progressInput(seq)
	case "failed":
		return failedInput(seq, why)
	case "fault":
		return faultInput(why)
	case "degraded":
		return degradeInput(why)
	case "restored":
		return restoreInput()
	case "included", "excluded":
		return includeInput(word == "included")
	}
	t.Fatalf("unknown input %q", line)
	return input{}
}
