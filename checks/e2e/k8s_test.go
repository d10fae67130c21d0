package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// unfolded are settings with which nodes n-3 to n-5 are builder units only: one of them may be lost.
var unfolded = []string{"nodes=6", "rus=3", "bus=3", "builder-loss=at-least 1 of 3"}

// kubernetes is the cluster of KUBECONFIG.
type kubernetes struct {
	t       *testing.T
	kubectl string
	ringlet string // the binary
	keys    string // directory of keys
	wanted  int    // pods
}

func (k *kubernetes) try(args ...string) (string, error) { return output(nil, nil, k.kubectl, args...) }

func (k *kubernetes) must(args ...string) string {
	k.t.Helper()
	return must(k.t, k.kubectl, args...)
}

// pod of a listing.
type pod struct {
	Metadata struct{ Name, UID string }
	Spec     struct{ NodeName string }
	Status   struct {
		Conditions        []struct{ Type, Status string }
		ContainerStatuses []struct{ RestartCount int }
	}
}

// life tells a pod, or a process in it, from the one before.
func (p pod) life() string {
	life := p.Metadata.UID
	for _, c := range p.Status.ContainerStatuses {
		life += fmt.Sprint(" ", c.RestartCount)
	}
	return life
}

func (p pod) ready() bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c struct {
		Type,
		Status string
	}) bool {
		return c.Type == "Ready" && c.Status == "True"
	})
}

// pods of Ringlet by name.
func (k *kubernetes) pods() map[string]pod {
	k.t.Helper()
	var list struct{ Items []pod }
	if err := json.Unmarshal([]byte(k.must("-n", "ringlet", "get", "pods", "-o", "json")), &list); err != nil {
		k.t.Fatal(err)
	}
	out := map[string]pod{}
	for _, p := range list.Items {
		out[p.Metadata.Name] = p
	}
	return out
}

// allReady waits until all pods are, and says how long that took.
func (k *kubernetes) allReady(most time.Duration) time.Duration {
	k.t.Helper()
	return eventually(k.t, most, fmt.Sprintf("%d pods are ready", k.wanted), func() bool {
		ready := 0
		for _, p := range k.pods() {
			if p.ready() {
				ready++
			}
		}
		return ready == k.wanted
	})
}

// forward keeps a way to a port of the control open until the test ends, and returns its address.
func (k *kubernetes) forward(to string) string {
	k.t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		k.t.Fatal(err)
	}
	address := lis.Addr().String()
	_ = lis.Close() // kubectl takes it; should somebody else be faster, every command will say so
	_, port, _ := net.SplitHostPort(address)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil { // it ends with the pod, or with the container in it
			cmd := exec.CommandContext(ctx, k.kubectl, "-n", "ringlet", "port-forward", "pod/ringlet-control-0", port+":"+to)
			cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			_ = cmd.Run()
			time.Sleep(200 * time.Millisecond)
		}
	}()
	k.t.Cleanup(func() { cancel(); <-done }) // bounded by ctx, which ends kubectl
	return address
}

// crew commands through that way.
func (k *kubernetes) crew() crew {
	k.t.Helper()
	return crew{[]string{k.ringlet, "ctl", "--control", k.forward("7947"), "--certs", k.keys, "--user", "crew"}}
}

// lab is where the lab's scripts are, if the cluster is the lab's.
func (k *kubernetes) lab() string {
	k.t.Helper()
	lab := os.Getenv("RINGLET_LAB")
	if lab == "" {
		lab = repository(k.t, "../shared/lab/kubernetes")
	}
	if _, err := os.Stat(filepath.Join(lab, "load.sh")); err != nil ||
		!strings.Contains(os.Getenv("KUBECONFIG"), "ringlet-lab") {
		return ""
	}
	return lab
}

// image makes the image and puts it where the cluster has its images: known for the lab's cluster, a matter of the
// user's for any other.
func (k *kubernetes) image() {
	k.t.Helper()
	lab := k.lab()
	if lab == "" {
		k.t.Log("not the lab's cluster: localhost/ringlet:1 has to be on its hosts already (make image)")
		return
	}
	tar := filepath.Join(k.t.TempDir(), "ringlet.tar")
	must(k.t, filepath.Join(lab, "mkimage.sh"), "localhost/ringlet:1", k.ringlet, tar)
	must(k.t, filepath.Join(lab, "load.sh"), tar)
}

