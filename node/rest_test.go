package node

import (
	"errors"
	"io"
	"log/slog"
	"testing"

	quicgo "github.com/quic-go/quic-go"

	"ringlet/node/fsm"
	"ringlet/transport"
)

// A link that breaks while no run goes on is told, and the next run has other links. One that its peer has closed on
// purpose is not: the nodes close theirs one after the other when they are reset.
func TestALinkBreaksAtRest(t *testing.T) {
	broken := &transport.LinkError{Peer: "n1", Cause: io.EOF}
	closed := &transport.LinkError{Peer: "n1", Cause: &quicgo.ApplicationError{Remote: true}}
	for name, c := range map[string]struct {
		state     fsm.State
		subsystem string
		err       error
		gives     bool // the run is being given up
		want      bool
	}{
		"broken":              {fsm.Ready, "transport", broken, false, true},
		"closed on purpose":   {fsm.Ready, "transport", closed, false, false},
		"another fault":       {fsm.Ready, "output", errors.New("disk full"), false, false},
		"before it has links": {fsm.NotReady, "transport", broken, false, false},
		"as a run is dropped": {fsm.Ready, "transport", broken, true, false},
	} {
		n := &process{cfg: Config{Name: "n0"}, log: slog.New(slog.DiscardHandler), discardRun: c.gives}
		n.runner = fsm.New("n0", fsm.Actions{}, fsm.Options{})
		if err := n.runner.Adopt(c.state); err != nil {
			t.Fatal(err)
		}
		n.reportFault(c.subsystem, c.err)
		st := n.status()
		if got := st.GetDegraded(); got != c.want || st.GetState() != c.state.String() {
			t.Errorf("%s: degraded %v, in %s", name, got, st.GetState())
		}
		if x := st.GetCause(); c.want && (x.GetPart() != SubsystemTransport || x.GetComponent() != "n1") {
			t.Errorf("%s: the cause is %v", name, x)
		}
		if err := n.runner.Close(); err != nil {
			t.Error(err)
		}
	}
}
