package shmem

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"ringlet/testkit/must"
	"ringlet/testkit/patiently"
)

// child is a process that plays a role with the test. It says a line when it is where the test
// wants it, and goes on when its standard input ends.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func startChild(t testing.TB, role string, env ...string) *child {
	t.Helper()
	exe, err := os.Executable()
	must.OK(t, err)
	c := &child{cmd: exec.Command(exe)}
	c.cmd.Env = append(append(os.Environ(), childEnv+"="+role, "GORACE=atexit_sleep_ms=0"), env...)
	c.cmd.Stderr = os.Stderr
	c.cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	c.in, err = c.cmd.StdinPipe()
	must.OK(t, err)
	out, err := c.cmd.StdoutPipe()
	must.OK(t, err)
	c.out = bufio.NewScanner(out)
	must.OK(t, c.cmd.Start())
	t.Cleanup(func() { c.kill() })
	return c
}

// line waits for the child's next line.
func (c *child) line(t testing.TB) string {
	t.Helper()
	if !patiently.Result(t, c.out.Scan, "the child said nothing more") {
		t.Fatalf("the child said nothing more: %v", c.out.Err())
	}
	return c.out.Text()
}

// kill ends the child with SIGKILL and waits until it is gone.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait() // bounded by the kernel: it was killed
}

// finish lets the child go on to its end and wants a good exit.
func (c *child) finish(t testing.TB) {
	t.Helper()
	_ = c.in.Close()
	if err := patiently.Exit(t, c.cmd); err != nil {
		t.Errorf("child: %v", err)
	}
}

// say and hold are the child's side.
func say(format string, args ...any) { fmt.Printf(format+"\n", args...) }
func hold()                          { _, _ = io.Copy(io.Discard, os.Stdin) }

func init() {
	children["segment"] = func() error {
		s, err := Create(os.Getenv("NAME"), 64*PageSize, WithDir(os.Getenv("DIR")))
		if err != nil {
			return err
		}
		copy(s.Bytes(), "from the child")
		say("ready")
		hold()
		return s.Close()
	}
}

func TestSweepAfterSIGKILL(t *testing.T) {
	dir := must.MemoryDir(t)
	dead := startChild(t, "segment", "DIR="+dir, "NAME=ringlet-1-dead")
	live := startChild(t, "segment", "DIR="+dir, "NAME=ringlet-1-live")
	dead.line(t)
	live.line(t)
	o, err := Open("ringlet-1-dead", WithDir(dir))
	must.OK(t, err)
	defer func() { _ = o.Close() }()

	if removed, err := Sweep("ringlet-1-", WithDir(dir)); err != nil || len(removed) != 0 {
		t.Fatalf("swept the living: %v, %v", removed, err)
	}
	dead.kill()
	removed, err := Sweep("ringlet-1-", WithDir(dir))
	if err != nil || len(removed) != 1 || removed[0] != "ringlet-1-dead" {
		t.Fatalf("swept %v, %v; want the dead one", removed, err)
	}
	if string(o.Bytes()[:14]) != "from the child" {
		t.Error("who had it open lost it")
	}
	live.finish(t)
	if remaining := files(t, dir); len(remaining) != 0 {
		t.Errorf("left behind: %v", remaining)
	}
}