func openKubernetes(t *testing.T) *kubernetes {
	t.Helper()
	wanted(t, "k8s")
	if os.Getenv("KUBECONFIG") == "" {
		t.Skip("SKIPPED: KUBECONFIG names no cluster")
	}
	k := &kubernetes{
		t:       t,
		kubectl: "kubectl",
		ringlet: repository(t, "bin/ringlet"),
		keys:    t.TempDir(),
	}
	if lab := filepath.Join(filepath.Dir(filepath.Dir(os.Getenv("KUBECONFIG"))), "bin/kubectl"); exec.Command(lab,
		"version", "--client").Run() == nil {
		k.kubectl = lab // of the cluster's own version
	}
	needs(t, k.kubectl)
	if out, err := k.try("get", "nodes"); err != nil {
		t.Skipf("SKIPPED: the cluster of %s does not answer: %v", os.Getenv("KUBECONFIG"), err)
	} else {
		t.Log("\n" + out)
	}
	return k
}

// names are those of n nodes of a set.
func names(n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprint("n-", i))
	}
	return out
}

// deploy applies an overlay of these nodes and the control, and takes it away again when the test ends.
func (k *kubernetes) deploy(place string, nodes ...string) time.Duration {
	k.t.Helper()
	place, k.wanted = repository(k.t, place), len(nodes)+1
	k.image()
	k.t.Cleanup(func() {
		if k.t.Failed() {
			k.printState()
		}
		k.must("delete", "namespace", "ringlet", "--wait", "--timeout=120s")
	})
	k.must("apply", "-f", repository(k.t, "k8s/base/namespace.yaml"))
	keys := slices.Clone(nodes)
	for _, n := range names(4) { // the base has their keys
		if !slices.Contains(keys, n) {
			keys = append(keys, n)
		}
	}
	secrets, err := output([]string{"RINGLET=" + k.ringlet, "KUBECTL=" + k.kubectl}, nil,
		repository(k.t, "k8s/dev-certs.sh"), strings.Join(keys, ","), k.keys)
	if err != nil {
		k.t.Fatal(err)
	}
	if _, err := output(nil, []byte(secrets), k.kubectl, "apply", "-f", "-"); err != nil {
		k.t.Fatal(err)
	}
	k.must("apply", "--dry-run=server", "-k", place)
	k.must("apply", "-k", place)
	return k.allReady(2 * time.Minute)
}

// printState prints what there is to know about pods when something went wrong.
func (k *kubernetes) printState() {
	for _, args := range [][]string{
		{"get", "pods", "-o", "wide"}, {"get", "events", "--sort-by=.lastTimestamp"},
		{"logs", "ringlet-control-0", "--tail=50"},
		{"logs", "-l", "app.kubernetes.io/component=node", "--tail=15", "--prefix"},
	} {
		out, err := k.try(append([]string{"-n", "ringlet"}, args...)...)
		k.t.Logf("kubectl %v: %v\n%s", args, err, out)
	}
}

func TestKubernetes(t *testing.T) {
	k := openKubernetes(t)
	var f figures
	f.took("six nodes and the control Ready, after apply", k.deploy("k8s/overlays/test-cluster", names(6)...))
	c := k.crew()

	hosts := map[string]int{}
	for name, p := range k.pods() {
		if name != "ringlet-control-0" {
			hosts[p.Spec.NodeName]++
		}
	}
	if len(hosts) != 3 {
		t.Errorf("six nodes are on %v", hosts)
	}
	c.must(t, "take-control")

	step := func(name string, do func(*testing.T)) {
		if !t.Failed() { // what comes after a failure would fail of it
			t.Run(name, func(t *testing.T) { k.t = t; do(t) })
			k.t = t
		}
	}
	step("a run", func(t *testing.T) {
		n := c.begin(t, "rate=0")
		c.must(t, "wait", "8s", "stop")
		r := c.record(t, n)
		r.good(t)
		f.add("goodput between pods, 6 nodes on 3 hosts", "%.3f Gbit/s", r.GoodputGbps)
	})
	step("a recorded run", func(t *testing.T) {
		n := c.begin(t, recording...)
		c.must(t, "wait", "3s", "stop")
		r := c.record(t, n)
		r.good(t)
		r.recorded(t, k.places("n-0", "n-1", "n-2", "n-3", "n-4", "n-5")...)
	})
	step("the page, with a viewer's certificate and without", k.page)
	step("the pod of a builder unit is killed", func(t *testing.T) { k.killBuilder(t, c, &f) })
	step("a builder unit is killed while it records", func(t *testing.T) { k.killRecorder(t, c) })
	step("the pod of a readout unit is killed", func(t *testing.T) { k.killReadout(t, c, &f) })
	step("the control is killed", func(t *testing.T) { k.killControl(t, c, &f) })
	step("a folded pod, the scheduler's and the control's are killed in one run", func(t *testing.T) { k.outlive(t, c, &f) })
	step("a host is cut off", func(t *testing.T) { k.cutHost(t, c, &f) })
	step("a rolling update between runs", func(t *testing.T) { k.update(t, c, &f) })
	step("a host is drained", func(t *testing.T) { k.drain(t, c, &f) })
	f.print()
}

