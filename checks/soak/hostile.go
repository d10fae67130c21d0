package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// A hostile run has good front-ends, and strangers that attack it. It checks that all fragments that were reported as
// safe are in the output, that the run blames no node that was not stopped, and that memory stays within its bound.

// hostileRun is the state of a hostile run, for the attacks.
type hostileRun struct {
	c              *cluster
	memoryLimit    uint64        // MiB that a process may have
	attackDuration time.Duration // of one attack
	sourceAddrs    [3]string     // of the sources tcp:, udp:, unix:, as in the setting input
	extraTCPAddr   string        // of another source tcp:
	earlierOutput  string        // directory of the output of an earlier run
	paused         sync.Mutex    // held while a process is stopped: one at a time
	tally          *attackTally

	mu        sync.Mutex
	hurtNodes map[string]bool // nodes that were stopped
	problems  []string
	crafted   int
}

// An attack is executed once, for about attackDuration. It returns how often each outcome came back.
type attack struct {
	name string
	do   func(ctx context.Context, h *hostileRun, d *dice) (map[string]int, error)
}

// allAttacks are the attacks.
var allAttacks = []attack{
	{name: "random bytes to each TCP port", do: everyPort(randomBytes)},
	{name: "HTTP to each TCP port", do: everyPort(plainHTTP)},
	{name: "TLS without a certificate", do: everyPort(noCertificate)},
	{name: "half a message, then silence", do: everyPort(halfOpen)},
	{name: "a byte at a time", do: everyPort(slowBytes)},
	{name: "idle connections", do: idleConnections},
	{name: "random datagrams to each UDP port", do: datagrams(randomDatagram)},
	{name: "packets with QUIC's short header", do: datagrams(shortHeader)},
	{name: "recorded datagrams, again and forged", do: replay},
	{name: "wild numbers to udp:", do: wildSegments},
	{name: "front-ends of strangers", do: strangeFrontEnds},
	{name: "readers of the API that are stuck", do: stuckReaders},
	{name: "SIGSTOP of a builder or the control", do: pause},
	{name: "crafted files in a recording", do: craftedFiles},
	{name: "links in a recording", do: links},
}

// runHostile is a whole hostile run.
func (s *soak) runHostile(ctx context.Context) error {
	if err := s.ensureCluster(ctx); err != nil {
		return err
	}
	h := &hostileRun{
		c:              s.c,
		memoryLimit:    s.flags.memory,
		attackDuration: 3 * time.Second,
		hurtNodes:      map[string]bool{},
		tally:          &attackTally{attackCounts: map[string]int{}, answers: map[string]map[string]int{}},
	}
	if s.flags.shortRuns {
		h.attackDuration = 500 * time.Millisecond
	}
	s.tally.Attacks = h.tally
	began, err := h.begin(ctx)
	if err != nil {
		h.problem("before the run: %s", errText(err))
	} else {
		h.runAttacks(ctx, s.flags)
		began.endAndJudge(ctx, h)
	}
	if ctx.Err() != nil {
		return s.abort(ctx.Err())
	}
	s.tally.Trials++
	h.problems = append(h.problems, s.takeProblems()...)
	if len(h.problems) > 0 {
		s.recordFailure(0, plannedRun{}, h.problems, false)
		return nil
	}
	return s.finish()
}

func (h *hostileRun) problem(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.problems = append(h.problems, fmt.Sprintf(format, args...))
}

// begin makes an earlier recording, starts the run, and starts its front-ends.
func (h *hostileRun) begin(ctx context.Context) (f *frontEnds, err error) {
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	at := func(i int) string { return net.JoinHostPort("127.0.0.1", ports[i]) }
	h.sourceAddrs, h.extraTCPAddr = [3]string{"tcp:" + at(0), "udp:" + at(1) + "/1", "unix:" +
		h.c.path("front-end")}, "tcp:"+at(2)
	h.earlierOutput = h.c.path("earlier")
	if out, err := h.c.runRinglet(ctx, "run", "--nodes", "2", "--events", "5000", "--packing", "100",
		"--output", h.earlierOutput+"/"); err != nil {
		return nil, fmt.Errorf("an earlier run: %w: %s", err, out)
	}
	o := h.c.operator
	if err := o.awaitJoined(ctx, names(0, nodeCount)); err != nil {
		return nil, err
	}
	if _, err = o.bringReady(ctx, []string{
		"nodes=5", "rus=2", "bus=3", "tagnet-node=n0", "duration=0s", "packing=100", "streams=2",
		"input=" + strings.Join(append(h.sourceAddrs[:], h.extraTCPAddr), ","), "on-missing=mark", "fragment-timeout=2s",
		"builder-loss=expendable", "transport=quic", "output=" + h.c.path(string(sharedFiles)) + "/",
	}); err != nil {
		return nil, err
	}
	if err := o.command(ctx, "start", nil); err != nil {
		return nil, err
	}
	return newFrontEnds(ctx, append(h.sourceAddrs[:], h.extraTCPAddr))
}

