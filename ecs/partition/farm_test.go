package partition_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ringlet/ecs/journal"
	"ringlet/ecs/partition"
	"ringlet/ecs/partition/nodes"
	"ringlet/ecs/record"
	"ringlet/internal/nodename"
	"ringlet/internal/safeopen"
	"ringlet/node"
	"ringlet/node/certs"
	"ringlet/node/cluster"
	"ringlet/node/config"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
	"ringlet/testkit/ports"
)

// A probe that memberlist has under way when it is shut down waits for its answer as long as it would have otherwise.
func TestMain(m *testing.M) {
	must.LimitParallel(6, 2)
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).probeNode"))
}

// farm is a partition with its nodes, all in this process, over loopback.
type farm struct {
	*partition.Partition

	t          *testing.T
	ca         *certs.CA
	key        []byte
	cfg        config.Config
	path       string // of the store
	inputs     string // directory of inputs
	store      *record.Store
	disk       disk // of the store
	journal    *journal.Journal
	members    *cluster.Cluster
	spawner    partition.Spawner // of the next control; nil: nodes are started by the test
	port       int               // of the control's gossip
	minTimeout time.Duration     // of the next control
	roles      map[string]string // of nodes that are started next, by name; both where there is none
	counts     map[string]int    // how many nodes each process has

	mu          sync.Mutex
	nodes       map[string]context.CancelFunc
	endRequests map[string]chan struct{}         // closed: the node asks to be let go
	gone        map[string]chan struct{}         // closed: the node has ended
	reporters   map[string]func() *nodev1.Report // what a node tells, whether a control is there or not
	wg          sync.WaitGroup
}

// farms counts them.
var farms atomic.Uint32

// controlSilence of a control is tolerated so long where nodes are to end a run by themselves. A control that is there
// is heard within it, however busy the machine is.
var controlSilence = patiently.Scaled(5 * time.Second)

// timing of the gossip: who is busy has not failed.
func timing() cluster.Timing {
	t := cluster.LocalTiming()
	t.SuspicionMult *= 3
	return t
}

// certLifetime of the certificates: no test lives longer.
const certLifetime = time.Hour

// newFarm makes a control and as many nodes, n0 and so on, that have joined.
func newFarm(t *testing.T, nodes int, change func(*config.Config)) *farm {
	t.Helper()
	var names []string
	for i := range nodes {
		names = append(names, fmt.Sprintf("n%d", i))
	}
	return newFarmOf(t, names, nil, change)
}

// newFarmOf makes a control and nodes of these names and roles, that have joined; n0 and n0.1 share a process.
func newFarmOf(t *testing.T, names []string, roles map[string]string, change func(*config.Config)) *farm {
	t.Helper()
	ca, err := certs.NewCA(certLifetime)
	if err != nil {
		t.Fatal(err)
	}
	h := &farm{
		t:           t,
		ca:          ca,
		key:         certs.NewGossipKey(),
		cfg:         config.Default(),
		path:        filepath.Join(t.TempDir(), "runs.db"),
		inputs:      t.TempDir(),
		nodes:       map[string]context.CancelFunc{},
		endRequests: map[string]chan struct{}{},
		gone:        map[string]chan struct{}{},
		port:        ports.Reserve(t),

		minTimeout: patiently.LongTimeout,
		reporters:  map[string]func() *nodev1.Report{},
		roles:      roles,
		counts:     nodename.CountPerProcess(names),
	}
	h.cfg.Nodes, h.cfg.Packing, h.cfg.Slots = len(names), 500, 4
	h.cfg.Rate, h.cfg.FragmentSize = 20_000, 30        // leaves the processors free for what is tried
	h.cfg.Debug.BarrierTimeout = patiently.LongTimeout // a busy machine is no fault
	h.cfg.Silence = 12 * time.Second                   // nor is a process that gets no processor
	// names the segments of configured nodes, all of which live in this process
	h.cfg.RunNumber = farms.Add(1)
	if change != nil {
		change(&h.cfg)
	}
	h.startControl()
	t.Cleanup(func() {
		h.stopControl()
		h.mu.Lock()
		for _, end := range h.nodes {
			end()
		}
		h.mu.Unlock()
		patiently.Wait(t, h.wg.Wait)
	})
	for _, process := range slices.Sorted(maps.Keys(h.counts)) {
		h.startNode(process)
	}
	h.awaitJoined(len(names))
	return h
}

