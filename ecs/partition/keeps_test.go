package partition_test

import (
	"testing"

	"ringlet/internal/config"
)

// Configure keeps the crew that load has made, and the one of a reset: each node is given one command. Another part
// takes another crew.
func TestConfigureKeepsItsCrew(t *testing.T) {
	t.Parallel()
	h := newHouse(t, 3, func(c *config.Config) { c.ReadoutLoss, c.BuilderLoss = "expendable", "expendable" })
	h.must("load")
	first := h.Crew()
	h.must("configure")
	if h.Crew() != first {
		t.Error("configure has met anew the nodes that load has met")
	}
	h.must("reset", "configure")
	if h.Crew() != first {
		t.Error("configure has met anew the nodes that reset has left")
	}
	h.must("start")
	h.built(0)
	h.must("stop", "reset")
	if err := h.ask("exclude", "node", "n1"); err != nil {
		t.Fatal(err)
	}
	h.must("configure")
	if h.Crew() == first || len(h.Crew().Names()) != 2 {
		t.Errorf("without n1 it is %v", h.Crew().Names())
	}
	h.must("reset", "unload")
}
