package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// dockerSpace is the network namespace of a docker daemon of our own: what it does to bridges and filters ends with it.
const dockerSpace = "rlk0"

// openDocker says how to reach a docker daemon: one that is there, or one started here.
func openDocker(t *testing.T) (env []string) {
	t.Helper()
	wanted(t, "docker")
	needs(t, "docker", "docker-compose")
	if exec.Command("docker", "info").Run() == nil {
		return nil
	}
	needs(t, "dockerd", "ip", "nsenter")
	must(t, "ip", "netns", "add", dockerSpace)
	t.Cleanup(func() { must(t, "ip", "netns", "del", dockerSpace) })
	must(t, "ip", "-n", dockerSpace, "link", "set", "lo", "up")
	dir, err := os.MkdirTemp("", "rlk") // short: sockets lie in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	args := inSpace(dockerSpace, "dockerd", "--data-root", dir+"/data", "--exec-root", dir+"/exec", "--host",
		"unix://"+dir+"/socket", "--pidfile", dir+"/pid", "--cgroup-parent", "/ringlet-e2e")
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // what it has to say is in its log
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		forced := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
		<-ended // bounded by forced
		forced.Stop()
		_ = log.Close()
		for _, group := range []string{"/sys/fs/cgroup/ringlet-e2e", "/sys/fs/cgroup/*/ringlet-e2e"} {
			found, _ := filepath.Glob(group)
			for _, g := range found {
				_ = os.Remove(g) // empty by now
			}
		}
	})
	env = []string{"DOCKER_HOST=unix://" + dir + "/socket"}
	for began := time.Now(); ; time.Sleep(200 * time.Millisecond) {
		if _, err := output(env, nil, "docker", "info"); err == nil {
			return env
		}
		select {
		case <-ended:
			said, _ := os.ReadFile(log.Name())
			t.Skipf("SKIPPED: dockerd does not start here: %v\n%s", cmd.ProcessState, said)
		default:
		}
		if time.Since(began) > time.Minute {
			t.Fatal("dockerd does not answer")
		}
	}
}

func TestDocker(t *testing.T) {
	env := openDocker(t)
	project := []string{"--file", repository(t, "docker-compose.yaml"), "--project-name", "ringlet-e2e"}
	compose := func(args ...string) (string, error) {
		return output(env, nil, "docker-compose", append(project[:len(project):len(project)], args...)...)
	}
	do := func(args ...string) string {
		t.Helper()
		out, err := compose(args...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if _, err := output(env, nil, "docker", "build", "--quiet", "--tag", "ringlet:dev", repository(t, "")); err != nil {
		t.Fatal(err)
	}
	var f figures
	t.Cleanup(func() {
		if t.Failed() {
			out, err := compose("logs", "--no-color", "--tail=40")
			t.Logf("logs: %v\n%s", err, out)
		}
		do("down", "--volumes", "--timeout", "5")
	})
	began := time.Now()
	do("up", "--detach", "--no-build")
	for _, e := range env {
		t.Setenv("DOCKER_HOST", strings.TrimPrefix(e, "DOCKER_HOST="))
	}
	c := crew{append(append([]string{"docker-compose"}, project...), "run", "--rm", "-T", "ctl")}
	c.must(t, "take-control")
	settings := []string{"rus=2", "bus=2", "nodes=4", "builder-loss=at-least 1 of 2", "rate=20000", "packing=500"}
	n := c.begin(t, settings...)
	f.took("compose up until the first run goes on, four nodes", time.Since(began))
	c.must(t, "wait", "5s", "stop")
	r := c.record(t, n)
	r.good(t)

	n = c.begin(t, append(settings, "rate=0")...)
	c.must(t, "wait", "5s", "stop")
	r = c.record(t, n)
	r.good(t)
	f.add("goodput over the data network, 2 readout and 2 builder units", "%.3f Gbit/s", r.GoodputGbps)

	// All nodes write to one volume, so any container can read it.
	volume := func(through string) place {
		return place{"the volume of " + through, func(words ...string) (string, error) {
			return compose(append([]string{"exec", "-T", through, "/ringlet"}, words...)...)
		}}
	}
	n = c.begin(t, slices.Concat(settings, recording)...)
	c.must(t, "wait", "3s", "stop")
	r = c.record(t, n)
	r.good(t)
	r.recorded(t, volume("n0"))

	// n3 holds a builder unit only: the policy bears its loss. What it has recorded is there for the others.
	n = c.begin(t, slices.Concat(settings, recording)...)
	c.must(t, "wait", "2s")
	began = time.Now()
	do("pause", "n3")
	took := eventually(t, time.Minute, "the partition is degraded", func() bool { return c.status(t).Degraded })
	t.Logf("degraded %v after n3 was paused, at %v", took, time.Since(began))
	f.took("a builder unit's container paused: the run is degraded, and goes on", time.Since(began))
	do("kill", "--signal", "KILL", "n3")
	// a frozen process dies when it thaws; newer daemons see to that themselves, and then this is an error
	_, _ = compose("unpause", "n3")
	c.must(t, "wait", "2s")
	if s := c.status(t); s.State != "Running" || !s.Degraded {
		t.Errorf("the partition is %+v", s)
	}
	c.must(t, "stop")
	r = c.record(t, n)
	r.balanced(t)
	if r.Verdict != "VERDICT_DEGRADED" || r.Cause.Component != "n3" {
		t.Errorf("run %d: %s, cause %+v", n, r.Verdict, r.Cause)
	}
	t.Logf("run %d: %s, cause %s: %s (%s)", n, r.Verdict, r.Cause.Component, r.Cause.What, r.Cause.Evidence)
	r.salvaged(t, volume("n2"))
	do("up", "--detach", "--no-build")
	f.took("n3 up again: the next run with all four goes on", whole(t, c))
	f.print()
}
