package study_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"ringlet/sim"
	"ringlet/sim/study"
	"ringlet/testkit/must"
)

// echoModel gives back what it was asked for.
var echoModel = study.Model{Name: "echo", Run: func(_ context.Context, p *study.Params, _ study.Env) (study.Outcome,
	error) {
	var out study.Outcome
	delay, nodes, rate := p.Time("delay"), p.Int("nodes", 1, 100), p.Quantity("rate", study.Rate)
	sizes, kind := p.Sizes("sizes", 1, 1<<20), p.Word("kind", "ring", "torus")
	if err := p.Err(); err != nil {
		return out, err
	}
	out.Add("delay", study.Q(delay.Seconds(), study.Time))
	out.Add("nodes", study.Q(float64(nodes), study.Count))
	out.Add("rate", study.Q(rate, study.Rate))
	out.Add("all", study.Q(float64(sizes[0]+sizes[1]), study.Bytes))
	out.Add("loss", study.Share(-0.06))
	if kind == "torus" {
		out.Notes = append(out.Notes, kind)
	}
	return out, nil
}}

const good = `
id: F01
model: echo
includes: [common.yaml]
parameters:
  - {name: delay, is: 1.4 µs, from: "L1-farm:1303"}
  - {name: nodes, is: "30", chosen: a small farm}
  - {name: sizes, is: "1 KiB, 24 B", from: "L1-farm:1"}
  - {name: kind, is: torus, from: "L1-farm:2"}
`

const common = `
parameters:
  - {name: rate, is: 1.38 MHz, fitted: F02}
  - {name: delay, is: 9 s, from: "L1-farm:9"}
  - {name: nobody-asks, is: "1", from: "L1-farm:9"}
`

// parsed reads a study with the common file beside it.
func parsed(t *testing.T, text string) (*study.Study, error) {
	t.Helper()
	files := fstest.MapFS{"s.yaml": {Data: []byte(text)}, "common.yaml": {Data: []byte(common)}}
	return study.Parse(files, "s.yaml")
}

// run lets echo answer.
func run(t *testing.T, text string) (*study.Study, study.Outcome, error) {
	t.Helper()
	s, err := parsed(t, text)
	if err != nil {
		return nil, study.Outcome{}, err
	}
	out, err := s.Run(t.Context(), []study.Model{echoModel}, study.Env{})
	return s, out, err
}

func TestAModelIsAsked(t *testing.T) {
	_, out, err := run(t, good)
	must.OK(t, err)
	said := map[string]string{}
	for _, r := range out.Results {
		said[r.Name] = r.Quantity.String()
	}
	want := map[string]string{
		"delay": "1.4 µs",
		"nodes": "30",
		"rate":  "1.38 MHz",
		"all":   "1.048 kB",
		"loss":  "-6 %",
	}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Error(diff)
	}
	if len(out.Notes) != 1 {
		t.Errorf("notes %q", out.Notes)
	}
}

func TestExpectationsAreJudged(t *testing.T) {
	for expected, verdict := range map[string]string{
		"name: rate, is: 1.3 MHz":                    "holds +6.2 %",
		"name: rate, is: 1.2 MHz":                    "differs +15.0 %",
		"name: rate, is: 1.2 MHz, within: 20 %":      "holds +15.0 %",
		"name: loss, is: 0 %, within: 7 points":      "holds -6.0 points",
		"name: rate, at-least: 1.38 MHz":             "holds +0.0 %",
		"name: rate, at-most: 1 kHz":                 "differs +137900.0 %",
		"name: loss, is: -7 %, within: 2 points":     "holds +1.0 points",
		"name: loss, is: -9 %, within: 2 points":     "differs +3.0 points",
		"name: loss, is: 1 %, within: 10 points":     "differs -7.0 points", // the other sign
		"name: nodes, above: loss":                   "holds +50100.0 %",
		"name: loss, above: nodes":                   "differs -100.2 %",
		"name: nodes, below: rate":                   "differs ", // not of one kind
		"name: speed, is: 3 m, from: nobody says it": "",
		"name: speed, is: 3 B/s":                     "no result ",
		"name: rate, above: speed":                   "no result ",
	} {
		s, out, err := run(t, good+"expected:\n  - {"+expected+"}\n")
		if verdict == "" {
			if err == nil {
				t.Errorf("%s: taken", expected)
			}
			continue
		}
		must.OK(t, err)
		j := s.Judge(out)
		if len(j) != 1 || j[0].Verdict+" "+j[0].Deviation != verdict {
			t.Errorf("%s: %+v, expected %q", expected, j, verdict)
		}
	}
}

