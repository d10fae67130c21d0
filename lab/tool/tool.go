package tool

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// defaultEndTimeout is how long a program may take to end after SIGTERM, unless more is said.
const defaultEndTimeout = 3 * time.Second

// A Command is what to run.
type Command struct {
	Program    string
	Args       []string
	Dir        string        // where; "" = here
	EndTimeout time.Duration // how long it may take to end after SIGTERM; 0 = 3 s
}

// A Process is a program under way.
type Process struct {
	cmd      *exec.Cmd
	out, err bytes.Buffer
	done     chan struct{} // closed when it has ended
	exitErr  error         // written before
}

// Start starts the program. The end of ctx sends it SIGTERM and, if that does not help, kills it; the kernel does the
// former when this process is gone, which is tied to the thread that starts it.
func (c Command) Start(ctx context.Context) (*Process, error) {
	p := &Process{cmd: exec.CommandContext(ctx, c.Program, c.Args...), done: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = c.Dir, &p.out, &p.err
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = cmp.Or(c.EndTimeout, defaultEndTimeout)
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.exitErr = p.cmd.Wait()
			close(p.done)
		}
	}()
	return p, <-started
}

// Run runs the program to its end and gives what it printed, also of one that ended badly.
func (c Command) Run(ctx context.Context) ([]byte, error) {
	p, err := c.Start(ctx)
	if err != nil {
		return nil, err
	}
	<-p.done
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case p.exitErr != nil:
		err = fmt.Errorf("%s: %w: %s", p.cmd.Path, p.exitErr, cmp.Or(LastLine(p.err.Bytes()), LastLine(p.out.Bytes())))
	}
	return p.out.Bytes(), err
}

// Stop ends a program that is not wanted any more.
func (p *Process) Stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	kill := time.AfterFunc(defaultEndTimeout, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	<-p.done
}

// LastLine of what a program wrote.
func LastLine(text []byte) string {
	text = bytes.TrimSpace(text)
	return string(text[bytes.LastIndexByte(text, '\n')+1:])
}

// CheckInstalled says in one sentence which of the programs are not installed.
func CheckInstalled(programs ...string) error {
	var not []string
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			not = append(not, p)
		}
	}
	if not != nil {
		return errors.New(strings.Join(not, ", ") + " not installed")
	}
	return nil
}