func (h *farm) identity(name string, role certs.Role) *certs.Identity {
	id, err := h.ca.Issue(name, []string{"127.0.0.1"}, role, certLifetime)
	if err != nil {
		h.t.Fatal(err)
	}
	return id
}

// startControl brings the run control up, for the first time or again.
func (h *farm) startControl() {
	h.t.Helper()
	var err error
	if h.store, err = record.Open(h.path); err != nil {
		h.t.Fatal(err)
	}
	h.store.RaiseTimeout(h.minTimeout)
	h.journal = journal.New(1000, uint64(time.Now().UnixMicro()))
	id := h.identity(nodes.ControlName, certs.RoleControl)
	h.members, err = cluster.Open(h.t.Context(), cluster.Config{
		Name:     nodes.ControlName,
		BindAddr: "127.0.0.1",
		BindPort: h.port,
		Key:      h.key,
		Timing:   timing(),
		Logger:   slog.New(slog.DiscardHandler),
		Meta:     cluster.Meta{Roles: cluster.Control, Version: "test"},
	})
	if err != nil {
		h.t.Fatal(err)
	}
	h.Partition = partition.New(partition.Config{
		Default:       h.cfg,
		Members:       h.members,
		Store:         &onDisk{h.store, &h.disk},
		Journal:       h.journal,
		Identity:      id,
		Host:          "127.0.0.1",
		Version:       "test",
		AllowedInputs: &safeopen.AllowedPaths{Dirs: []string{h.inputs}},
		ReadyTimeout:  patiently.LongTimeout,
		JoinTimeout:   patiently.Scaled(2 * time.Second),
		MinTimeout:    h.minTimeout,
		Spawner:       h.spawner,
		Log:           slog.New(slog.DiscardHandler),
	})
}

// stopControl takes the run control away; the nodes stay as they are.
func (h *farm) stopControl() {
	h.t.Helper()
	if err := h.Close(); err != nil {
		h.t.Error(err)
	}
	if err := h.members.Close(); err != nil {
		h.t.Error(err)
	}
	if h.store == nil {
		return // it could not be opened, which ended the test
	}
	if err := h.store.Close(); err != nil {
		h.t.Error(err)
	}
}

// startNode starts one, with those that share its process, which ends with end or the test.
func (h *farm) startNode(name string) {
	ctx, cancel := context.WithCancel(context.Background())
	endRequest, gone := make(chan struct{}), make(chan struct{})
	h.mu.Lock()
	h.nodes[name], h.endRequests[name], h.gone[name] = cancel, endRequest, gone
	h.mu.Unlock()
	role, id := h.roles[name], h.identity(name, certs.RoleNode)
	monitor, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		h.t.Fatal(err)
	}
	h.wg.Go(func() {
		defer close(gone)
		err := node.Run(ctx, node.Config{
			Name:            name,
			Nodes:           h.counts[name],
			Host:            "127.0.0.1",
			Join:            []string{fmt.Sprintf("127.0.0.1:%d", h.port)},
			Identity:        id,
			GossipKey:       h.key,
			Roles:           cluster.ParseRole(cmp.Or(role, "both")),
			Version:         "test",
			GossipTiming:    timing(),
			IdleTimeout:     patiently.Scaled(30 * time.Second), // a busy machine hears nothing of a peer for seconds
			MinTimeout:      patiently.LongTimeout,
			Log:             slog.New(slog.DiscardHandler),
			LeaveRequest:    endRequest,
			LeaveGrace:      time.Minute,
			MonitorListener: monitor,
			NewMetricsHandler: func(reports map[string]func() *nodev1.Report) http.Handler {
				h.mu.Lock()
				defer h.mu.Unlock()
				maps.Copy(h.reporters, reports)
				return http.NotFoundHandler()
			},
		})
		if err != nil {
			h.t.Errorf("%s: %v", name, err)
		}
	})
}

