package figures

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"

	"golang.org/x/sync/errgroup"

	"ringlet/lab/trial"
	"ringlet/sim/study"
)

//go:embed *.yaml
var files embed.FS

// measuredText has the running system's figures: answers.json of the sweep lab/sweeps/figures.yaml (`make measured`).
//
//go:embed measured.json
var measuredText []byte

// All lists the figures in the order of their ids. An error is a mistake in the embedded files, which tests find.
func All() ([]*study.Study, error) {
	names, err := fs.Glob(files, "F*.yaml")
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var all []*study.Study
	for _, name := range names {
		s, err := study.Parse(files, name)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	var found trial.Answers
	if err := json.Unmarshal(measuredText, &found); err != nil {
		return nil, fmt.Errorf("figures: measured.json: %w", err)
	}
	return all, attachMeasurements(all, &found)
}

// attachMeasurements adds its measurements to each figure.
func attachMeasurements(all []*study.Study, found *trial.Answers) error {
	for i := range found.Answers {
		a := &found.Answers[i]
		of := slices.IndexFunc(all, func(s *study.Study) bool { return s.ID == a.FigureID })
		if of < 0 {
			return fmt.Errorf("figures: measured.json: there is no figure %q", a.FigureID)
		}
		all[of].Measured = append(all[of].Measured, study.Measurement{
			What:    a.Text(),
			Is:      a.MeasuredText,
			Verdict: a.Verdict,
			Why:     a.Why,
			By:      found.Command,
			On:      found.Conditions,
		})
	}
	return nil
}

// Pick keeps the figures with the ids, if any; with headline only headline figures; with quick no slow ones.
func Pick(all []*study.Study, ids []string, headline, quick bool) ([]*study.Study, error) {
	for _, id := range ids {
		if !slices.ContainsFunc(all, func(s *study.Study) bool { return s.ID == id }) {
			return nil, fmt.Errorf("there is no figure %q; they are %s to %s", id, all[0].ID, all[len(all)-1].ID)
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(s *study.Study) bool {
		return len(ids) > 0 && !slices.Contains(ids, s.ID) || headline && s.Headline == 0 || quick && s.Slow
	}), nil
}

// Verdicts on a figure, from the best to the worst; the last ones have no simulation.
const (
	verdictHolds      = study.VerdictHolds   // each expectation holds
	verdictRanges     = study.VerdictInRange // each holds, or lies within the range of the cases
	verdictPartial    = "partly"             // some hold
	verdictDiffers    = study.VerdictDiffers // none holds
	verdictFailed     = "failed"             // the model could not answer
	verdictTruncated  = "not run to its end"
	verdictNotRun     = "interrupted" // interrupted before its turn
	verdictUnknown    = "not given"   // the document lacks a parameter
	verdictRealSystem = "real system" // only a running system can answer
)

// An Answer is a model's answer to a figure.
type Answer struct {
	Study   *study.Study
	Outcome study.Outcome
	Judged  []study.JudgedExpectation
	Verdict string
	Err     error
}

// Run has the models answer, several at a time, and reports each answer. After an interruption it returns the answers
// so far.
func Run(ctx context.Context, studies []*study.Study, models []study.Model, workers int,
	report func(*Answer)) []Answer {
	answers := make([]Answer, len(studies))
	answered := make(chan *Answer, len(studies))
	var g errgroup.Group
	g.SetLimit(max(1, workers))
	for i, s := range studies {
		answers[i] = Answer{Study: s, Verdict: verdictNotRun}
		g.Go(func() error {
			if ctx.Err() == nil {
				answers[i].run(ctx, models)
			}
			answered <- &answers[i]
			return nil
		})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range studies {
			report(<-answered)
		}
	}()
	_ = g.Wait() // no worker returns an error: answers have them
	<-done
	return answers
}

// run has the model answer, and judges the answer.
func (a *Answer) run(ctx context.Context, models []study.Model) {
	if a.Study.Model == "" {
		a.Verdict = verdictUnknown
		if a.Study.Kind == study.KindReal {
			a.Verdict = verdictRealSystem
		}
		return
	}
	a.Outcome, a.Err = a.Study.Run(ctx, models, study.Env{})
	switch {
	case ctx.Err() != nil: // half a run says nothing about the figure
		a.Verdict, a.Outcome, a.Err = verdictTruncated, study.Outcome{}, nil
		return
	case a.Err != nil:
		a.Verdict = verdictFailed
		return
	}
	a.Judged = a.Study.Judge(a.Outcome)
	of := map[string]int{}
	for _, j := range a.Judged {
		of[j.Verdict]++
	}
	switch {
	case of[study.VerdictHolds] == len(a.Judged):
		a.Verdict = verdictHolds
	case of[study.VerdictHolds]+of[study.VerdictInRange] == len(a.Judged):
		a.Verdict = verdictRanges
	case of[study.VerdictHolds]+of[study.VerdictInRange] > 0:
		a.Verdict = verdictPartial
	default:
		a.Verdict = verdictDiffers
	}
}

// count lists the verdicts with the number of answers of each.
func count(answers []Answer) string {
	text := ""
	for _, v := range []string{
		verdictHolds, verdictRanges, verdictPartial, verdictDiffers, verdictFailed, verdictTruncated, verdictNotRun,
		verdictUnknown, verdictRealSystem,
	} {
		n := 0
		for i := range answers {
			if answers[i].Verdict == v {
				n++
			}
		}
		if n > 0 {
			text += fmt.Sprintf(", %d %s", n, v)
		}
	}
	return fmt.Sprintf("%d figures", len(answers)) + text
}
