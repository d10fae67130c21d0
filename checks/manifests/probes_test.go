package manifests

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// inPlace starts a pod's process here, with its own arguments: only places and ports are others.
type inPlace struct {
	t     *testing.T
	dir   string
	ports map[string]string // of the pod and here, by process and number
}

var portOfArgument = regexp.MustCompile(`\b(79\d\d)$`)

// port gives a free one for a pod's. It may be taken before the process binds it: then that says so, and the test
// fails.
func (p *inPlace) port(process, number string) string {
	p.t.Helper()
	key := process + " " + number
	if p.ports[key] == "" {
		lis, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			p.t.Fatal(err)
		}
		_, p.ports[key], _ = net.SplitHostPort(lis.Addr().String())
		_ = lis.Close()
	}
	return p.ports[key]
}

func (p *inPlace) arguments(process string, args []string) []string {
	var out []string
	for _, arg := range args {
		asks := process
		if strings.HasPrefix(arg, "--join=") {
			asks = "control"
		}
		arg = portOfArgument.ReplaceAllStringFunc(arg, func(n string) string { return p.port(asks, n) })
		for from, to := range map[string]string{
			"$(POD_IP)": "127.0.0.1", "=:": "=127.0.0.1:", "$(POD_NAME)": "n-0", "ringlet-control-gossip": "127.0.0.1",
			"/etc/ringlet/certs": p.dir + "/keys", "/etc/ringlet/config": root + "/k8s/base",
			"/var/lib/ringlet": p.dir + "/state",
		} {
			arg = strings.ReplaceAll(arg, from, to)
		}
		out = append(out, arg)
	}
	return out
}

// start runs the first container of a set of pods until the test ends, and then wants it to end well when told to.
func (p *inPlace) start(s *appsv1.StatefulSet) {
	p.t.Helper()
	c := s.Spec.Template.Spec.Containers[0]
	log, err := os.Create(filepath.Join(p.dir, s.Name+".log"))
	if err != nil {
		p.t.Fatal(err)
	}
	cmd := exec.Command(program(p.t), p.arguments(c.Args[0], c.Args)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			p.t.Error(err)
		}
		forced := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
		err := cmd.Wait() // bounded by forced
		forced.Stop()
		_ = log.Close()
		if said, _ := os.ReadFile(log.Name()); err != nil || p.t.Failed() {
			p.t.Errorf("%s ended: %v\n%s", s.Name, err, said)
		}
	})
}

// asks gives the answer to a probe, or that there is none.
func (p *inPlace) asks(process, path string) (int, string) {
	res, err := http.Get("http://127.0.0.1:" + p.port(process, "7982") + path)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = res.Body.Close() }()
	body, _ := io.ReadAll(io.LimitReader(res.Body, 1000))
	return res.StatusCode, strings.TrimSpace(string(body))
}

// TestProbesAreAnswered starts what the base starts, and asks what the kubelet asks: a node that looks for its cluster
// is alive and not ready, in the cluster it is both.
func TestProbesAreAnswered(t *testing.T) {
	var control, node *appsv1.StatefulSet
	for _, s := range selectType[*appsv1.StatefulSet](build(t, root+"/k8s/base")) {
		if hasNodes(s) {
			node = s
		} else {
			control = s
		}
	}
	p := &inPlace{t: t, dir: t.TempDir(), ports: map[string]string{}}
	if out, err := exec.Command(program(t), "certs", p.dir+"/keys", "n-0").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	await := func(process string, probe *corev1.Probe, want int) {
		t.Helper()
		for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
			code, said := p.asks(process, probe.HTTPGet.Path)
			if code == want {
				return
			}
			if time.Since(began) > 30*time.Second {
				t.Fatalf("%s: %s: %d %s, want %d", process, probe.HTTPGet.Path, code, said, want)
			}
		}
	}
	n, c := node.Spec.Template.Spec.Containers[0], control.Spec.Template.Spec.Containers[0]
	p.start(node)
	await("node", n.StartupProbe, http.StatusOK)
	await("node", n.ReadinessProbe, http.StatusServiceUnavailable)
	p.start(control)
	await("control", c.StartupProbe, http.StatusOK)
	await("control", c.LivenessProbe, http.StatusOK)
	await("control", c.ReadinessProbe, http.StatusOK)
	await("node", n.LivenessProbe, http.StatusOK)
	await("node", n.ReadinessProbe, http.StatusOK)
	if code, _ := p.asks("node", "/nothing"); code != http.StatusNotFound {
		t.Error(fmt.Sprint("whatever is asked is answered: ", code))
	}
}
