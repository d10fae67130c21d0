package node

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ringlet/node/certs"
	"ringlet/node/cluster"
	"ringlet/node/sdnotify"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/testkit/issuer"
	"ringlet/testkit/patiently"
)

// TestNodesOfAProcess: each is a member of its own, and service manager and monitor hear of all of them once.
func TestNodesOfAProcess(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	t.Setenv("NOTIFY_SOCKET", socket)
	notifier, err := sdnotify.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer notifier.Close()
	monitor, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	received := make(chan string, 1) // the manager reads all the time: what does not fit into its socket is dropped
	go func() {
		notified, b := "", make([]byte, 4096)
		for !strings.Contains(notified, "STOPPING=1") {
			n, err := manager.Read(b)
			if err != nil {
				break
			}
			notified += string(b[:n]) + "\n"
		}
		received <- notified
	}()
	reports := make(chan map[string]func() *nodev1.Report, 1)
	leave := make(chan struct{})
	c := newCrowd(t)
	ended := c.start("n0", Config{Name: "n0", Nodes: 3, Notifier: notifier, MonitorListener: monitor,
		LeaveRequest: leave, LeaveGrace: time.Minute,
		NewMetricsHandler: func(of map[string]func() *nodev1.Report) http.Handler { reports <- of; return nil }})
	if err := c.seed.WaitForMembers(t.Context(), "n0", "n0.1", "n0.2"); err != nil {
		t.Fatal(err)
	}
	of := patiently.Hold(reports)
	names := strings.Join(slices.Sorted(maps.Keys(of)), " ")
	if names != "n0 n0.1 n0.2" || of["n0.2"]().GetName() != "n0.2" {
		t.Errorf("reports of %s; that of n0.2 is %v", names, of["n0.2"]())
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for path, want := range map[string]string{
		"/livez": "alive\n", "/readyz": "n0 Offline, n0.1 Offline, n0.2 Offline\n",
	} {
		patiently.Until(t, path+" says "+want, func() bool { // others see a node in the cluster before it knows that
			r, err := client.Get("http://" + monitor.Addr().String() + path)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Body.Close()
			body, err := io.ReadAll(r.Body)
			return err == nil && string(body) == want
		})
	}
	close(leave)
	if err := patiently.Receive(t, ended); err != nil {
		t.Error(err)
	}
	notified := patiently.Receive(t, received, "the service manager did not hear that the process ends")
	if strings.Count(notified, "READY=1") != 1 || !strings.Contains(notified, "in the cluster as n0, at ") {
		t.Errorf("the service manager heard %q", notified)
	}
}

// TestANodeThatCannotJoinEndsItsProcess: the others of the process do not go on without it.
func TestANodeThatCannotJoinEndsItsProcess(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	first := c.start("n0", Config{Name: "n0.1"})
	if err := c.seed.WaitForMembers(t.Context(), "n0.1"); err != nil {
		t.Fatal(err)
	}
	second := c.start("n0", Config{Name: "n0", Nodes: 3})
	if err := patiently.Receive(t, second); err == nil || !strings.Contains(err.Error(), "n0.1 cannot join") {
		t.Errorf("it ended with %v", err)
	}
	select {
	case err := <-first:
		t.Errorf("the node that had the name has ended: %v", err)
	default:
	}
}

// TestPortsOfNodes: the nodes of a process have ports one behind the other.
func TestPortsOfNodes(t *testing.T) {
	c := Config{Name: "n0", Ports: Ports{Data: 9000, Gossip: 9100}}
	if got := c.forNode(2); got.Name != "n0.2" || got.Ports != (Ports{Data: 9002, Gossip: 9102}) {
		t.Errorf("the third node is %s at %v", got.Name, got.Ports)
	}
}

// crowd is a cluster for processes with several nodes.
type crowd struct {
	t     *testing.T
	seed  *cluster.Cluster
	key   []byte
	issue func(name string, role certs.Role) *certs.Identity
}

func newCrowd(t *testing.T) *crowd {
	t.Helper()
	c := &crowd{t: t, key: certs.NewGossipKey(), issue: issuer.New(t)}
	var err error
	c.seed, err = cluster.Open(t.Context(), cluster.Config{
		Name:   ControlName,
		Key:    c.key,
		Timing: cluster.LocalTiming(),
		Meta:   cluster.Meta{Roles: cluster.Control},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.seed.Close() })
	return c
}

// start starts a process, which ends with the test, and returns how it ends.
func (c *crowd) start(keys string, cfg Config) chan error {
	c.t.Helper()
	cfg.Host, cfg.Join = "127.0.0.1", []string{c.seed.Addr().String()}
	cfg.Identity, cfg.GossipKey, cfg.Roles = c.issue(keys, certs.RoleNode), c.key, cluster.Readout|cluster.Builder
	cfg.GossipTiming = cluster.LocalTiming()
	cfg.GossipTiming.ReclaimTimeout = 0 // a name that is taken is not waited for
	cfg.MinTimeout, cfg.Log = patiently.LongTimeout, slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithCancel(context.Background())
	ended, over := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(over)
		ended <- Run(ctx, cfg)
	}()
	c.t.Cleanup(func() {
		cancel()
		patiently.Receive(c.t, over)
	})
	return ended
}