// whole holds that a run works again, and is how long it took to get there.
func whole(t *testing.T, c crew) time.Duration {
	t.Helper()
	began := time.Now()
	n := c.begin(t)
	took := time.Since(began)
	c.must(t, "wait", "2s", "stop")
	c.record(t, n).good(t)
	return took
}

// process finds one of a pod by how its command begins, where it can be seen from here, as in the lab; else 0.
func process(command ...string) int {
	found, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range found {
		if args, _ := os.ReadFile(file); bytes.HasPrefix(args, []byte(strings.Join(command, "\x00")+"\x00")) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			return pid
		}
	}
	return 0
}

// kill ends the process of a node with SIGKILL, or deletes its pod without grace where the process cannot be seen.
func (k *kubernetes) kill(name string) {
	k.t.Helper()
	if pid := process("/ringlet", "node", "--name="+name); pid != 0 {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			k.t.Fatal(err)
		}
		return
	}
	k.t.Log("its process cannot be seen from here: deleting the pod, which asks it to end first")
	k.must("-n", "ringlet", "delete", "pod", name, "--grace-period=0", "--force", "--wait=false")
}

// back waits until a pod, or the process in it, is another one than before, and ready.
func (k *kubernetes) back(before pod) time.Duration {
	k.t.Helper()
	return eventually(k.t, time.Minute, before.Metadata.Name+" is back", func() bool {
		now := k.pods()[before.Metadata.Name]
		return now.life() != before.life() && now.ready()
	})
}

func (k *kubernetes) killBuilder(t *testing.T, c crew, f *figures) {
	n := c.begin(t, unfolded...)
	c.must(t, "wait", "2s")
	before := k.pods()["n-5"]
	k.kill("n-5")
	f.took("a builder unit's pod killed: it is back and Ready", k.back(before))
	f.took("its builder unit is in the run again, after that", eventually(t, time.Minute, "n-5 is in the run again",
		func() bool { s := c.status(t); return s.State == "Running" && !s.Degraded }))
	c.must(t, "wait", "2s", "stop")
	r := c.record(t, n)
	r.balanced(t)
	if r.Verdict != "VERDICT_DEGRADED" || r.Cause.Component != "n-5" {
		t.Errorf("run %d: %s, cause %+v", n, r.Verdict, r.Cause)
	}
	t.Logf("run %d: %s, %s events, cause %s: %s (%s)", n, r.Verdict, r.EventsBuilt, r.Cause.Component, r.Cause.What,
		r.Cause.Evidence)
	f.took("the next run with all six nodes, from asking for it", whole(t, c))
}

// places are pods with what their nodes have recorded.
func (k *kubernetes) places(names ...string) (all []place) {
	for _, name := range names {
		all = append(all, place{name, func(words ...string) (string, error) {
			return k.try(append([]string{"-n", "ringlet", "exec", name, "--", "/ringlet"}, words...)...)
		}})
	}
	return all
}

// killRecorder kills a builder unit's process while it writes to its pod's own volume. The container that takes its
// place finds what was written. Nobody else can read it at the end of the run: if that container is not asked then, the
// run must not be told as whole.
func (k *kubernetes) killRecorder(t *testing.T, c crew) {
	if process("/ringlet", "node", "--name=n-5") == 0 {
		t.Skip("SKIPPED: its process cannot be seen from here, and what a pod of this overlay has recorded goes with the pod")
	}
	n := c.begin(t, append(slices.Clone(unfolded), recording...)...)
	c.must(t, "wait", "2s")
	before := k.pods()["n-5"]
	k.kill("n-5")
	k.back(before)
	c.must(t, "wait", "2s", "stop")
	r := c.record(t, n)
	switch r.Verdict {
	case "VERDICT_DEGRADED":
		r.balanced(t)
	case "VERDICT_INCOMPLETE":
	default:
		t.Errorf("run %d: %s, cause %+v", n, r.Verdict, r.Cause)
	}
	t.Logf("run %d: %s, %s events, accounts %+v", n, r.Verdict, r.EventsBuilt, r.Accounts)
	r.salvaged(t, k.places("n-3", "n-4", "n-5")...)
	whole(t, c)
}

func (k *kubernetes) killReadout(t *testing.T, c crew, f *figures) {
	n := c.begin(t)
	c.must(t, "wait", "2s")
	before := k.pods()["n-1"]
	k.kill("n-1")
	r, took := c.ended(t, n, time.Minute)
	f.took("a readout unit's pod killed: the run has ended with its cause", took)
	if r.Verdict != "VERDICT_ABORTED" || r.Cause.Component != "n-1" {
		t.Errorf("run %d: %s, cause %+v", n, r.Verdict, r.Cause)
	}
	t.Logf("run %d: %s, cause %s: %s (%s)", n, r.Verdict, r.Cause.Component, r.Cause.What, r.Cause.Evidence)
	k.back(before)
	f.took("the next run after that, from asking for it", whole(t, c))
}

