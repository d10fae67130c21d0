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

// Processes spawns nodes as processes of this machine. They die with their parent: the kernel then sends them SIGTERM
// (Pdeathsig), and each ends by itself when the pipe at its standard input closes. The watchdog of a process ends it if
// it hangs in a loop even so: see package watchdog.
type Processes struct {
	ProgramPath string // the program
	Args        func(name, join string) []string
	Env         []string  // added to this process's
	Stderr      io.Writer // destination of their standard error
	// WriteKeys writes a node's keys to its standard input, which then stays open, so that no key is in a file. Nil: no
	// keys are written.
	WriteKeys func(name string, stdin io.Writer) error
	// PrepareCommand may change a command before it starts. Nil: no change.
	PrepareCommand func(name string, cmd *exec.Cmd)
	// EnterNamespace moves the thread that is about to start a process into the process's network namespace; the thread
	// ends with the process. Nil: the namespace of this process.
	EnterNamespace func(name string) error

	mu       sync.Mutex // guards the fields below
	running  map[string]*exec.Cmd
	stopping bool
	stdins   []*os.File // writing ends of their standard inputs
	wg       sync.WaitGroup
}

// killTimeout is how long a node may take to end after SIGTERM.
const killTimeout = 3 * time.Second

// Spawn starts a process per name. It may be called again, for other names or for processes that have ended.
func (p *Processes) Spawn(names []string, join string, ended func(name, how string)) error {
	for _, name := range names {
		if err := p.start(name, join, ended); err != nil {
			return fmt.Errorf("node %s could not be started: %w", name, err)
		}
	}
	return nil
}

// start starts one process on a thread that lives as long as the process, since the kernel's death signal is tied to
// the thread.
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
		// A pipe holds 64 KiB, keys take two: the write does not wait for the child to read.
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

// launch starts the command on the calling thread. The thread stays locked, and so ends with its goroutine, since it
// may be in another namespace.
func (p *Processes) launch(name string, cmd *exec.Cmd) error {
	if p.EnterNamespace != nil {
		if err := p.EnterNamespace(name); err != nil {
			return err
		}
	}
	return cmd.Start()
}

// EndedByWatchdog says how a process ended that its own watchdog has ended.
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

// Stop ends all processes, kills those that do not end in time, and waits for them. It also closes their standard
// inputs, as if this process had died: so no node waits for its withdrawal from a run.
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
		_ = cmd.Process.Signal(s) // the process may have ended meanwhile
	}
}
