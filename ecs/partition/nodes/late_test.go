package nodes

import (
	"context"
	"errors"
	"io"
	"iter"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"pgregory.net/rapid"

	"ringlet/ecs/partition/fault"
	ecsrun "ringlet/ecs/run"
	"ringlet/node"
	"ringlet/node/config"
	"ringlet/node/fsm"
	nodev1 "ringlet/proto/ringlet/node/v1"
	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
	"ringlet/recording"
	"ringlet/tagnet"
	"ringlet/tagnet/core"
	"ringlet/testkit/must"
)

// written is a node that has so many MEPs in its output, the first ones.
type written struct {
	nodev1.NodeClient
	packing int
	meps    uint64
	verdict *[]byte // where the verdict goes; nil: the manifest takes none
}

func (w written) Command(context.Context, *nodev1.CommandRequest, ...grpc.CallOption) (*nodev1.CommandResponse, error) {
	return &nodev1.CommandResponse{}, nil
}

func (w written) Report(context.Context, *nodev1.ReportRequest, ...grpc.CallOption) (*nodev1.Report, error) {
	return &nodev1.Report{Final: true}, nil
}

func (w written) Conclude(
	_ context.Context, q *nodev1.ConcludeRequest, _ ...grpc.CallOption,
) (*nodev1.ConcludeResponse, error) {
	if w.verdict == nil {
		return nil, errors.New("the disk is full")
	}
	*w.verdict = q.GetVerdict()
	return &nodev1.ConcludeResponse{}, nil
}

func (w written) Recorded(
	_ context.Context, q *nodev1.RecordedRequest, _ ...grpc.CallOption,
) (grpc.ServerStreamingClient[nodev1.RecordedResponse], error) {
	first := &nodev1.RecordedResponse{
		Directory: "d0",
		Builders:  []*nodev1.RecordedBuilder{{Node: "n0", State: "recovered"}},
	}
	answers := []*nodev1.RecordedResponse{first}
	set := recording.NewMEPSet(w.packing)
	for mep := range w.meps {
		set.Add(recording.Entry{MEP: mep, Events: uint32(w.packing)})
	}
	if !q.GetDirectoryOnly() {
		for piece := range set.Pieces() {
			answers = append(answers, &nodev1.RecordedResponse{Set: slices.Clone(piece)})
		}
	}
	next, _ := iter.Pull(slices.Values(answers))
	return answering{next: next}, nil
}

// answering is a stream of answers.
type answering struct {
	grpc.ServerStreamingClient[nodev1.RecordedResponse]
	next func() (*nodev1.RecordedResponse, bool)
}

func (a answering) Recv() (*nodev1.RecordedResponse, error) {
	if m, ok := a.next(); ok {
		return m, nil
	}
	return nil, io.EOF
}

// recordingRun is a run of one node, n0, that has a builder unit and an output.
func recordingRun(t *testing.T, n0 written) *Run {
	t.Helper()
	cfg := config.Completed{Config: config.Default()}
	cfg.Packing, cfg.Output = n0.packing, filepath.Join(t.TempDir(), "out")+"/"
	must.OK(t, cfg.Complete())
	nodeSet := NewNodeSet(Options{Log: slog.New(slog.DiscardHandler)}, cfg)
	view := &nodev1.Member{Name: "n0", Builder: true}
	nodeSet.nodes = append(nodeSet.nodes, &member{
		name:       "n0",
		client:     n0,
		firstEntry: view,
		report:     &nodev1.Report{},
	})
	nodeSet.view.Store(&nodev1.View{Members: []*nodev1.Member{view}})
	r := nodeSet.NewRun(7)
	r.SetKey(NewKey())
	return r
}

// givingUp is a scheduler that has told of 7 MEPs as built and gives 3 up, or is lost by then.
type givingUp struct {
	tagnet.Scheduler
	lost error
}

func (g givingUp) Abandon() error { return g.lost }

