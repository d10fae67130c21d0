package node

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"ringlet/node/certs"
	"ringlet/node/cluster"
	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/recording"
	"ringlet/tagnet"
	"ringlet/tagnet/core"
	"ringlet/testkit/patiently"
)

// TestControl is the variable that makes the test binary a control, and TestRun what it says in JSON.
const TestControl = "RINGLET_TEST_CONTROL"

// TestRun is what a control in a process of its own is to do.
type TestRun struct {
	Request   json.RawMessage // of every command
	Scheduler core.Config
}

// controlProcess starts a control that takes both nodes into a run, and waits until it has. What it returns kills it.
func (p *pair) controlProcess(c config.Config) (scope tagnet.Scope, req *nodev1.CommandRequest, kill func()) {
	p.t.Helper()
	p.number++
	p.view.Number = p.number
	host := p.view.GetMembers()[0]
	req = &nodev1.CommandRequest{
		Protocol:      ProtocolVersion,
		Run:           p.run,
		Configuration: c.Effective(),
		View:          p.view,
		TagnetName:    host.GetName(),
		TagnetAddress: host.GetGrpcAddress(),
		RunKey:        bytes.Repeat([]byte{byte(p.run)}, len(recording.Key{})),
	}
	text, err := protojson.Marshal(req)
	if err != nil {
		p.t.Fatal(err)
	}
	todo, err := json.Marshal(TestRun{Request: text, Scheduler: p.schedulerOf(c)})
	if err != nil {
		p.t.Fatal(err)
	}
	cmd := exec.CommandContext(p.ctx, os.Args[0])
	cmd.Env, cmd.Stderr = append(os.Environ(), TestControl+"="+string(todo)), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	if err := p.id.WriteBundle(in, certs.NewGossipKey()); err != nil {
		p.t.Fatal(err)
	}
	line, err := "", error(nil)
	patiently.Wait(p.t, func() { line, err = bufio.NewReader(out).ReadString('\n') }, "the control says nothing")
	if line != "running\n" {
		p.t.Fatalf("the control says %q: %v, %v", line, err, patiently.Exit(p.t, cmd))
	}
	return tagnet.Scope{Run: p.run, View: p.number, Name: ControlName}, req, func() {
		p.t.Helper()
		if err := cmd.Process.Kill(); err != nil {
			p.t.Error(err)
		}
		_ = patiently.Exit(p.t, cmd) // it was killed
	}
}

// observe reads the report of a node without a call, so that the control remains silent.
func (p *pair) observe(i int) *nodev1.Report {
	p.t.Helper()
	report, ok := p.inside.Load(i)
	if !ok {
		p.t.Fatalf("n%d is not monitored", i)
	}
	return report.(func() *nodev1.Report)()
}

