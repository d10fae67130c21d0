package node

import (
	"errors"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"ringlet/internal/counter"
	nodev1 "ringlet/proto/ringlet/node/v1"
	samplev1 "ringlet/proto/ringlet/sample/v1"
	"ringlet/tagnet"
	"ringlet/transport/link"
)

// TestLinkWords: the counters of a link are described in the order in which Word numbers them.
func TestLinkWords(t *testing.T) {
	s := link.Stats{DatagramsSent: 1, BytesPlaced: 2, StallsCongestion: 3, TransactionsUsed: 4}
	values := map[string]uint64{}
	counter.StructOf(link.Stats{}).Read(values, &s)
	if len(values) != len(linkCounterList) {
		t.Fatalf("%d counters, %d described", len(values), len(linkCounterList))
	}
	for i, c := range linkCounterList {
		if s.Word(i) != values[c.Name] {
			t.Errorf("%s is %d, not %d", c.Name, s.Word(i), values[c.Name])
		}
	}
}

// TestSampleInARun samples a run: as many as were asked for, then until its end.
func TestSampleInARun(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	if _, err := p.sample(&samplev1.Question{}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("before a run: %v", err)
	}
	scope, req := p.hostScheduler(slowRun(t, t.TempDir()+"/", time.Hour))
	p.bringUp(req)
	sched := tagnet.NewRemote(p.conns[0], tagnet.RemoteConfig{Scope: scope})
	defer sched.Close()
	for _, q := range []*samplev1.Question{{Samples: 4000}, {IntervalUs: 1}, {Counters: []string{"ru.no"}}} {
		if _, err := p.sample(q); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%v: %v", q, err)
		}
	}
	one, err := p.sample(&samplev1.Question{Samples: 300, Each: true, Counters: []string{
		"link.bytes_sent", "link.bytes_placed", segmentBytesCounter, "bu.meps_built"}})
	if err != nil {
		t.Fatal(err)
	}
	names := ""
	for _, c := range one.Columns {
		names += c.GetName() + "@" + c.GetOf() + " "
	}
	if want := "link.bytes_sent@n0 link.bytes_sent@n1 link.bytes_placed@n0 link.bytes_placed@n1 segment.bytes@slots " +
		"bu.meps_built@ "; names != want || !one.Columns[5].GetSlow() || len(one.AtUs) != 300 || one.Missed != 0 {
		t.Fatalf("%d samples of %s, missed %d", len(one.AtUs), names, one.Missed)
	}
	last := one.Values[299*6:]
	if last[4] == 0 || last[5] == 0 || last[0]+last[1]+last[2]+last[3] == 0 {
		t.Errorf("nothing moves: %v", last)
	}
	ended := make(chan error, 1)
	go func() {
		all, err := p.sample(&samplev1.Question{IntervalUs: 5000})
		if err == nil && len(all.AtUs) == 0 {
			err = errors.New("no samples")
		}
		ended <- err
	}()
	time.Sleep(3 * sampleSendInterval)
	if err := sched.Drain(0); err != nil {
		t.Fatal(err)
	}
	p.drained(sched)
	req.Command = nodev1.Command_COMMAND_STOP
	p.must(req)
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-p.ctx.Done():
		t.Error("the samples do not end with the run")
	}
}

// sample collects all that n1 answers.
func (p *pair) sample(q *samplev1.Question) (*samplev1.Samples, error) {
	all := &samplev1.Samples{}
	in, err := p.nodes[1].Sample(p.ctx, q)
	for err == nil {
		var m *samplev1.Samples
		if m, err = in.Recv(); err == nil {
			all.Columns = append(all.Columns, m.GetColumns()...)
			all.AtUs, all.Values = append(all.AtUs, m.GetAtUs()...), append(all.Values, m.GetValues()...)
			all.Missed, all.Late = m.GetMissed(), m.GetLate()
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return all, err
}