// selectedAttacks are the attacks that the flag -attack selects.
func selectedAttacks(f flags) []attack {
	return slices.DeleteFunc(slices.Clone(allAttacks), func(a attack) bool {
		return !strings.Contains(a.name, f.attack)
	})
}

// runAttacks executes attacks, two at a time, until the time is over and each was executed once.
func (h *hostileRun) runAttacks(ctx context.Context, f flags) {
	var workers sync.WaitGroup
	var next int
	var order []attack
	draw := &dice{rand.New(rand.NewPCG(f.seed, 0))}
	end := time.Now().Add(f.duration)
	all := selectedAttacks(f)
	pop := func() (attack, *dice, bool) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if ctx.Err() != nil || next >= len(all) && time.Now().After(end) {
			return attack{}, nil, false
		}
		if next%len(all) == 0 {
			order = slices.Clone(all)
			draw.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		}
		next++
		return order[(next-1)%len(all)], &dice{rand.New(rand.NewPCG(f.seed, uint64(next)))}, true
	}
	for range 2 {
		workers.Go(func() {
			for a, d, ok := pop(); ok; a, d, ok = pop() {
				came, err := a.do(ctx, h, d)
				if err != nil && ctx.Err() == nil {
					h.problem("%s: %v", a.name, err)
				}
				h.mu.Lock()
				h.tally.add(a.name, came)
				h.mu.Unlock()
			}
		})
	}
	workers.Wait()
}

// pause stops a builder unit's node, whose loss the policy tolerates, or the control, for 1 to 4 s.
func pause(ctx context.Context, h *hostileRun, d *dice) (map[string]int, error) {
	h.paused.Lock()
	defer h.paused.Unlock()
	who := d.pick("n3", "n4", controlName) // not n2: one builder unit must keep building
	h.mu.Lock()
	h.hurtNodes[who] = true
	h.mu.Unlock()
	long := d.between(time.Second, 4*time.Second)
	p := h.c.processByName[who]
	if err := p.signal(syscall.SIGSTOP, false); err != nil {
		return nil, err
	}
	sleepFor(ctx, long)
	p.resume()
	return map[string]int{who: 1}, nil
}

// judgeRun checks the run's record.
func (h *hostileRun) judgeRun(run *ecsv1.Run) {
	h.tally.verdict = fmt.Sprintf("%s, %d events built", verdict(run), run.GetEventsBuilt())
	for _, l := range run.GetLosses() {
		h.tally.verdict += fmt.Sprintf("; %d %s of %s %s", l.GetCount(), l.GetUnit(), l.GetOf(), l.GetWhat())
	}
	for _, p := range append(judgeRecord(run), judgeLosses(run)...) {
		h.problem("%s", p)
	}
	for _, who := range wronglyFailed(run, h.hurtNodes) {
		h.problem("%s was blamed, and nothing was done to it: %s", who, endReason(run))
	}
}

// judgeLosses checks that a run names its losses. (An event that strangers invent at an open source lacks the fragments
// of the other sources.)
func judgeLosses(run *ecsv1.Run) (problems []string) {
	switch run.GetVerdict() {
	case ecsv1.Verdict_VERDICT_GOOD:
		return nil
	case ecsv1.Verdict_VERDICT_DEGRADED, ecsv1.Verdict_VERDICT_INCOMPLETE:
	default:
		return []string{fmt.Sprintf("the run is %s: %s", verdict(run), endReason(run))}
	}
	for _, l := range run.GetLosses() {
		if l.GetWhat() != "" && l.GetCount() > 0 {
			return nil
		}
	}
	return []string{fmt.Sprintf("the run is %s, and does not name what it lost", verdict(run))}
}

// wronglyFailed are nodes that a run reports as failed although no attack stopped them.
func wronglyFailed(run *ecsv1.Run, hurt map[string]bool) (out []string) {
	all := append(names(0, nodeCount), controlName)
	add := func(component string) {
		who, _, _ := strings.Cut(component, "/")
		if slices.Contains(all, who) && !hurt[who] && !slices.Contains(out, who) {
			out = append(out, who)
		}
	}
	add(run.GetCause().GetComponent())
	for _, e := range run.GetEvents() {
		if e.GetKind() == "fault" || e.GetKind() == "degraded" {
			add(e.GetComponent())
		}
	}
	return out
}

// sleepFor sleeps for a time, or until ctx is done.
func sleepFor(ctx context.Context, long time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(long):
	}
}
