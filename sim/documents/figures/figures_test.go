package figures_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"ringlet/sim/documents/figures"
	"ringlet/sim/documents/model"
	"ringlet/sim/study"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// results is what a release says of all figures: sim/documents/results/figures.json, made by `make figures`.
const results = "../results/figures.json"

func all(t *testing.T) []*study.Study {
	t.Helper()
	all, err := figures.All()
	must.OK(t, err)
	return all
}

// TestEachFigureIsWhole: a file has the id in its name, a title and a place, and each expectation the line it is from.
func TestEachFigureIsWhole(t *testing.T) {
	names, err := os.ReadDir(".")
	must.OK(t, err)
	files := 0
	for _, n := range names {
		if strings.HasPrefix(n.Name(), "F") && strings.HasSuffix(n.Name(), ".yaml") {
			files++
		}
	}
	known := map[string]bool{}
	for _, s := range all(t) {
		if known[s.ID] = true; s.ID == "" || s.Title == "" || s.Place == "" {
			t.Errorf("%s %q lacks an id, a title or a place", s.ID, s.Title)
		}
		if _, err := os.Stat(s.ID + ".yaml"); err != nil {
			t.Errorf("%s: %v", s.ID, err)
		}
		for _, e := range s.Expected {
			if e.From == "" {
				t.Errorf("%s: %s does not say from which line it is", s.ID, e.Name)
			}
		}
	}
	if len(known) != files {
		t.Errorf("%d ids in %d files", len(known), files)
	}
}

// TestEachFigureThatDoesNotHoldSaysWhy: it names what its document lacks or contradicts.
func TestEachFigureThatDoesNotHoldSaysWhy(t *testing.T) {
	text, err := os.ReadFile(results)
	must.OK(t, err)
	var committed []struct{ ID, Verdict, Why string }
	must.OK(t, json.Unmarshal(text, &committed))
	for _, f := range committed {
		switch f.Verdict {
		case figures.Holds, figures.RealSystem:
		default:
			if f.Why == "" {
				t.Errorf("%s is %q, and says nothing of what is missing", f.ID, f.Verdict)
			}
		}
	}
}

// TestEachFigureOfTheRunningSystemIsMeasured: a bound of the sweep behind `make measured` is about each, and what it
// does not reach is explained.
func TestEachFigureOfTheRunningSystemIsMeasured(t *testing.T) {
	sweep, err := os.ReadFile("../../../lab/sweeps/figures.yaml")
	must.OK(t, err)
	for _, s := range all(t) {
		hasMeasurement := bytes.Contains(sweep, []byte("answers: "+s.ID+","))
		if s.Kind != study.KindSim && !hasMeasurement {
			t.Errorf("%s is %s, and no bound of lab/sweeps/figures.yaml answers it", s.ID, s.Kind)
		}
		for _, m := range s.Measured {
			if m.Verdict == "not reached" && m.Why == "" {
				t.Errorf("%s: %s is %s, and nothing says why that is not reached", s.ID, m.What, m.Is)
			}
		}
	}
}

// TestResultsAreOfTheCode: what is committed is what the quick figures give now, byte for byte.
func TestResultsAreOfTheCode(t *testing.T) {
	if testing.Short() {
		t.Skip("the models have one goroutine each, and their own tests")
	}
	studies, err := figures.Pick(all(t), nil, false, true)
	must.OK(t, err)
	text, err := os.ReadFile(results)
	must.OK(t, err)
	var committed []map[string]any
	must.OK(t, json.Unmarshal(text, &committed))
	of := map[string]map[string]any{}
	for _, f := range committed {
		of[f["id"].(string)] = f
	}
	if len(of) != len(all(t)) {
		t.Errorf("%d figures are in %s, of %d: run `make figures`", len(of), results, len(all(t)))
	}
	var now bytes.Buffer
	must.OK(t, figures.WriteJSON(&now, figures.Run(t.Context(), studies, model.All(), 2, func(*figures.Answer) {})))
	var each []map[string]any
	must.OK(t, json.Unmarshal(now.Bytes(), &each))
	for _, f := range each {
		if diff := cmp.Diff(of[f["id"].(string)], f); diff != "" {
			t.Errorf("%s is not what %s says: run `make figures` and look at the difference\n%s", f["id"], results, diff)
		}
	}
}