func (g givingUp) Stats() (st core.Stats, err error) {
	st.Registers = &core.Registers{Counters: &core.Counters{
		Issued:          10,
		Built:           7,
		Abandoned:       3,
		EventsIssued:    1000,
		EventsBuilt:     700,
		EventsAbandoned: 300,
	}}
	if g.lost != nil { // it told for the last time a while before
		st.Registers.Counters.Abandoned, st.Registers.Counters.EventsAbandoned = 0, 0
	}
	return st, nil
}

// giveUp ends a run by a fault before it has begun.
func giveUp(r *Run, why *fault.Fault) *Report {
	now, _ := r.Step(ecsrun.Input{Kind: ecsrun.Open})
	r.Step(ecsrun.Input{Kind: ecsrun.Failed, Ticket: now.Ticket, Fault: why})
	r.Drop()
	return r.MakeReport()
}

// finish ends a run in good order that has drained since it was stopped.
func finish(t *testing.T, r *Run) *Report {
	t.Helper()
	r.state.Phase = ecsrun.Running
	now, _ := r.Step(ecsrun.Input{Kind: ecsrun.Finish, Reason: ecsrun.EndStopped})
	out, failed := r.End()
	if failed != nil {
		t.Fatal(failed)
	}
	r.Step(ecsrun.Input{Kind: ecsrun.Done, Ticket: now.Ticket, Outcome: out})
	return r.MakeReport()
}

// A run that is given up has one outcome for each event, also where a MEP was written and its scheduler was not told of
// it in time: one that is alive counts it as abandoned, and one that is lost counts nothing any more.
func TestGivenUpWithMoreInTheFiles(t *testing.T) {
	for name, c := range map[string]struct {
		lost             error
		built, abandoned uint64
		checks           int
	}{
		"its scheduler is alive": {nil, 700, 300, 3},
		"its scheduler is lost":  {errors.New("its node was killed"), 800, 200, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var verdict []byte
			r := recordingRun(t, written{packing: 100, meps: 8, verdict: &verdict})
			r.sched = givingUp{lost: c.lost}
			out := giveUp(r, &fault.Fault{Component: "n1", What: "it was killed"})
			if bad := failing(out.Accounts); bad != nil || len(out.Accounts) != c.checks {
				t.Errorf("%d accounts, of which these do not balance: %v", len(out.Accounts), bad)
			}
			if sum := out.EventsBuilt + out.EventsAbandoned; sum != out.EventsTriggered || out.EventsTriggered != 1000 {
				t.Errorf("%d events were triggered, and %d have an outcome", out.EventsTriggered, sum)
			}
			if out.EventsBuilt != c.built || out.EventsAbandoned != c.abandoned || out.OutputEvents != 800 {
				t.Errorf("%d built, %d abandoned, %d in the output: %+v",
					out.EventsBuilt, out.EventsAbandoned, out.OutputEvents, out.RecordedOutput)
			}
			if out.VerdictWord() != "ABORTED" || len(verdict) == 0 || len(out.RecordedOutput.UnreadNodes) > 0 {
				t.Errorf("%s, the manifest has %q, unread %v", out.VerdictWord(), verdict, out.RecordedOutput.UnreadNodes)
			}
		})
	}
}

// dying is a scheduler of which nothing is heard any more after so many questions.
type dying struct {
	tagnet.Scheduler
	answers *int
	state   core.State
}

func (d dying) Stats() (st core.Stats, err error) {
	if *d.answers--; *d.answers < 0 {
		return st, errors.New("its node was killed")
	}
	st.Registers = &core.Registers{
		State:    tagnetv1.State(d.state),
		InFlight: 3,
		Counters: &core.Counters{Issued: 10, Built: 7, EventsIssued: 1000, EventsBuilt: 700},
	}
	if d.state == core.Drained {
		st.Registers.InFlight = 0
		st.Registers.Counters = &core.Counters{Issued: 12, Built: 12, EventsIssued: 1200, EventsBuilt: 1200}
	}
	return st, nil
}

