package spawn

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"ringlet/node/watchdog"
)

// Processes spawns nodes as processes of this machine. They die with their parent: the kernel sends them SIGTERM when
// it is gone (Pdeathsig), and each ends by itself when the pipe it was given as standard input closes. One that does
// not end then, whatever loop it is in, its own watch ends: see package watchdog.
type Processes struct {
	ProgramPath string // the program
	Args        func(name, join string) []string
	Env         []string  // added to this process's
	Stderr      io.Writer // where their standard error goes
	// WriteKeys writes a node's keys to its standard input, which then stays open: no key stands in a file. Nil: nothing
	// is written.
	WriteKeys func(name string, stdin io.Writer) error
	// PrepareCommand has the last word on a command before it starts. Nil: it is left as it is.
	PrepareCommand func(name string, cmd *exec.Cmd)
	// EnterNamespace takes the thread that is about to start a process to where that is to live, a network namespace; the
	// thread ends with the process. Nil: processes live where this one does.
	EnterNamespace func(name string) error

	mu       sync.Mutex // guards what follows
	running  map[string]*exec.Cmd
	stopping bool
	stdins   []*os.File // writing ends of their standard inputs
	wg       sync.WaitGroup
}

// killTimeout is how long a node may take to end after SIGTERM.
const killTimeout = 3 * time.Second

// Spawn starts a process per name. It may be called again, for others or for those that have ended.
func (p *Processes) Spawn(names []string, join string, ended func(name, how string)) error {
	for _, name := range names {
		if err := p.start(name, join, ended); err != nil {
			return fmt.Errorf("node %s could not be started: %w", name, err)
		}
	}
	return nil
}

// start starts one process on a thread that lives as long as the process: the kernel's death signal is tied to the
// thread.
func (p *Processes) start(name, join string, ended func(name, how string)) error {
	in, input, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd := exec.Command(p.ProgramPath, p.Args(name, join)...)
	cmd.Env = append(append(os.Environ(), p.Env...), watchdog.ChildEnv())
	cmd.Stdin, cmd.Stderr = in, p.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
	if p.PrepareCommand != nil {
		p.PrepareCommand(name, cmd)
	}
	if p.WriteKeys != nil {
		// A pipe holds 64 KiB, keys take two: nobody need be reading yet.
		if err := p.WriteKeys(name, input); err != nil {
			return errors.Join(err, in.Close(), input.Close())
		}
	}
	started := make(chan error, 1)
	p.wg.Go(func() {
		runtime.LockOSThread()
		err := p.launch(name, cmd)
		_ = in.Close()
		if err == nil {
			p.mu.Lock()
			if p.running == nil {
				p.running = map[string]*exec.Cmd{}
			}
			p.running[name], p.stdins = cmd, append(p.stdins, input)
			p.mu.Unlock()
		}
		started <- err
		if err != nil {
			_ = input.Close()
			return
		}
		how := describeExit(cmd.Wait())
		p.mu.Lock()
		delete(p.running, name)
		expected := p.stopping
		p.mu.Unlock()
		if !expected {
			ended(name, how)
		}
	})
	return <-started
}

// launch starts the command on the calling thread, which stays locked and so ends with its goroutine: it may have gone
// elsewhere.
func (p *Processes) launch(name string, cmd *exec.Cmd) error {
	if p.EnterNamespace != nil {
		if err := p.EnterNamespace(name); err != nil {
			return err
		}
	}
	return cmd.Start()
}

// EndedByWatchdog is how a process has ended that its own watch has ended.
var EndedByWatchdog = fmt.Sprintf("ended itself, since a loop in it stood still (exit code %d)", watchdog.ExitCode)

// describeExit says how a process ended.
func describeExit(err error) string {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return "ended"
	}
	if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return fmt.Sprintf("was killed by signal %d (%s)", int(ws.Signal()), ws.Signal())
	}
	if exit.ExitCode() == watchdog.ExitCode {
		return EndedByWatchdog
	}
	return fmt.Sprintf("ended with exit code %d", exit.ExitCode())
}

// Stop ends all processes, kills those that do not end by themselves, and waits for them. Their standard input closes
// as well as when this process dies: no node waits for a run to let it go.
func (p *Processes) Stop() {
	p.signalAll(syscall.SIGTERM)
	p.closeInputs()
	kill := time.AfterFunc(killTimeout, func() { p.signalAll(syscall.SIGKILL) })
	defer kill.Stop()
	p.wg.Wait()
}

// closeInputs closes the standard inputs of all processes.
func (p *Processes) closeInputs() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range p.stdins {
		_ = h.Close()
	}
	p.stdins = nil
}

func (p *Processes) signalAll(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopping = true
	for _, cmd := range p.running {
		_ = cmd.Process.Signal(s) // it may have ended meanwhile
	}
}
