package node

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/shmem"
	"ringlet/testkit/patiently"
)

// TestLentOverRuns has a reader hold MEPs of one run while the next two go on in the same session: what it holds stays
// as it was given, and every run ends with its accounts in balance.
func TestLentOverRuns(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	c := config.Completed{Config: config.Default()}
	c.Nodes, c.Packing, c.FragmentSize, c.Events, c.Slots = 2, 10, 20, 2000, 8
	c.Format, c.Output = "buffer", fmt.Sprintf("lend-%d", time.Now().UnixNano())
	withoutPreGranted(&c.Config)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(errors.Join(c.Complete(), c.FitSlot()))
	var held []shmem.Entry
	var was [][]byte
	for run := range 3 {
		if run > 0 {
			p.number-- // the nodes keep their view
		}
		sched, address := p.scheduler(c.Config)
		req := &nodev1.CommandRequest{Configuration: c.Effective(), View: p.view, TagnetAddress: address}
		if run == 0 {
			p.bringUp(req)
		} else {
			req.Command = nodev1.Command_COMMAND_START
			p.must(req)
		}
		p.taking(p.reader(bufferName(c, 0)))
		var last <-chan []shmem.Entry
		if run == 0 {
			last = p.holding(p.reader(bufferName(c, 1)), config.BufferMEPs-1)
		} else {
			p.taking(p.reader(bufferName(c, 1)))
		}
		select {
		case <-sched.Drained():
		case <-p.ctx.Done():
			t.Fatalf("run %d does not end: %+v", run, sched.Registers())
		}
		p.must(&nodev1.CommandRequest{Command: nodev1.Command_COMMAND_STOP, View: p.view})
		p.balances(sched.Registers().Counters)
		if run > 0 {
			continue
		}
		if held = patiently.Receive(t, last); len(held) != config.BufferMEPs-1 {
			t.Fatalf("%d MEPs are held", len(held))
		}
		for _, e := range held {
			was = append(was, bytes.Clone(e.Data))
		}
	}
	for i := range held {
		if !bytes.Equal(held[i].Data, was[i]) {
			t.Errorf("MEP %d is another one now", i)
		}
	}
}

// holding reads an output to its end, and keeps the last n entries.
func (p *pair) holding(r *shmem.Reader, n int) <-chan []shmem.Entry {
	last := make(chan []shmem.Entry, 1)
	p.t.Cleanup(func() { _ = r.Close() })
	go func() {
		var held []shmem.Entry
		for {
			e, err := r.Next(p.ctx)
			if err != nil {
				last <- held
				return
			}
			if held = append(held, e); len(held) > n {
				err = r.Ack(held[0])
				held = held[1:]
			}
			if err != nil {
				p.t.Error(err)
			}
		}
	}()
	return last
}
