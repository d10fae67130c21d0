package gateway

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"ringlet/memory"
	"ringlet/shmem"
	"ringlet/testkit/cases"
	"ringlet/testkit/compiled"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// TestKilledClients holds that the gateway of a client that is killed is the next one's, and that what it had under way
// ends: a wait for what never comes, and adds, of which each was done once or not.
func TestKilledClients(t *testing.T) {
	program := []string{compiled.C(t, "../../clients/c", "testdata/count.c")}
	r := openRig(t, "local", 1)
	gateway, path, stop := r.open(1, minData)
	word := shmem.Word(r.mem)
	for i := range 4 {
		before := word.Load()
		cmd, out := start(t, program, path)
		until(t, "count", func() bool { return word.Load() > before+100 })
		must.OK(t, cmd.Process.Kill())
		patiently.Receive(t, out, "the program does not end")
		until(t, "death of a client", func() bool { return gateway.snapshot().Died == uint64(i+1) })
	}
	c := attach(t, r.dir, segmentPrefix+"t-1")
	handle := c.open("words@n0")
	if a := c.do(request{op: opAdd, handle: handle, a: 1}); a.outcome != outcomeDone || a.value != word.Load()-1 {
		t.Errorf("%+v, and the word is %d", a, word.Load())
	}
	c.leave()
	until(t, "end of the last client", func() bool { return gateway.snapshot().Detached == 1 })
	stop()
	n := gateway.snapshot()
	if n.Clients != 5 || n.Unknown+n.Refused < 4 || word.Load() > n.Done {
		t.Errorf("%+v, and %d adds", n, word.Load())
	}
}

// TestScribblingClient holds that a client that writes at random over its gateway's memory, counters with it, while
// what it asks for is carried out, reaches no byte that is not open to it, and that another one is served all along.
func TestScribblingClient(t *testing.T) {
	program := []string{compiled.C(t, "../../clients/c", "testdata/scribble.c")}
	times := cases.Count("20", "5")
	r := openRig(t, "local", 2, hostileRules()...)
	closed := append([]int{pageRead, pageWitness}, pageClosed)
	for page := pagesOpened; page < rigPages; page++ {
		closed = append(closed, page)
	}
	rng := rand.New(rand.NewPCG(5, 5))
	for i := range r.mem {
		r.mem[i] = byte(rng.Uint32())
	}
	off := int64(pageWitness * memory.PageSize)
	binary.LittleEndian.PutUint64(r.mem[off:], 0)
	want := bytes.Clone(r.mem)
	gateway, path, stop := r.open(1, minData)
	_, _, _ = r.open(2, minData)
	witness := attach(t, r.dir, segmentPrefix+"t-2")
	words := witness.open("words@n0")
	_, out := start(t, program, path, times)
	said := ""
	for added := uint64(0); said == ""; added++ {
		a := witness.do(request{op: opAdd, handle: words, piece: piece{remote: off}, a: 1})
		if a.outcome != outcomeDone || a.value != added {
			t.Fatalf("the witness: %+v, not %d", a, added)
		}
		select {
		case said = <-out:
		case <-time.After(time.Millisecond):
		}
		binary.LittleEndian.PutUint64(want[off:], added+1)
	}
	stop()
	for _, page := range closed {
		if at := page * memory.PageSize; !bytes.Equal(want[at:at+memory.PageSize], r.mem[at:at+memory.PageSize]) {
			t.Errorf("page %d is changed", page)
		}
	}
	n := gateway.snapshot()
	t.Logf("%s; %d gateways, %d of them shut: %v", said, n.Clients, n.Broken, n.logValue())
	if said != "done" || n.Done == 0 || n.Refused == 0 || n.Broken+n.Died == 0 {
		t.Error("the test tries too little")
	}
	witness.leave()
}