// report is what a node tells.
func (h *farm) report(name string) *nodev1.Report {
	h.mu.Lock()
	report := h.reporters[name]
	h.mu.Unlock()
	return report()
}

// endNode ends a node at once.
func (h *farm) endNode(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.nodes[name]()
}

// nodeEnded says whether a node has.
func (h *farm) nodeEnded(name string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-h.gone[name]:
		return true
	default:
		return false
	}
}

// requestEnd has a node ask to be let go.
func (h *farm) requestEnd(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.endRequests[name])
}

// awaitJoined waits until so many nodes are there.
func (h *farm) awaitJoined(nodes int) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), patiently.LongTimeout)
	defer cancel()
	there := h.members.WaitUntil(ctx, func(there map[string]cluster.Member) bool { return len(there) == nodes+1 })
	if len(there) != nodes+1 {
		h.t.Fatalf("only %v have joined", there)
	}
}

// command gives a command and returns its error.
func (h *farm) command(name string, args ...string) error {
	h.t.Helper()
	req := &ecsv1.CommandRequest{Command: name, Arguments: map[string]string{}}
	for i := 0; i < len(args); i += 2 {
		req.Arguments[args[i]] = args[i+1]
	}
	ctx, cancel := context.WithTimeout(h.t.Context(), patiently.LongTimeout)
	defer cancel()
	_, err := h.Command(ctx, "alice", req)
	return err
}

// mustCommand gives commands without arguments that have to succeed.
func (h *farm) mustCommand(names ...string) {
	h.t.Helper()
	for _, name := range names {
		if err := h.command(name); err != nil {
			h.t.Fatalf("%s: %v", name, err)
		}
	}
}

// await waits for something to become true, which every busy machine comes to.
func (h *farm) await(what string, true func() bool) {
	h.t.Helper()
	for deadline := time.Now().Add(patiently.LongTimeout); !true(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			h.t.Fatalf("waited in vain: %s; the partition is %s: %v", what, h.state(), h.Status().GetRoot().GetCause())
		}
	}
}

func (h *farm) state() string { return h.Status().GetRoot().GetState() }

// awaitBuilt waits until the run that goes on has built events, more than before.
func (h *farm) awaitBuilt(more uint64) uint64 {
	h.t.Helper()
	var n uint64
	h.await("events are built", func() bool { n = h.Built(); return n > more })
	return n
}

// awaitBuilding waits until the run of that number does.
func (h *farm) awaitBuilding(number uint32) {
	h.t.Helper()
	h.await("it builds", func() bool { return h.Status().GetRun() == number && h.Built() > 0 })
}

// awaitClosed waits until a run has its end on record, and is that record.
func (h *farm) awaitClosed(number uint32) *ecsv1.Run {
	h.t.Helper()
	h.await("the run is over", func() bool { r, err := h.store.Get(number); return err == nil && record.IsClosed(r) })
	return h.closedRun(number)
}

// awaitState waits until the partition is in a state.
func (h *farm) awaitState(state string) {
	h.t.Helper()
	h.await("the partition is "+state, func() bool { return h.state() == state })
}

// restartControl is a control that comes back; it waits until so many nodes have joined it. With 0 some are gone, and
// it is not to wait long for their answers.
func (h *farm) restartControl(nodes int) {
	h.t.Helper()
	if nodes == 0 {
		h.minTimeout = patiently.Scaled(8 * time.Second)
	}
	h.startControl()
	if err := h.Adopt(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
	if nodes > 0 {
		h.awaitJoined(nodes)
	}
}

// closedRun is the record of a run that must be over.
func (h *farm) closedRun(number uint32) *ecsv1.Run {
	h.t.Helper()
	r, err := h.store.Get(number)
	if err != nil {
		h.t.Fatal(err)
	}
	if r.GetStopDone() == nil {
		h.t.Fatalf("run %d is not over: %v", number, r)
	}
	return r
}

// journalHas says whether the journal has an event of a kind with a text.
func (h *farm) journalHas(kind, text string) bool {
	return slices.ContainsFunc(h.journal.EventsSince(0), func(e *ecsv1.Event) bool {
		return e.GetKind() == kind && strings.Contains(e.GetText(), text)
	})
}
