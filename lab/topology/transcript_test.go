package topology

import (
	"strings"
	"testing"

	"ringlet/testkit/transcript"
)

// Said to a planner: a topology in one line of YAML, and what is asked of it.
//
//	plan YAML               the plan, as people read it
//	phase N YAML            with the matrix of that phase
//	keep N YAML             with the first N nodes
//	without A,B YAML        without these
//	lost A,B YAML           with dummies in their places
//	order YAML              the proposed order
func TestTranscripts(t *testing.T) {
	transcript.Play(t, func(
		t *testing.T) transcript.Answer {
		return func(command string) string { return answer(t, command) }
	})
}

func answer(t *testing.T, command string) string {
	what, text, _ := strings.Cut(command, " ")
	arg := ""
	if what != "plan" && what != "order" {
		arg, text, _ = strings.Cut(text, " ")
	}
	p, err := planned(t, what, arg, text)
	var b strings.Builder
	switch {
	case err != nil:
		return err.Error() + "\n"
	case what == "order":
		_ = p.WriteOrder(&b)
		return strings.ReplaceAll(strings.TrimSpace(b.String()), "\n", ", ") + "\n"
	}
	_ = p.WriteText(&b)
	return strings.ReplaceAll(b.String(), "\n\n", "\n")
}

func planned(t *testing.T, what, arg, text string) (*Plan, error) {
	top, err := parse("it", strings.NewReader(text))
	opt := Options{MaxConflicts: 3, MatrixPhase: -1}
	if err == nil {
		switch what {
		case "keep":
			err = top.KeepFirst(transcript.Number(t, arg))
		case "without":
			err = top.Without(strings.Split(arg, ",")...)
		case "lost":
			err = top.Lose(strings.Split(arg, ",")...)
		case "phase":
			opt.MatrixPhase = transcript.Number(t, arg)
		}
	}
	if err != nil {
		return nil, err
	}
	return top.NewPlan("it", opt)
}