// TestCases: the model is played with each case, too, and a study is judged by all that come out.
func TestCases(t *testing.T) {
	const cases = `
cases:
  - what: slower
    parameters: [{name: rate, is: 1 MHz}]
  - what: slower, from afar
    parameters: [{name: rate, is: 1.2 MHz, fitted: F02}, {name: delay, is: 2 µs}]
`
	for expected, want := range map[string]string{
		"name: rate, is: 1.3 MHz":     "in range, 1 MHz to 1.38 MHz: holds differs holds",
		"name: rate, is: 1.1 MHz":     "in range, 1 MHz to 1.38 MHz: differs holds holds",
		"name: rate, is: 2 MHz":       "differs, 1 MHz to 1.38 MHz: differs differs differs",
		"name: rate, at-least: 1 MHz": "holds, 1 MHz to 1.38 MHz: holds holds holds",
		"name: delay, at-most: 1 µs":  "differs, 1.4 µs to 2 µs: differs differs differs",
		"name: nodes, is: 30":         "holds, : holds holds holds",
	} {
		s, out, err := run(t, good+cases+"expected: [{"+expected+"}]\n")
		must.OK(t, err)
		j := s.Judge(out)[0]
		alone := s.Judge(study.Outcome{Results: out.Results})[0]
		got := j.Verdict + ", " + j.Range + ": " + alone.Verdict
		for _, c := range j.Cases {
			got += " " + c.Verdict
		}
		if got != want {
			t.Errorf("%s: %q, expected %q", expected, got, want)
		}
	}
}

func TestWhatIsWrongWithAFileIsSaid(t *testing.T) {
	replaced := func(old, by string) string { return strings.Replace(good, old, by, 1) }
	varied := func(p string) string { return good + "cases: [{what: a, parameters: [{" + p + "}]}]\n" }
	for text, sentence := range map[string]string{
		replaced("model: echo\n", ""):                        "s.yaml:1: model: is missing: name the model that answers",
		replaced("echo", "ecco"):                             `s.yaml:3: model: "ecco" is none of the models: echo`,
		replaced("name: delay", "name: dealy"):               "dealy: the model echo does not read it",
		replaced("1.4 µs", "1.4 MHz"):                        "s.yaml:6: parameters[0]: delay: 1.4 MHz is not in s",
		replaced("1.4 µs", "-1 s"):                           "delay: is negative",
		replaced("1.4 µs", "1 fortnight"):                    `"1 fortnight" has the unit "fortnight"`,
		replaced("1.4 µs", "soon"):                           `"soon" is no number with a unit`,
		replaced("1.4 µs", "\"1 s, 2 s\""):                   "delay: has 2 values where the model echo takes one",
		replaced(`"30"`, `"30.5"`):                           "nodes: 30.5 is no whole number between 1 and 100",
		replaced(`"30"`, `"101"`):                            "nodes: 101 is no whole number between 1 and 100",
		replaced("is: torus", "is: tours"):                   `kind: "tours" is none of ring, torus`,
		replaced("common.yaml", "none.yaml"):                 "includes[0]: open none.yaml: file does not exist",
		replaced("includes: [common.yaml]", ""):              "rate is missing: the model echo needs it",
		replaced(", chosen: a small farm", ""):               "parameters[1]: says where its value comes from by one of",
		replaced("id: F01", "id: F02"):                       "includes[0]: rate is fitted to F02, the figure it is",
		replaced("chosen: a small farm", "fitted: F01"):      "is F01, the figure it is judged by",
		replaced("name: nodes", "name: delay"):               `"delay" is given twice`,
		good + "kind: dream\n":                               "kind: ",
		good + "expected: [{name: rate}]\n":                  "gives one of is, at-least, at-most, above and below",
		good + "expected: [{is: 3 s}]\n":                     "needs the name of a result",
		good + "expected: [{name: a, is: 3, within: 2 s}]\n": "within: is a share such as 10 %",
		good + "cases: [{what: a}]\n":                        "cases[0]: needs what it is, and the parameters",
		varied("name: rat, is: 1 Hz"):                        "rat is no parameter of the study",
		varied("name: rate, is: 1 s"):                        "cases[0].parameters[0]: rate: 1 s is not in Hz",
		varied("name: rate, is: 1 Hz, fitted: F01"):          "is F01, the figure it is judged",
		good + "surprise: 1\n":                               "there is no such setting",
	} {
		if _, _, err := run(t, text); err == nil || !strings.Contains(err.Error(), sentence) {
			t.Errorf("%v\n expected %q", err, sentence)
		}
	}
}