// answers are one of each verdict.
func answers(ctx context.Context, t *testing.T) []figures.Answer {
	t.Helper()
	ten := study.Model{Name: "ten", Run: func(context.Context, *study.Params, study.Env) (study.Outcome, error) {
		out := study.Outcome{Plots: []study.Plot{{Name: "p", Curves: []study.Curve{{Points: [][2]float64{{1, 10}}}}}}}
		out.Add("n", study.Q(10, study.Count))
		return out, nil
	}}
	shape := study.Model{Name: "shape", Run: func(_ context.Context, p *study.Params, _ study.Env) (study.Outcome, error) {
		out := study.Outcome{}
		out.Add("n", study.Q(p.Number("n"), study.Count))
		return out, nil
	}}
	broken := study.Model{Name: "broken", Run: func(context.Context, *study.Params, study.Env) (study.Outcome, error) {
		return study.Outcome{}, errors.New("it <broke>")
	}}
	var studies []*study.Study
	for _, text := range []string{
		"{id: a, model: ten, expected: [{name: n, is: 10.5, plot: p, x: 1}]}",
		"{id: b, model: ten, expected: [{name: n, is: 10}, {name: n, is: 20}]}",
		"{id: c, model: ten, expected: [{name: n, is: 20}]}",
		"{id: g, model: shape, parameters: [{name: n, is: 1, chosen: so}], expected: [{name: n, is: 2}], " +
			"cases: [{what: a <larger> one, parameters: [{name: n, is: 3}]}]}",
		"{id: d, model: broken}",
		"{id: e, missing: the size of the buffers}",
		"{id: f, kind: real}",
	} {
		s, err := study.Parse(fstest.MapFS{"s": {Data: []byte(text)}}, "s")
		must.OK(t, err)
		studies = append(studies, s)
	}
	studies[len(studies)-1].Measured = []study.Measurement{
		{What: "rate", Is: "3 MHz", Verdict: "beaten", By: "make it", On: "a machine"},
		{What: "time", Is: "9 µs", Verdict: "not reached", Why: "a <kernel> is in between", By: "make it", On: "a machine"},
	}
	return figures.Run(ctx, studies, []study.Model{ten, shape, broken}, 2, func(*figures.Answer) {})
}

func TestVerdicts(t *testing.T) {
	got := answers(t.Context(), t)
	var verdicts []string
	for _, a := range got {
		verdicts = append(verdicts, a.Verdict)
	}
	want := []string{
		figures.Holds, figures.Partial, figures.Differs, figures.Ranges, figures.Failed, figures.Unknown, figures.RealSystem,
	}
	if diff := cmp.Diff(want, verdicts); diff != "" {
		t.Error(diff)
	}
	const sums = "7 figures, 1 holds, 1 in range, 1 partly, 1 differs, 1 failed, 1 not given, 1 real system"
	if said := figures.Count(got); said != sums {
		t.Error(said)
	}
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	for _, a := range answers(interrupted, t) {
		if a.Verdict != figures.NotRun {
			t.Errorf("%s %s after an interrupt", a.Study.ID, a.Verdict)
		}
	}
}

// TestCutShort: a figure in whose middle the interruption came is not judged by half a run, whether the model gives
// what it has or an error; one whose turn did not come says that.
func TestCutShort(t *testing.T) {
	var ctx context.Context
	var cancel context.CancelFunc
	half := study.Model{Name: "half", Run: func(ctx context.Context, _ *study.Params, _ study.Env) (study.Outcome, error) {
		cancel()
		patiently.Hold(ctx.Done())
		out := study.Outcome{}
		out.Add("n", study.Q(10, study.Count))
		return out, nil
	}}
	fails := study.Model{Name: "fails"}
	fails.Run = func(ctx context.Context, p *study.Params, e study.Env) (study.Outcome, error) {
		_, err := half.Run(ctx, p, e)
		return study.Outcome{}, errors.Join(err, errors.New("no packet arrived"))
	}
	for _, m := range []study.Model{half, fails} {
		ctx, cancel = context.WithCancel(t.Context())
		t.Cleanup(cancel)
		file := []byte("{id: a, model: " + m.Name + ", expected: [{name: n, is: 10}]}")
		s, err := study.Parse(fstest.MapFS{"s": {Data: file}}, "s")
		must.OK(t, err)
		got := figures.Run(ctx, []*study.Study{s, s}, []study.Model{m}, 1, func(*figures.Answer) {})
		if got[0].Verdict != figures.Truncated || got[1].Verdict != figures.NotRun || len(got[0].Judged) > 0 ||
			got[0].Err != nil {
			t.Errorf("%s: %+v", m.Name, got)
		}
		var text, one bytes.Buffer
		must.OK(t, figures.WriteText(&text, got))
		if !strings.Contains(text.String(), "2 figures, 1 not run to its end, 1 interrupted") {
			t.Error(text.String())
		}
		must.OK(t, figures.WriteOne(&one, s, study.Outcome{}, true, false))
		if !strings.Contains(one.String(), "not run to its end") || strings.Contains(one.String(), "expected") {
			t.Error(one.String())
		}
	}
}

func TestWritten(t *testing.T) {
	a := answers(t.Context(), t)
	var text, page bytes.Buffer
	must.OK(t, figures.WriteText(&text, a))
	must.OK(t, figures.WritePage(&page, a))
	for _, line := range []string{"a   n     10.5", "-4.8 %", "it <broke>", "the size of the buffers", "1 (1 to 3)",
		"rate 3 MHz (beaten)"} {
		if !strings.Contains(text.String(), line) {
			t.Errorf("%q is not in the table\n%s", line, text.String())
		}
	}
	for _, want := range []string{"it &lt;broke&gt;", "document", "10.5", "a case: a &lt;larger&gt; one",
		"a &lt;kernel&gt; is in between", "make it", "a machine"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("%q is not on the page", want)
		}
	}
}

func TestPick(t *testing.T) {
	if _, err := figures.Pick(all(t), []string{"F999"}, false, false); err == nil {
		t.Error("F999 was found")
	}
	one, err := figures.Pick(all(t), []string{"F70"}, true, true)
	if err != nil || len(one) != 1 {
		t.Errorf("%v, %v", one, err)
	}
}
