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

// restartDelay is how long after its end a process is started again. A service manager waits about as long.
const restartDelay = 100 * time.Millisecond

// A process is a control, a node or a filter. It is restarted whenever it ends, as systemd and Kubernetes do.
type process struct {
	// immutable
	name   string
	args   []string // of ringlet
	host   *host
	log    string // file of its output
	dir    string // working directory
	exe    string
	report func(problem string) // called when it ends unexpectedly

	mu           sync.Mutex
	cmd          *exec.Cmd // the running process; nil until it is started again
	ended        chan struct{}
	exitExpected bool // it was told to end
	stopped      bool // by SIGSTOP
	noRestart    bool // it is not restarted
	starts       int
	pids         []int // one for each start
	waiting      sync.WaitGroup
}

// start begins its first life.
func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.launch()
}

// launch begins a life. The caller holds mu.
func (p *process) launch() error {
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
	if err := p.host.runOnThread(cmd.Start); err != nil {
		return fmt.Errorf("%s cannot be started: %w", p.name, err)
	}
	p.cmd, p.exitExpected, p.stopped, p.ended = cmd, false, false, make(chan struct{})
	p.starts++
	p.pids = append(p.pids, cmd.Process.Pid)
	p.waiting.Go(func() { p.awaitExit(cmd, p.ended) })
	return nil
}

// awaitExit waits for the end of a life and begins the next.
func (p *process) awaitExit(cmd *exec.Cmd, ended chan struct{}) {
	err := cmd.Wait()
	p.mu.Lock()
	p.cmd = nil
	expected, over := p.exitExpected, p.noRestart
	p.mu.Unlock()
	close(ended)
	if !expected {
		p.report(fmt.Sprintf("%s ended by itself: %s: %s", p.name, exitText(err), lastLine(p.log)))
	}
	if over {
		return
	}
	time.Sleep(restartDelay)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.noRestart {
		return
	}
	if err := p.launch(); err != nil {
		p.report(err.Error())
	}
}

func exitText(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

// errNotThere is the error of a signal to a process that has ended and is not started again yet.
var errNotThere = errors.New("the process is not running: it has ended, and is not started again yet")

// signal sends a signal; final says that the process will end by it.
func (p *process) signal(s syscall.Signal, final bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return errNotThere
	}
	p.exitExpected = p.exitExpected || final
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

// resume sends SIGCONT to a stopped process.
func (p *process) resume() {
	if p.isStopped() {
		_ = p.signal(syscall.SIGCONT, false) // it may have ended meanwhile
	}
}

func (p *process) isStopped() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stopped
}

// setRestart says whether it is started again when it ends.
func (p *process) setRestart(restart bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.noRestart = !restart
}

// exited is a channel that is closed when the current life ends; it is closed already if there is none.
func (p *process) exited() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		none := make(chan struct{})
		close(none)
		return none
	}
	return p.ended
}

// pid is the process id of its last life.
func (p *process) pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pids[len(p.pids)-1]
}

// startCount is how often it was started.
func (p *process) startCount() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.starts
}

// retire ends it without a restart, by SIGTERM. If it does not end within the bound, retire lets it write the stacks of
// its goroutines to its log, kills it, and returns the problem.
func (p *process) retire(bound time.Duration) (problem string) {
	p.mu.Lock()
	p.noRestart, p.exitExpected = true, true
	p.mu.Unlock()
	p.resume()
	ended := p.exited()
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

// dump lets it write the stacks of its goroutines to its log by SIGQUIT, which ends it.
func (p *process) dump() {
	p.resume()
	ended := p.exited()
	_ = p.signal(syscall.SIGQUIT, true)
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
	}
}

// kill kills it, without a restart.
func (p *process) kill() {
	p.mu.Lock()
	p.noRestart, p.exitExpected = true, true
	p.mu.Unlock()
	ended := p.exited()
	_ = p.signal(syscall.SIGKILL, true)
	<-ended
	p.waiting.Wait()
}

// lastLine is the last line of a log.
func lastLine(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return tool.LastLine(text)
}
