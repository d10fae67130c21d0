package nodes

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"ringlet/ecs/partition/fault"
	"ringlet/node/config"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/testkit/patiently"
)

// watched is a node service that reports all the time, behind a link that can be cut.
type watched struct {
	nodev1.UnimplementedNodeServer
	nodeSet *NodeSet

	lis    net.Listener
	server *grpc.Server

	mu     sync.Mutex // guards what follows
	report *nodev1.Report
	conns  []net.Conn
	cut    bool
}

func newWatched(t *testing.T) *watched {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &watched{lis: lis, server: grpc.NewServer(), report: &nodev1.Report{Name: "n0", View: 7,
		Status: &nodev1.Status{State: "Running"}}}
	nodev1.RegisterNodeServer(w.server, w)
	var serving sync.WaitGroup
	serving.Go(func() { _ = w.server.Serve(w) })
	conn, err := grpc.NewClient(lis.Addr().String(), append(new(Options).dialOptions(),
		grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	w.nodeSet = NewNodeSet(Options{Log: slog.New(slog.DiscardHandler)}, config.Completed{})
	w.nodeSet.nodes = []*member{{name: "n0", conn: newSwapConn(conn), client: nodev1.NewNodeClient(conn),
		firstEntry: &nodev1.Member{Name: "n0"}}}
	w.nodeSet.view.Store(&nodev1.View{Number: 7})
	t.Cleanup(func() {
		_ = conn.Close()
		w.server.Stop()
		patiently.Wait(t, serving.Wait)
	})
	return w
}

// Accept ends at once what comes while the link is cut, as the listener of w.server.
func (w *watched) Accept() (net.Conn, error) {
	for {
		conn, err := w.lis.Accept()
		if err != nil {
			return nil, err
		}
		w.mu.Lock()
		cut := w.cut
		w.conns = append(w.conns, conn)
		w.mu.Unlock()
		if !cut {
			return conn, nil
		}
		_ = conn.Close()
	}
}

func (w *watched) Close() error   { return w.lis.Close() }
func (w *watched) Addr() net.Addr { return w.lis.Addr() }

// link cuts the link or heals it, and has the node report something else from then on.
func (w *watched) link(cut bool, report *nodev1.Report) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut, w.report = cut, report
	for _, c := range w.conns {
		if cut {
			_ = c.Close()
		}
	}
}

func (w *watched) Watch(_ *nodev1.WatchRequest, out nodev1.Node_WatchServer) error {
	for {
		w.mu.Lock()
		rep := w.report
		w.mu.Unlock()
		if err := out.Send(rep); err != nil {
			return err
		}
		select {
		case <-out.Context().Done():
			return out.Context().Err()
		case <-time.After(time.Millisecond):
		}
	}
}

// awaitReport waits until the node's latest report is of a run.
func (w *watched) awaitReport(t *testing.T, run uint32) {
	t.Helper()
	for deadline := time.Now().Add(patiently.LongTimeout); !w.reported(run); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("of run %d nothing is heard", run)
		}
	}
}

func (w *watched) reported(run uint32) bool {
	rep := w.nodeSet.nodes[0].latestReport()
	return rep != nil && rep.GetRun() == run
}

// followUntilGone attends to the node until that ends, or the test does.
func (w *watched) followUntilGone(t *testing.T, timeout time.Duration) <-chan error {
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 1)
	var wg sync.WaitGroup
	wg.Go(func() { over <- w.nodeSet.watch.followUntilGone(ctx, w.nodeSet.nodes[0], timeout) })
	t.Cleanup(func() { cancel(); patiently.Wait(t, wg.Wait) })
	w.awaitReport(t, 0)
	return over
}

func running(run uint32) *nodev1.Report {
	return &nodev1.Report{
		Name:   "n0",
		Run:    run,
		View:   7,
		Status: &nodev1.Status{State: "Running"},
	}
}

// A control that was cut off from a node for a while hears it again, and nothing has happened.
func TestCutHeals(t *testing.T) {
	w := newWatched(t)
	over := w.followUntilGone(t, time.Hour)
	for run := uint32(1); run <= 2; run++ {
		w.link(true, running(run))
		time.Sleep(2 * rewatchInterval) // it tries in vain
		w.link(false, running(run))
		w.awaitReport(t, run)
	}
	select {
	case err := <-over:
		t.Errorf("the node was given up: %v", err)
	default:
	}
	if w.nodeSet.faults.cause() != nil {
		t.Error(w.nodeSet.faults.cause())
	}
}

// A node is gone when its process has ended, however long a cut is tolerated, or is another one, or when the cut does
// not heal.
func TestGone(t *testing.T) {
	for name, c := range map[string]struct {
		timeout time.Duration
		then    func(*watched)
		says    string
	}{
		"the process has ended": {time.Hour, func(w *watched) { w.server.Stop() }, "connection refused"},
		"the process is a new one": {time.Hour, func(w *watched) {
			fresh := &nodev1.Report{Name: "n0", Status: &nodev1.Status{State: "Offline"}}
			w.link(true, fresh)
			w.link(false, fresh)
		}, "a new process answers"},
		"another node has the address": {time.Hour, func(w *watched) {
			other := running(1)
			other.Name = "n4"
			w.link(true, other)
			w.link(false, other)
		}, "the process of n4 answers"},
		"the cut stays": {2 * rewatchInterval, func(w *watched) { w.link(true, running(1)) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWatched(t)
			over := w.followUntilGone(t, c.timeout)
			c.then(w)
			if err := patiently.Receive(t, over); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("it ends with %v", err)
			}
		})
	}
}

func TestPassing(t *testing.T) {
	for want, errs := range map[bool][]error{
		true: {io.EOF, status.Error(codes.Unavailable, "error reading from server: EOF"),
			status.Error(codes.Unavailable, "keepalive ping failed")},
		false: {&newProcessError{}, errors.New("x"), status.Error(codes.PermissionDenied, "no"),
			status.Error(codes.Unavailable, "dial tcp 127.0.0.1:1: connect: connection refused")},
	} {
		for _, err := range errs {
			if isTransient(err) != want {
				t.Errorf("%v: %v", err, !want)
			}
		}
	}
}

// A node that ends in a run before it has told anything of it is lost to that run, though its last word is that the run
// before is over for it.
func TestEndsBeforeItReportsItsRun(t *testing.T) {
	for name, c := range map[string]struct {
		of     uint32 // run of its last report, which is final
		struck bool
	}{
		"done":              {8, false},
		"done with another": {7, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWatched(t)
			w.nodeSet.nodes[0].faults = w.nodeSet.faults
			w.nodeSet.NewRun(8)
			last := running(c.of)
			last.Final = true
			w.link(false, last)
			w.nodeSet.watch.begin()
			defer w.nodeSet.watch.end()
			w.awaitReport(t, c.of)
			w.server.Stop()
			gone := func() bool {
				return queryCore(w.nodeSet.faults, func(core *fault.Core) bool { return core.PresenceOf("n0").Gone != "" })
			}
			for deadline := time.Now().Add(patiently.LongTimeout); !gone(); time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("nobody sees that it is gone")
				}
			}
			if struck := w.nodeSet.faults.cause() != nil; struck != c.struck {
				t.Errorf("it is a fault: %v, want %v", struck, c.struck)
			}
		})
	}
}
