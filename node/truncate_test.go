package node

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
)

// TestTruncatedSegmentsKillNoNode: while a run goes on through shared memory, somebody of the same user cuts every
// segment of it short, by its name and by the descriptors behind the name. The run goes on. Before, the next store was
// the end of the process, by SIGBUS.
func TestTruncatedSegmentsKillNoNode(t *testing.T) {
	p := newFarm(t, folded, folded)
	sched := p.begin(lossConfig(t, func(c *config.Config) {
		c.Nodes, c.RUs, c.BUs, c.BuilderLoss, c.Transport = 2, 2, 2, "essential", "local"
	}))
	p.more(sched, 5)
	cards, err := filepath.Glob(fmt.Sprintf("/dev/shm/ringlet-%d-*", p.run))
	if err != nil || len(cards) < 2 {
		t.Fatalf("the segments of the run are %v, %v", cards, err)
	}
	for _, name := range cards {
		if err := os.Truncate(name, 0); err != nil {
			t.Error(err)
		}
	}
	memories, cut := 0, 0
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		path := "/proc/self/fd/" + fd.Name()
		if to, err := os.Readlink(path); err == nil && strings.Contains(to, "ringlet-segment") {
			memories++
			if os.Truncate(path, 0) == nil {
				cut++
			}
		}
	}
	if memories < len(cards) || cut > 0 {
		t.Errorf("%d of %d memories were cut", cut, memories)
	}
	p.more(sched, 50)
	for i := range p.nodes {
		if st := p.report(i).GetStatus(); st.GetState() != "Running" {
			t.Errorf("n%d: %v", i, st)
		}
	}
	p.command(&nodev1.CommandRequest{Command: nodev1.Command_COMMAND_STOP, Abandon: true})
	sched.Abandon()
	p.must(&nodev1.CommandRequest{Command: nodev1.Command_COMMAND_RESET})
}
