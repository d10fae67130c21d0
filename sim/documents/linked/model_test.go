package linked

import (
	"bytes"
	"context"
	"testing"

	"ringlet/sim"
	"ringlet/sim/study"
	"ringlet/testkit/must"
)

const losses = "../../studies/link-loss.yaml"

// runLossModel plays the study.
func runLossModel(ctx context.Context, t *testing.T) study.Outcome {
	t.Helper()
	s, err := study.Load(losses)
	must.OK(t, err)
	out, err := s.Run(ctx, Models(), study.Env{})
	must.OK(t, err)
	return out
}

// TestLossStudy: without losses a link fills its path and sends nothing again; with more of them it carries less, and
// sends at least what was lost again. The same seed gives the same results.
func TestLossStudy(t *testing.T) {
	if testing.Short() {
		t.Skip("a model has one goroutine: the race detector finds nothing in more of it")
	}
	out := runLossModel(t.Context(), t)
	of := map[string]float64{}
	for _, r := range out.Results {
		of[r.Name] = r.Value
	}
	if of["goodput-of-rate-0%"] < 0.99 || of["sent-again-0%"] != 0 {
		t.Errorf("without losses: %v", of)
	}
	before := of["goodput-0%"]
	for _, at := range []string{"0.1%", "1%", "5%"} {
		if of["goodput-"+at] >= before || of["goodput-"+at] <= 0 || of["sent-again-"+at] < 0.8*of["lost-"+at] {
			t.Errorf("%s lost: %v", at, of)
		}
		before = of["goodput-"+at]
	}
	again := runLossModel(t.Context(), t)
	for i, r := range again.Results {
		if r != out.Results[i] {
			t.Errorf("%s is %v, and %v with the same seed", r.Name, out.Results[i], r)
		}
	}
}

// TestInterrupted: what there is until then is said to be that.
func TestInterrupted(t *testing.T) {
	over, end := context.WithCancel(t.Context())
	end()
	if out := runLossModel(over, t); len(out.Notes) != 1 || len(out.Plots) != 1 {
		t.Errorf("%+v", out)
	}
}

// TestNotUnderstood: a datagram that a core does not understand ends the run with an error.
func TestNotUnderstood(t *testing.T) {
	p, err := newPair(sim.New(1), settings(), [2]path{})
	must.OK(t, err)
	p.datagramsInFlight = [][]byte{bytes.Repeat([]byte{0xff}, 20)}
	(*arrival)(p).Handle(0, 1)
	if p.coreErr == nil {
		t.Error("it was understood")
	}
}