func TestQuantities(t *testing.T) {
	for text, want := range map[string]string{
		"60 ns": "60 ns", "0.06 µs": "0.06 µs", "2.15MHz": "2.15 MHz", "1e3 Hz": "1000 Hz", "26": "26", "-6 %": "-6 %",
		"287 MiB/s": "287 MiB/s", "1.5e-9 s": "1.5e-09 s", "32 Tbit/s": "32 Tbit/s", "324 /s": "324 /s",
	} {
		var q study.Quantity
		must.OK(t, q.UnmarshalText([]byte(text)))
		if q.String() != want {
			t.Errorf("%q is written %q, expected %q", text, q, want)
		}
	}
	for q, want := range map[study.Quantity]string{
		study.Q(2.67e-6, study.Time):         "2.67 µs",
		study.Q(9999e-10, study.Time):        "999.9 ns",
		study.Q(0, study.Time):               "0 ps",
		study.Q(31e6, study.Rate):            "31 MHz",
		study.Q(4e12, study.Bandwidth):       "4000 GB/s",
		study.Q(float64(12345), study.Count): "12345",
		study.Q(sim.Second.Seconds(), "s"):   "1 s",
	} {
		if q.String() != want {
			t.Errorf("%v is written %q, expected %q", q.Value, q, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(good)
	f.Add(good + "expected: [{name: rate, is: 3 Hz, within: 3 %}]\n")
	f.Fuzz(func(t *testing.T, text string) {
		if s, out, err := run(t, text); err == nil {
			s.Judge(out)
		}
	})
}

// TestInside: who looks into a run sees what waits, and histograms, of the first simulations; the first one is traced.
func TestInside(t *testing.T) {
	var trace bytes.Buffer
	traced, observed := 0, 0
	m := study.Model{Name: "m", Run: func(ctx context.Context, _ *study.Params, env study.Env) (study.Outcome, error) {
		for range 10 {
			s := env.Sim()
			waits, h := int64(0), &sim.Histogram{}
			if s.InstrumentsEnabled() {
				observed++
				s.Watch("waits", sim.Microsecond, func() int64 { return waits })
				s.AddHistogram("took", h)
				s.AddHistogram("never", &sim.Histogram{})
			}
			if s.Trace() != nil {
				traced++
			}
			for i := range 1000 {
				s.ScheduleAt(sim.Time(i)*sim.Microsecond, sim.Func(func(n,
					_ int64) {
					waits = n
					h.Add(n * n * int64(sim.Nanosecond))
				}),
					int64(i), 0)
			}
			s.Run(ctx, env.Limits(0))
		}
		return study.Outcome{}, nil
	}}
	s, err := study.Parse(fstest.MapFS{"s": {Data: []byte("{id: a, model: m}")}}, "s")
	must.OK(t, err)
	out, err := s.Run(t.Context(), []study.Model{m}, study.Env{Trace: sim.NewTrace(&trace, 10),
		Details: &study.SimDetails{}})
	must.OK(t, err)
	if observed != 8 || traced != 1 || len(out.Plots) != 9 {
		t.Fatalf("%d observed, %d traced, %d plots", observed, traced, len(out.Plots))
	}
	for i, p := range out.Plots {
		last := p.Curves[0].Points[len(p.Curves[0].Points)-1]
		switch sum := 0.0; {
		case i < 8:
			for _, at := range p.Curves[0].Points {
				sum += at[1]
			}
			if sum < 0.999 || sum > 1.001 || last[1] == 0 || len(p.Curves[0].Points) > 49 {
				t.Errorf("%s: shares of %v in all, %v at the end", p.Curves[0].Name, sum, last)
			}
		case len(p.Curves) != 8 || last[0] > 1000 || last[1] < 990:
			t.Errorf("%d curves, the end of the first is %v", len(p.Curves), last)
		}
	}
	if out, err = s.Run(t.Context(), []study.Model{m}, study.Env{}); err != nil || observed != 8 || len(out.Plots) != 0 {
		t.Errorf("%v, %d observed, %d plots where nobody looks", err, observed, len(out.Plots))
	}
}