// The node with the scheduler is killed when the run has been drained and others still complete their output. What the
// scheduler told when it was drained are its accounts. Where it could not tell them, the files count: they may have
// MEPs that were not even issued when it told something for the last time.
func TestBooksAreLostWhileNodesStop(t *testing.T) {
	for name, c := range map[string]struct {
		state      core.State
		endUnknown bool
	}{
		"it told when it was drained": {core.Drained, false},
		"it told before":              {core.Draining, true},
	} {
		t.Run(name, func(t *testing.T) {
			var verdict []byte
			r := recordingRun(t, written{packing: 100, meps: 12, verdict: &verdict})
			answers := 1
			r.sched, r.tagnetName = dying{answers: &answers, state: c.state}, "n9"
			out := finish(t, r)
			if out.EventsTriggered != 1200 || out.EventsBuilt != 1200 || out.EventsAbandoned != 0 || out.OutputEvents != 1200 {
				t.Errorf("%d triggered, %d built, %d abandoned, %d in the output",
					out.EventsTriggered, out.EventsBuilt, out.EventsAbandoned, out.OutputEvents)
			}
			if out.EndUnknown != c.endUnknown || out.EventsFromFiles != c.endUnknown || c.endUnknown == (len(out.Accounts) > 6) {
				t.Errorf("end unknown %v, from files %v, %d accounts; not checked: %q",
					out.EndUnknown, out.EventsFromFiles, len(out.Accounts), out.NotChecked)
			}
			if c.endUnknown != (out.Cause != nil && out.Cause.Component == "n9") {
				t.Errorf("the cause is %+v", out.Cause)
			}
			if out.GivenUp || out.VerdictWord() != "INCOMPLETE" || len(verdict) == 0 { // the nodes here count nothing
				t.Errorf("%s, the manifest has %q: %+v %v", out.VerdictWord(), verdict, out.RecordedOutput, out.Cause)
			}
		})
	}
}

// A manifest that does not take the verdict counts as unread: the record is completed when it does.
func TestAManifestWithoutTheVerdict(t *testing.T) {
	r := NewNodeSet(Options{Log: slog.New(slog.DiscardHandler)}, config.Completed{Config: config.Default()}).NewRun(7)
	read := &readBackOutput{mepSet: recording.NewMEPSet(100), foundBUs: map[uint32]bool{0: true}}
	read.directories = []*runDirectory{{
		reader:   &member{name: "n0", client: written{}},
		builders: []*nodev1.RecordedBuilder{{Node: "n0"}},
		mepSet:   recording.NewMEPSet(100),
	}}
	// The disk was full before a builder unit could record that it writes here (found by the soak, plan 38 of seed 1129:
	// nobody came back when there was room, and the manifest had no verdict for good).
	read.directories = append(read.directories, &runDirectory{
		reader: &member{name: "n2", client: written{}},
		nodes:  []string{"n2"},
		mepSet: recording.NewMEPSet(100),
	})
	report := &Report{RecordedOutput: &Output{}}
	(&outputs{Run: r}).writeVerdicts(t.Context(), read, report)
	if !slices.Equal(report.RecordedOutput.UnreadNodes, []string{"n0", "n2"}) {
		t.Errorf("unread: %v", report.RecordedOutput.UnreadNodes)
	}
}

// asleep is a node that says in which run it is, and notes which run it is told to drop.
type asleep struct {
	written
	run     uint32
	state   fsm.State
	dropped *uint32
}

func (a asleep) Report(context.Context, *nodev1.ReportRequest, ...grpc.CallOption) (*nodev1.Report, error) {
	return &nodev1.Report{Run: a.run, Status: &nodev1.Status{State: a.state.String()}}, nil
}

func (a asleep) Command(
	_ context.Context, q *nodev1.CommandRequest, _ ...grpc.CallOption,
) (*nodev1.CommandResponse, error) {
	if q.GetCommand() == nodev1.Command_COMMAND_STOP && q.GetAbandon() {
		*a.dropped = q.GetRun()
	}
	return &nodev1.CommandResponse{}, nil
}

