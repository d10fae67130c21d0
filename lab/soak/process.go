package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"ringlet/lab/tool"
)

// restartDelay is what a service manager takes to start anew what has ended.
const restartDelay = 100 * time.Millisecond

// A process is a control or a node, started anew whenever it ends, as systemd and Kubernetes do.
type process struct {
	// immutable
	name string
	args []string // of ringlet
	host *host
	log  string // file of what it says
	dir  string // where it runs
	exe  string
	tell func(problem string) // of an end that nobody asked for

	mu      sync.Mutex
	cmd     *exec.Cmd // of its present life; nil between two lives
	ended   chan struct{}
	asked   bool // its end was asked for
	stopped bool // by SIGSTOP
	over    bool // it is not started anew
	starts  int
	pids    []int // of all its lives
	waiting sync.WaitGroup
}

// start begins its first life.
func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.live()
}

// live begins a life. The caller holds mu.
func (p *process) live() error {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	fmt.Fprintf(log, "--- life %d of %s, %s\n", p.starts+1, p.name, time.Now().UTC().Format(time.RFC3339Nano))
	cmd := exec.Command(p.exe, p.args...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, p.dir
	cmd.Env = append(os.Environ(), "GOTRACEBACK=all")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := p.host.do(cmd.Start); err != nil {
		return fmt.Errorf("%s cannot be started: %w", p.name, err)
	}
	p.cmd, p.asked, p.stopped, p.ended = cmd, false, false, make(chan struct{})
	p.starts++
	p.pids = append(p.pids, cmd.Process.Pid)
	p.waiting.Go(func() { p.mourn(cmd, p.ended) })
	return nil
}

// mourn waits for the end of a life and begins the next.
func (p *process) mourn(cmd *exec.Cmd, ended chan struct{}) {
	err := cmd.Wait()
	p.mu.Lock()
	p.cmd = nil
	asked, over := p.asked, p.over
	p.mu.Unlock()
	close(ended)
	if !asked {
		p.tell(fmt.Sprintf("%s ended by itself: %s: %s", p.name, how(err), lastLine(p.log)))
	}
	if over {
		return
	}
	time.Sleep(restartDelay)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return
	}
	if err := p.live(); err != nil {
		p.tell(err.Error())
	}
}

func how(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

// errNotThere is of a process that is between two lives.
var errNotThere = errors.New("the process is not there at this moment")

// signal sends a signal; final says that it is to end by it.
func (p *process) signal(s syscall.Signal, final bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return errNotThere
	}
	p.asked = p.asked || final
	switch s {
	case syscall.SIGSTOP:
		p.stopped = true
	case syscall.SIGCONT:
		p.stopped = false
	}
	if err := p.cmd.Process.Signal(s); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return errNotThere
}

// proceed lets it go on if it was stopped.
func (p *process) proceed() {
	if p.isStopped() {
		_ = p.signal(syscall.SIGCONT, false) // it may have ended meanwhile
	}
}

func (p *process) isStopped() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stopped
}

// life is a channel that is closed when the present life ends; closed at once where there is none.
func (p *process) life() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		none := make(chan struct{})
		close(none)
		return none
	}
	return p.ended
}

// pid is the number of its last life.
func (p *process) pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pids[len(p.pids)-1]
}

// lives is how often it was started.
func (p *process) lives() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.starts
}

// retire ends it for good: by SIGTERM within the bound, else with the stacks of its goroutines in its log, and by
// force.
func (p *process) retire(bound time.Duration) (problem string) {
	p.mu.Lock()
	p.over, p.asked = true, true
	p.mu.Unlock()
	p.proceed()
	ended := p.life()
	_ = p.signal(syscall.SIGTERM, true) // it may have ended
	select {
	case <-ended:
	case <-time.After(bound):
		problem = fmt.Sprintf("%s does not end on SIGTERM within %v", p.name, bound)
		p.dump()
		_ = p.signal(syscall.SIGKILL, true)
		<-ended
	}
	p.waiting.Wait()
	return problem
}

// dump has the stacks of its goroutines written to its log, which ends it.
func (p *process) dump() {
	p.proceed()
	ended := p.life()
	_ = p.signal(syscall.SIGQUIT, true)
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
	}
}

// kill ends it for good, at once.
func (p *process) kill() {
	p.mu.Lock()
	p.over, p.asked = true, true
	p.mu.Unlock()
	ended := p.life()
	_ = p.signal(syscall.SIGKILL, true)
	<-ended
	p.waiting.Wait()
}

// lastLine of a log.
func lastLine(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return tool.LastLine(text)
}