// until observes a node until something holds.
func (p *pair) until(i int, what string, is func(*nodev1.Report) bool) *nodev1.Report {
	p.t.Helper()
	for {
		r := p.observe(i)
		if is(r) {
			return r
		}
		select {
		case <-p.ctx.Done():
			p.t.Fatalf("n%d is not %s: %v", i, what, r.GetStatus())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func slowRun(t *testing.T, out string, controlLoss time.Duration) config.Config {
	t.Helper()
	c := testConfig(t, out)
	c.Events, c.Rate, c.ControlLoss = 0, 20_000, controlLoss
	return c
}

// TestControlKilledAndBack kills the control in a run, and lets another process take the run up.
func TestControlKilledAndBack(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	c := slowRun(t, t.TempDir()+"/", time.Hour)
	scope, req, kill := p.controlProcess(c)
	kill()
	before := p.observe(1).GetCounters()["bu.meps_built"]
	r := p.until(1, "building on", func(r *nodev1.Report) bool { return r.GetCounters()["bu.meps_built"] > before+20 })
	if r.GetRun() != p.run || r.GetView() != scope.View || r.GetSeat().GetName() != "n1" ||
		r.GetConfigurationHash() != c.Hash() ||
		r.GetTagnetName() != "n0" || r.GetTagnetAddress() != req.GetTagnetAddress() || r.GetStartedAtUs() == 0 ||
		r.GetStatus().GetState() != "Running" {
		t.Errorf("a new control cannot know n1 again by %v", r)
	}
	var states []core.State
	sched := tagnet.NewRemote(p.conns[0], tagnet.RemoteConfig{Scope: scope,
		OnState: func(s core.State) { states = append(states, s) }})
	if err := sched.Drain(0); err != nil {
		t.Error(err)
	}
	stats := p.drained(sched)
	sched.Close()
	if k := stats.Registers.Counters; k.Built != k.Issued || k.Built == 0 || stats.Latency.TotalCount() != int64(k.Built) {
		t.Errorf("%d of %d MEPs built, %d latencies", k.Built, k.Issued, stats.Latency.TotalCount())
	}
	if s := fmt.Sprintf("%v", states); !strings.HasPrefix(s, "[idle running") || !strings.HasSuffix(s, "drained]") {
		t.Errorf("the new control was told %s", s)
	}
	req.Command = nodev1.Command_COMMAND_STOP
	p.must(req)
	for i := range p.nodes {
		if r := p.report(i); r.GetStopped() != nil || !r.GetFinal() || r.GetStatus().GetState() != "Ready" {
			t.Errorf("n%d ends with %v, %v", i, r.GetStatus(), r.GetStopped())
		}
	}
	if err := tagnet.EndScheduler(p.ctx, p.conns[0], scope); err != nil {
		t.Error(err)
	}
}

// TestControlKilledForGood lets the nodes end the run by themselves, and a control that comes after that find
// everything.
func TestControlKilledForGood(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	out := t.TempDir() + "/"
	scope, req, kill := p.controlProcess(slowRun(t, out, minSilence))
	kill()
	var written uint64
	for i := range p.nodes {
		r := p.until(i, "at rest", func(r *nodev1.Report) bool { return r.GetFinal() && r.GetStatus().GetState() == "Ready" })
		if r.GetStopped().GetCode() != codeControlLost || r.GetStopped().GetComponent() != ControlName ||
			r.GetStatus().GetState() != "Ready" || r.GetRun() != p.run {
			t.Errorf("n%d ended run %d as %v, with the cause %v", i, r.GetRun(), r.GetStatus(), r.GetStopped())
		}
		if begun, over := r.GetStopped().GetAtUs(), r.GetEndedAtUs(); begun < r.GetStartedAtUs() || over < begun ||
			over > r.GetAtUs() {
			t.Errorf("n%d began at %d, and began to end at %d, to be over at %d; it is %d", i, r.GetStartedAtUs(), begun, over,
				r.GetAtUs())
		}
		written += r.GetCounters()["bu.output_events"]
		if _, err := os.Stat(fmt.Sprintf("%s/bu%d-00001.mep", recording.RunDir(out, p.run), i)); err != nil {
			t.Error(err)
		}
	}
	sched := tagnet.NewRemote(p.conns[0], tagnet.RemoteConfig{Scope: scope})
	defer sched.Close()
	if k := p.drained(sched).Registers.Counters; k.Built != k.Issued || k.EventsBuilt != written || written == 0 {
		t.Errorf("%d of %d MEPs built, %d events, and %d written", k.Built, k.Issued, k.EventsBuilt, written)
	}
	for _, cmd := range []nodev1.Command{nodev1.Command_COMMAND_STOP, nodev1.Command_COMMAND_RESET} {
		req.Command = cmd
		p.must(req)
	}
}

// TestBuilderLostWithTheControl loses a builder unit while nobody is there to exclude it: what it had is built by
// others all the same.
func TestBuilderLostWithTheControl(t *testing.T) {
	t.Parallel()
	p := newFarm(t, cluster.Readout, cluster.Readout, cluster.Readout, cluster.Builder, cluster.Builder, cluster.Builder)
	scope, req := p.hostScheduler(lossConfig(t, func(c *config.Config) { c.Rate, c.ControlLoss = 10_000, 3*minSilence }))
	p.bringUp(req)
	p.until(5, "building", func(r *nodev1.Report) bool { return r.GetCounters()["bu.meps_built"] > 3 })
	p.kill[5]()
	for i := range 5 {
		r := p.until(i, "at rest", func(r *nodev1.Report) bool { return r.GetFinal() && r.GetStatus().GetState() == "Ready" })
		if r.GetStopped().GetCode() != codeControlLost || r.GetStatus().GetState() != "Ready" {
			t.Errorf("n%d: %v, %v", i, r.GetStatus(), r.GetStopped())
		}
	}
	sched := tagnet.NewRemote(p.conns[0], tagnet.RemoteConfig{Scope: scope})
	defer sched.Close()
	if k := p.drained(sched).Registers.Counters; k.Built != k.Issued || k.Built == 0 {
		t.Errorf("%d of %d MEPs built", k.Built, k.Issued)
	}
	p.without(5)
}

func TestMissed(t *testing.T) {
	bus := []*core.BURegister{{Name: "n0", Attached: true}, {Name: "n1"}, {Name: "n2", Excluded: true},
		{Name: "n3", Attached: true}}
	for policy, want := range map[string]int{"essential": 0, "at-least 3 of 4": 0, "at-least 2 of 4": 1, "expendable": 1} {
		c := config.Default()
		c.BUs, c.RUs, c.BuilderLoss = 4, 4, policy
		_, builder := c.LossPolicies()
		if got := lostUnits(bus, builder, func(int) bool { return true }); len(got) != want || want == 1 && got[0] != "n1" {
			t.Errorf("%s: %v", policy, got)
		}
	}
}
