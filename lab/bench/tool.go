package bench

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// toolEnd is how long a program may take to end after SIGTERM, unless more is said.
const toolEnd = 3 * time.Second

// A tool is a program under way that dies with this process.
type tool struct {
	cmd      *exec.Cmd
	out, err bytes.Buffer
	done     chan struct{} // closed when it has ended
	how      error         // written before
}

// startTool starts a program. The end of ctx sends it SIGTERM and, if that does not help, kills it; the kernel does the
// former when this process is gone, which is tied to the thread that starts it.
func startTool(ctx context.Context, end time.Duration, dir, name string, args ...string) (*tool, error) {
	t := &tool{cmd: exec.CommandContext(ctx, name, args...), done: make(chan struct{})}
	t.cmd.Dir, t.cmd.Stdout, t.cmd.Stderr = dir, &t.out, &t.err
	t.cmd.Env = os.Environ()
	t.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
	t.cmd.Cancel = func() error { return t.cmd.Process.Signal(syscall.SIGTERM) }
	t.cmd.WaitDelay = end
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := t.cmd.Start()
		started <- err
		if err == nil {
			t.how = t.cmd.Wait()
			close(t.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return t, nil
}

// wait gives what the program printed.
func (t *tool) wait(ctx context.Context) ([]byte, error) {
	<-t.done
	err := t.how
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return t.out.Bytes(), fmt.Errorf("%s: %w: %s", t.cmd.Path, err,
			cmp.Or(lastLine(t.err.String()), lastLine(t.out.String())))
	}
	return t.out.Bytes(), nil
}

// end stops a program that is not wanted any more.
func (t *tool) end() {
	_ = t.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	kill := time.AfterFunc(toolEnd, func() { _ = t.cmd.Process.Kill() })
	defer kill.Stop()
	<-t.done
}

// RunWithin is runTool of a program that may take so long to end once ctx has ended.
func RunWithin(ctx context.Context, end time.Duration, name string, args ...string) ([]byte, error) {
	t, err := startTool(ctx, end, "", name, args...)
	if err != nil {
		return nil, err
	}
	return t.wait(ctx)
}

// runTool runs a program to its end; the error of one that ended badly has the last line that it wrote. It dies with
// this process.
func runTool(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	t, err := startTool(ctx, toolEnd, dir, name, args...)
	if err != nil {
		return nil, err
	}
	return t.wait(ctx)
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}

// A missingError is a program that is not installed.
type missingError struct{ Why string }

func (e *missingError) Error() string { return e.Why }

// missing says in one sentence which of the programs are not installed.
func missing(programs ...string) error {
	var not []string
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			not = append(not, p)
		}
	}
	if not != nil {
		return &missingError{strings.Join(not, ", ") + " not installed"}
	}
	return nil
}