// A node that stood still when the run lost it, and when it ended, holds its output open: who completes the record has
// it drop that run, and no other (found by the soak, plan 27 of seed 1 with pauses).
func TestSleptThroughTheEnd(t *testing.T) {
	for name, c := range map[string]struct {
		unread string
		run    uint32
		state  fsm.State
		want   uint32
	}{
		"it goes on":               {"n0", 7, fsm.Running, 7},
		"it goes on, and pauses":   {"n0", 7, fsm.Paused, 7},
		"it has ended":             {"n0", 7, fsm.Ready, 0},
		"it is in the next run":    {"n0", 8, fsm.Running, 0},
		"what it wrote was read":   {"n1", 7, fsm.Running, 0},
		"it is at rest, and fresh": {"n0", 0, fsm.Offline, 0},
	} {
		cfg := config.Completed{Config: config.Default()}
		cfg.RunNumber = 7
		nodeSet := NewNodeSet(Options{Log: slog.New(slog.DiscardHandler)}, cfg)
		var dropped uint32
		nodeSet.nodes = []*member{{name: "n0", client: asleep{run: c.run, state: c.state, dropped: &dropped}}}
		late := LateCompletion{Configuration: cfg, Unread: []string{c.unread}}
		if late.retire(t.Context(), nodeSet.NewRun(7)); dropped != c.want {
			t.Errorf("%s: it was told to drop run %d, want %d", name, dropped, c.want)
		}
	}
}

// Who may have more in files than was read.
func TestUnread(t *testing.T) {
	for name, c := range map[string]struct {
		found  bool
		silent string
		built  uint64
		unread bool
		said   bool
	}{
		"it was read":                {true, "", 5, false, false},
		"another read what it wrote": {true, "it is gone", 5, false, false},
		"it is gone":                 {false, "it is gone", 5, true, true},
		"it is gone, and nobody knows of any MEP":  {false, "it is gone", 0, true, false},
		"it has told of MEPs, and of no directory": {false, "", 5, true, true},
		"it has written nothing":                   {false, "", 0, false, false},
	} {
		o := &readBackOutput{foundBUs: map[uint32]bool{3: c.found}, silentReasons: map[string]string{}}
		if c.silent != "" {
			o.silentReasons["n3"] = c.silent
		}
		o.noteUnread([]wantedOutput{{"n3", 3, c.built}}, "/data/run-000007")
		if (len(o.unreadNodes) > 0) != c.unread || (len(o.problems) > 0) != c.said {
			t.Errorf("%s: unread %v, said %q", name, o.unreadNodes, o.problems)
		}
	}
}

// However often and in whichever parts the output of a run is read, each event has one outcome, the report claims no
// more than the files have, and in the end it is as if all had been read at once.
func TestCompletedInParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const packing = 10
		cfg := config.Completed{Config: config.Default()}
		cfg.Packing = packing
		triggered := rapid.Uint64Range(0, 40).Draw(t, "triggered") * packing
		lost := rapid.Bool().Draw(t, "the scheduler was lost")
		first := Report{EventsTriggered: triggered, EventsFromFiles: lost, GivenUp: true}
		first.EventsAbandoned = triggered
		if lost {
			first.EventsAbandoned = 0
		}
		first.Accounts = []Check{first.outcomesCheck()}
		rounds := rapid.SliceOfN(rapid.SliceOf(rapid.Uint64Range(0, 50)), 1, 4).Draw(t, "MEPs of each builder unit")
		all, report := recording.NewMEPSet(packing), first
		for _, meps := range rounds {
			for _, mep := range meps {
				all.Add(recording.Entry{MEP: mep, Events: packing, Attempt: 0})
			}
			report.completeWith(&cfg, &readBackOutput{mepSet: all})
			sum := report.EventsBuilt + report.EventsAbandoned
			switch {
			case sum != report.EventsTriggered:
				t.Fatalf("%d triggered, %d have an outcome", report.EventsTriggered, sum)
			case report.OutputEvents != all.Events() || report.EventsBuilt > all.Events():
				t.Fatalf("%d events are there; %d in the output, %d built",
					all.Events(), report.OutputEvents, report.EventsBuilt)
			case failing(report.Accounts) != nil || !report.AccountingOK:
				t.Fatalf("%v", report.Accounts)
			}
		}
		once := first
		once.Accounts = slices.Clone(first.Accounts)
		once.completeWith(&cfg, &readBackOutput{mepSet: all})
		if report.EventsBuilt != once.EventsBuilt || report.EventsTriggered != once.EventsTriggered {
			t.Fatalf("%d of %d built when read in parts, %d of %d at once",
				report.EventsBuilt, report.EventsTriggered, once.EventsBuilt, once.EventsTriggered)
		}
	})
}

