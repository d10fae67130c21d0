package node

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/shmem"
	"ringlet/tagnet/core"
	"ringlet/testkit/patiently"
)

// TestStoppedConsumer stops the reader of one builder unit's output for good, as far as the run can tell (L1-farm
// §7.12). By skip and hold the other builder unit goes on for many times what all slots and all memory could hold, and
// when the reader goes on nothing is lost; by discard, which needs no empty places, both are given MEPs all the time.
func TestStoppedConsumer(t *testing.T) {
	t.Parallel()
	const more = 1000 // MEPs; slots and memory hold tens
	othersBuild := func(from, now *core.Registers) bool {
		return now.Bus[0].Counters.Built > from.Bus[0].Counters.Built+more && now.Bus[1].Counters.LeftBehind > 0
	}
	discards := func(_, now *core.Registers) bool { return now.Bus[1].Counters.Discarded > more }
	for name, tc := range map[string]struct {
		empty, overload string
		change          func(*config.Config)
		went            func(from, now *core.Registers) bool
	}{
		"skip and hold":                 {"skip", config.OverloadHold, withoutPreGranted, othersBuild},
		"skip and hold, pre-granted":    {"skip", config.OverloadHold, nil, othersBuild},
		"wait and discard":              {"wait", config.OverloadDiscard, withoutPreGranted, discards},
		"wait and discard, pre-granted": {"wait", config.OverloadDiscard, nil, discards},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t)
			c := config.Default()
			c.Nodes, c.Packing, c.FragmentSize, c.Duration, c.Slots = 2, 10, 20, time.Hour, 8
			c.Format, c.Output = "buffer", fmt.Sprintf("slow-%d", time.Now().UnixNano())
			if c.EmptyPlace, c.Overload = tc.empty, tc.overload; tc.change != nil {
				tc.change(&c)
			}
			if err := errors.Join(c.Complete(), c.FitSlot()); err != nil {
				t.Fatal(err)
			}
			sched, address := p.scheduler(c)
			p.bringUp(&nodev1.CommandRequest{Configuration: c.Effective(), View: p.view, TagnetAddress: address})
			drained := []<-chan error{p.taking(p.reader(bufferName(config.Completed{Config: c}, 0)))}
			stopped := p.reader(bufferName(config.Completed{Config: c}, 1))
			from := sched.Registers()
			for now := sched.Registers(); !tc.went(from, now); now = sched.Registers() {
				select {
				case <-p.ctx.Done():
					t.Fatalf("it does not go on: %+v", now)
				case <-time.After(10 * time.Millisecond):
				}
			}
			drained = append(drained, p.taking(stopped))
			sched.Drain(0)
			select {
			case <-sched.Drained():
			case <-p.ctx.Done():
				t.Fatalf("the run does not end: %+v", sched.Registers())
			}
			p.must(&nodev1.CommandRequest{Command: nodev1.Command_COMMAND_STOP, View: p.view})
			p.balances(sched.Registers().Counters)
			for bu, over := range drained {
				if err := patiently.Receive(t, over); !errors.Is(err, shmem.ErrEndOfRun) {
					t.Errorf("output %d ended with %v", bu, err)
				}
			}
		})
	}
}

func (p *pair) reader(name string) *shmem.Reader {
	p.t.Helper()
	r, err := shmem.OpenReader(name)
	if err != nil {
		p.t.Fatal(err)
	}
	return r
}

// taking reads an output to its end.
func (p *pair) taking(r *shmem.Reader) <-chan error {
	over := make(chan error, 1)
	go func() {
		var err error
		for err == nil {
			var e shmem.Entry
			if e, err = r.Next(p.ctx); err == nil {
				err = r.Ack(e)
			}
		}
		over <- err
		_ = r.Close() // it has nothing more to give
	}()
	return over
}

// balances holds that the nodes and the scheduler agree.
func (p *pair) balances(c *core.Counters) {
	p.t.Helper()
	sum := map[string]uint64{}
	for i := range p.nodes {
		for name, n := range p.report(i).GetCounters() {
			sum[name] += n
		}
	}
	if c.Issued != c.Built+c.Discarded || sum["bu.meps_built"] != c.Built || sum["bu.meps_discarded"] != c.Discarded ||
		sum["bu.strays"] != 0 ||
		sum["ru.tokens"] != 2*c.Issued || sum["ru.writes"] != 2*c.Issued || sum["ru.open"] != 0 {
		p.t.Errorf("the scheduler counts %+v, the nodes %v", c, sum)
	}
}
