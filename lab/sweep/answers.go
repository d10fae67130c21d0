package sweep

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"ringlet/lab/trial"
)

// answers are the measured answers to figures of the founding documents, if bounds of the file are about such figures.
func (r *results) answers() (trial.Answers, bool) {
	if len(r.Starts) == 0 {
		return trial.Answers{}, false
	}
	last := r.Starts[len(r.Starts)-1]
	rounds := r.rounds()
	out := trial.Answers{
		Command: last.Command,
		Conditions: fmt.Sprintf("%d cores of %s, %s, %s, %s", last.Machine.Cores, last.Machine.CPU, turns(len(rounds)),
			r.otherLoad(), last.Started.UTC().Format(time.DateOnly)),
		Answers: rounds.Answers(last.Bounds),
	}
	return out, len(out.Answers) > 0
}

func turns(rounds int) string {
	if rounds == 1 {
		return "one round"
	}
	return fmt.Sprintf("medians of %d rounds", rounds)
}

// otherLoad says how many processors other programs used meanwhile.
func (r *results) otherLoad() string {
	var cpus []float64
	for i := range r.Runs {
		if n := r.Runs[i].OtherCPUs; n != nil {
			cpus = append(cpus, *n)
		}
	}
	for i := range r.References {
		if n := r.References[i].OtherCPUs; n != nil {
			cpus = append(cpus, *n)
		}
	}
	if len(cpus) == 0 {
		return "the load of other programs is not known"
	}
	s := trial.SpreadOf(cpus)
	return fmt.Sprintf("other programs used %.2f cores (%.2f to %.2f)", s.Median, s.Min, s.Max)
}

// writeAnswers writes answers.json, or nothing if the file answers no figure.
func writeAnswers(w io.Writer, r *results) error {
	all, any := r.answers()
	if !any {
		return nil
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(all)
}
