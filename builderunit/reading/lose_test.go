package reading_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"ringlet/builderunit/reading"
	"ringlet/builderunit/sink"
	"ringlet/event/selection"
	"ringlet/shmem"
	"ringlet/testkit/logged"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// TestMayLose reads with a reader that may lose and that is stuck at its first event: the builder unit goes on, what it
// overwrites is told, and counted on both sides.
func TestMayLose(t *testing.T) {
	name := fmt.Sprint("lose-", time.Now().UnixNano())
	out, err := bufferKind(t).Open(sink.Settings{Output: "ringlet-" + name + "-0", BufferBytes: shmem.PageSize})
	must.OK(t, err)
	w := out.(*sink.Buffer)
	defer func() { _ = w.Abort() }()
	var errs logged.Buffer
	stuck, lossErr := &gate{passed: make(chan struct{}), open: make(chan struct{})}, make(chan error, 1)
	go func() {
		opts := reading.Options{Name: name, Format: selection.FormatJSON, MayLose: true}
		lossErr <- reading.Print(t.Context(), stuck, &errs, opts)
	}()
	must.OK(t, w.Write(t.Context(), meta(0, 2), mepOf(t, 0, 2)))
	patiently.Receive(t, stuck.passed, "the first event is not printed")
	const meps = 200
	for mep := uint64(1); mep < meps; mep++ { // far more than there is room for
		must.OK(t, w.Write(t.Context(), meta(mep, 2), mepOf(t, 100*mep, 2)))
	}
	close(stuck.open)
	for w.Stats().OverwrittenMEPs == 0 { // it reads on, and the buffer tells at its end at the latest
		must.OK(t, w.Write(t.Context(), meta(meps, 2), mepOf(t, 100*meps, 2)))
	}
	_, err = w.Finish()
	must.OK(t, err)
	must.OK(t, patiently.Receive(t, lossErr, "the reading did not end with the run"))
	overwritten := w.Stats().OverwrittenMEPs
	if line := `{"overwritten":{"builder":"ringlet-` + name + `-0","meps":`; !strings.Contains(stuck.String(), line) {
		t.Errorf("%q is not in %s", line, stuck.String())
	}
	var events, read, lost uint64
	_, err = fmt.Sscanf(errs.String(), "%d events of %d MEPs; %d MEPs were overwritten", &events, &read, &lost)
	must.OK(t, err)
	if overwritten == 0 || lost < overwritten || events != 2*read { // it may find out about the last of them after the end
		t.Errorf("%d missed, and told is %s", overwritten, errs.String())
	}
}

// gate is a buffer that is stuck after its first write until it is opened.
type gate struct {
	logged.Buffer
	passed, open chan struct{}
	stuck        bool
}

func (g *gate) Write(p []byte) (int, error) {
	n, err := g.Buffer.Write(p)
	if !g.stuck {
		g.stuck = true
		close(g.passed)
		patiently.Hold(g.open)
	}
	return n, err
}
