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

// defaultEndTimeout is how long a program may take to end after SIGTERM, unless the Command says otherwise.
const defaultEndTimeout = 3 * time.Second

// A Command describes a program to run.
type Command struct {
	Program    string
	Args       []string
	Dir        string        // working directory; "" = the current one
	EndTimeout time.Duration // how long it may take to end after SIGTERM; 0 = 3 s
}

// A Process is a running program.
type Process struct {
	cmd      *exec.Cmd
	out, err bytes.Buffer
	done     chan struct{} // closed when the program has ended
	exitErr  error         // written before done is closed
}

// Start starts the program. When ctx ends, Start sends it SIGTERM, and kills it after EndTimeout. If this process dies,
// the kernel sends SIGTERM: it does when the thread ends that started the program.
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

// Run runs the program to its end, and returns its standard output even if it failed.
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

// Stop ends the program.
func (p *Process) Stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	kill := time.AfterFunc(defaultEndTimeout, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	<-p.done
}

// LastLine is the last line of a program's output.
func LastLine(text []byte) string {
	text = bytes.TrimSpace(text)
	return string(text[bytes.LastIndexByte(text, '\n')+1:])
}

// CheckInstalled says which of the programs are not installed.
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