// killControl kills the control in the middle of a run, which goes on.
func (k *kubernetes) killControl(t *testing.T, c crew, f *figures) {
	pid := process("/ringlet", "control", "--certs=/etc/ringlet/certs")
	if pid == 0 {
		t.Skip("SKIPPED: its process cannot be seen from here, and its pod keeps its records on a volume that this " +
			"overlay has not")
	}
	n := c.begin(t)
	c.must(t, "wait", "2s")
	began := time.Now()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, "the control has found its run again",
		func() bool { return c.status(t).State == "Running" })
	f.took("the control killed in a run: back, and its run found", time.Since(began))
	c.must(t, "take-control", "wait", "2s", "stop")
	r := c.record(t, n)
	r.good(t)
	t.Logf("run %d: %s, %s events", n, r.Verdict, r.EventsBuilt)
}

// cutHost takes a host of the lab off its switch, and puts it back.
func (k *kubernetes) cutHost(t *testing.T, c crew, f *figures) {
	pods := k.pods()
	var victim string
	var lost []string
	for _, p := range pods {
		if h := p.Spec.NodeName; h != pods["ringlet-control-0"].Spec.NodeName && h != pods["n-0"].Spec.NodeName {
			victim = h
		}
	}
	for name, p := range pods {
		if p.Spec.NodeName == victim {
			lost = append(lost, name)
		}
	}
	if err := exec.Command("ip", "-n", "kn0", "link", "show", victim).Run(); err != nil || victim == "" {
		t.Skipf("SKIPPED: only hosts of the lab can be cut off, and %q is none", victim)
	}
	n := c.begin(t)
	c.must(t, "wait", "2s")
	must(t, "ip", "-n", "kn0", "link", "set", victim, "down")
	healed := false
	heal := func() {
		if !healed {
			healed = true
			must(t, "ip", "-n", "kn0", "link", "set", victim, "up")
		}
	}
	t.Cleanup(heal)
	r, took := c.ended(t, n, 2*time.Minute)
	f.took("a host cut off: the run has ended with its cause", took)
	if r.Verdict != "VERDICT_ABORTED" || !slices.Contains(lost, r.Cause.Component) {
		t.Errorf("run %d: %s, cause %+v, and %v were cut off", n, r.Verdict, r.Cause, lost)
	}
	t.Logf("run %d: %s, cause %s: %s (%s)", n, r.Verdict, r.Cause.Component, r.Cause.What, r.Cause.Evidence)
	began := time.Now()
	heal()
	whole(t, c)
	f.took("the link healed: a run with all six nodes is over", time.Since(began))
	k.allReady(2 * time.Minute)
}

func (k *kubernetes) update(t *testing.T, c crew, f *figures) {
	began := time.Now()
	k.must("-n", "ringlet", "rollout", "restart", "statefulset/n")
	k.must("-n", "ringlet", "rollout", "status", "statefulset/n", "--timeout=180s")
	f.took("rolling update of six nodes, one after the other", time.Since(began))
	whole(t, c)
}

// drain empties a host while a run goes on: its nodes ask to be let go.
func (k *kubernetes) drain(t *testing.T, c crew, f *figures) {
	pods := k.pods()
	host, control := "", pods["ringlet-control-0"].Spec.NodeName // whose records end with its pod in this overlay
	for _, p := range pods {
		if p.Spec.NodeName != control {
			host = p.Spec.NodeName
		}
	}
	n := c.begin(t)
	c.must(t, "wait", "2s")
	began := time.Now()
	t.Cleanup(func() { k.must("uncordon", host) })
	k.must("drain", host, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=180s")
	f.took("a host drained in the middle of a run", time.Since(began))
	r, _ := c.ended(t, n, time.Minute)
	if r.Cause.Component == "" || pods[r.Cause.Component].Spec.NodeName != host {
		t.Errorf("run %d: %s, cause %+v; the host was %s", n, r.Verdict, r.Cause, host)
	}
	t.Logf("run %d: %s, cause %s: %s (%s)", n, r.Verdict, r.Cause.Component, r.Cause.What, r.Cause.Evidence)
	k.allReady(2 * time.Minute)
	whole(t, c)
	for name, p := range k.pods() {
		if name != "ringlet-control-0" && p.Spec.NodeName == host {
			t.Errorf("%s is on the drained host", name)
		}
	}
}