// A single file is made, and its segments go, only when no node is left whose segments are known of and not there.
func TestUnreadIsNotMerged(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.mep")
	cfg := config.Completed{Config: config.Default()}
	cfg.Output, cfg.RunNumber, cfg.Overwrite = file, 7, true
	if err := cfg.Complete(); err != nil {
		t.Fatal(err)
	}
	run, err := recording.OpenRun(node.OutputDir(cfg), recording.Manifest{Run: 7, Format: recording.FormatMEP, Packing: 4},
		false)
	if err != nil {
		t.Fatal(err)
	}
	m, err := recording.Load(run)
	if err != nil {
		t.Fatal(err)
	}
	r := NewNodeSet(Options{}, cfg).NewRun(7)
	out := &Report{OutputEvents: 8, RecordedOutput: &Output{Directory: run}}
	read := &readBackOutput{directories: []*runDirectory{{id: m.ID}}, unreadWithMEPs: []string{"n3"}}
	(&outputs{Run: r}).mergeOutputs(out, read)
	if !out.Unmerged || len(out.RecordedOutput.Problems) != 1 ||
		!strings.Contains(out.RecordedOutput.Problems[0], "segments of n3") {
		t.Errorf("unmerged %v: %q", out.Unmerged, out.RecordedOutput.Problems)
	}
}

// What is known of files is read again only for an answer that may lead to more.
func TestPromising(t *testing.T) {
	cfg := config.Completed{Config: config.Default()}
	cfg.RUs, cfg.BUs, cfg.Nodes = 0, 0, 3
	if err := cfg.Complete(); err != nil {
		t.Fatal(err)
	}
	at := func(id string) *runDirectory { return &runDirectory{id: id} }
	silent := errors.New("it has not joined")
	for name, c := range map[string]struct {
		answers []outputAnswer
		want    bool
	}{
		"nobody is back": {[]outputAnswer{{name: "n0", directory: at("a")}, {name: "n1", err: silent},
			{name: "n2", err: silent}}, false},
		"one is back with its files": {[]outputAnswer{{name: "n0", directory: at("a")}, {name: "n1", directory: at("a")},
			{name: "n2", err: silent}}, true},
		"one is back without": {[]outputAnswer{{name: "n0", directory: at("a")}, {name: "n1"},
			{name: "n2", err: silent}}, false},
		"one that had told of nothing": {[]outputAnswer{{name: "n0", directory: at("a")}, {name: "n1", err: silent},
			{name: "n2"}}, true},
		"a stranger has its files": {[]outputAnswer{{name: "n0", directory: at("a")}, {name: "n9", directory: at("b")},
			{name: "n1", err: silent}}, true},
	} {
		late := LateCompletion{
			Configuration: cfg,
			Names:         []string{"n0", "n1", "n2"},
			Unread:        []string{"n1", "n2"},
			Report: &Report{
				RecordedOutput: &Output{Hosts: []string{"h0"}},
				Builders:       []BuilderShare{{Node: "n0", MEPs: 4}, {Node: "n1", MEPs: 3}},
			},
		}
		if got := late.expectsMore(c.answers); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
