package partition_test

import (
	"net"
	"testing"

	"ringlet/node/config"
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

// A process that has ended is absent at once, though the gossip still has it; one that was started again where it was
// is there.
func TestStartedAgainWhereItWas(t *testing.T) {
	t.Parallel()
	h := newHouse(t, 2, nil)
	h.must("load")
	crew := h.Crew()
	address := crew.About(1)["address"]
	if crew.Ended("n1", address) {
		t.Error("a node that lives has ended")
	}
	h.end("n1")
	h.until("its end is known", func() bool { return crew.Ended("n1", address) })
	if crew.Ended("n1", "127.0.0.1:1") {
		t.Error("a process at another address has ended")
	}
	lis, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lis.Close() }()
	if crew.Ended("n1", address) {
		t.Error("somebody answers, and the process has ended")
	}
}
