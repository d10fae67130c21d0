package partition_test

import (
	"net"
	"testing"

	"ringlet/node/config"
)

// Configure keeps the set of nodes that load has made, and the one of a reset: each node is given one command. Another
// part takes another set.
func TestConfigureKeepsItsNodeSet(t *testing.T) {
	t.Parallel()
	h := newFarm(t, 3, func(c *config.Config) { c.ReadoutLoss, c.BuilderLoss = "expendable", "expendable" })
	h.mustCommand("load")
	first := h.NodeSet()
	h.mustCommand("configure")
	if h.NodeSet() != first {
		t.Error("configure has connected anew the nodes that load has connected")
	}
	h.mustCommand("reset", "configure")
	if h.NodeSet() != first {
		t.Error("configure has connected anew the nodes that reset has left")
	}
	h.mustCommand("start")
	h.awaitBuilt(0)
	h.mustCommand("stop", "reset")
	if err := h.command("exclude", "node", "n1"); err != nil {
		t.Fatal(err)
	}
	h.mustCommand("configure")
	if h.NodeSet() == first || len(h.NodeSet().Names()) != 2 {
		t.Errorf("without n1 it is %v", h.NodeSet().Names())
	}
	h.mustCommand("reset", "unload")
}

// A process that has ended is absent at once, though the gossip still has it; one that was started again where it was
// is there.
func TestStartedAgainWhereItWas(t *testing.T) {
	t.Parallel()
	h := newFarm(t, 2, nil)
	h.mustCommand("load")
	nodeSet := h.NodeSet()
	address := nodeSet.Describe(1)["address"]
	if nodeSet.ProcessEnded("n1", address) {
		t.Error("a node that lives has ended")
	}
	h.endNode("n1")
	h.await("its end is known", func() bool { return nodeSet.ProcessEnded("n1", address) })
	if nodeSet.ProcessEnded("n1", "127.0.0.1:1") {
		t.Error("a process at another address has ended")
	}
	lis, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lis.Close() }()
	if nodeSet.ProcessEnded("n1", address) {
		t.Error("somebody answers, and the process has ended")
	}
}
