package gateway

import (
	"context"
	"errors"
	"testing"

	"ringlet/memory"
	"ringlet/shmem"
	"ringlet/testkit/must"
)

// TestCountersThatCannotBe holds that a client whose count of descriptors moves back or jumps loses its gateway, that
// another one does not, and that the next client has it.
func TestCountersThatCannotBe(t *testing.T) {
	r := openRig(t, "local", 2)
	gateway, _, _ := r.open(1, minData)
	_, _, _ = r.open(2, minData)
	witness := attach(t, r.dir, segmentPrefix+"t-2")
	words := witness.open("words@n0")
	for i, started := range []uint64{0, 1 << 63, 2 + ringDescriptors, 1<<64 - 1} {
		c := attach(t, r.dir, segmentPrefix+"t-1")
		c.open("words@n0")
		c.startedCount.Store(started)
		c.workBell.ForceWake()
		until(t, "end of the gateway", func() bool { return c.gatewayState.Load() == gatewayRefused })
		must.OK(t, c.seg.Close())
		until(t, "count of it", func() bool { return gateway.snapshot().Broken == uint64(i+1) })
		if a := witness.do(request{op: opAdd, handle: words, a: 1}); a.outcome != outcomeDone || a.value != uint64(i) {
			t.Errorf("the witness: %+v", a)
		}
	}
	witness.leave()
}

// TestMemberGoes holds that clients are told when their gateway is closed, while they wait.
func TestMemberGoes(t *testing.T) {
	r := openRig(t, "local", 1)
	_, _, stop := r.open(1, minData)
	c := attach(t, r.dir, segmentPrefix+"t-1")
	handle := c.open("words@n0")
	c.add(put(request{op: opWait, handle: handle}))
	if a := c.do(request{op: opSize, handle: handle}); a.value != rigPages*memory.PageSize { // the wait was taken
		t.Error(a)
	}
	stop()
	if c.gatewayState.Load() != gatewayClosed {
		t.Error("the gateway is not closed")
	}
	if a := c.result(1); a.outcome == outcomeDone {
		t.Errorf("a wait for nothing came to %+v", a)
	}
	must.OK(t, c.seg.Close())
}

func TestBadConfig(t *testing.T) {
	for _, data := range []int{0, minData - 1, maxData + 1} {
		if _, err := New(Config{Data: data}); err == nil {
			t.Error(data)
		}
	}
	dir := must.MemoryDir(t)
	d, err := New(Config{Data: minData, Name: "taken", Dir: dir})
	must.OK(t, err)
	s, err := d.open(context.Background())
	must.OK(t, err)
	if err := d.Serve(context.Background()); !errors.Is(err, shmem.ErrExists) {
		t.Error(err)
	}
	must.OK(t, s.close(false))
}
