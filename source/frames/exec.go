package frames

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"

	"ringlet/internal/timerslack"
	"ringlet/source/live"
)

const (
	// A program that ends before the end of its run is started again after a pause, which doubles while it ends without
	// having sent a fragment.
	firstRestartPause = time.Second
	maxRestartPause   = 30 * time.Second
	// maxFruitlessRuns is how often in a row a program may end without having sent a fragment, before the source fails.
	maxFruitlessRuns = 5
	// killTimeout is how long a program may take to end after SIGTERM.
	killTimeout = 2 * time.Second
	// maxLogLines is how many lines of its standard error are logged in a minute; further lines are counted.
	maxLogLines     = 100
	maxLogLineBytes = 4096 // bytes of a program's standard error that make one line of the log
)

// OpenExec runs set.Address with sh -c. The program's standard output is the stream of a front-end, its standard input
// carries the answers, and each line of its standard error becomes a line of the log. The kernel kills the program
// when the readout unit dies.
func OpenExec(ctx context.Context, set live.FeedSettings) (live.Feed, error) {
	if err := CheckExec(set.Address); err != nil {
		return nil, fmt.Errorf("input %s: %w", set.Name, err)
	}
	if _, err := exec.LookPath("sh"); err != nil {
		return nil, fmt.Errorf("%w: the shell sh must run the command of input %s: install sh", err, set.Name)
	}
	if err := findProgram(ctx, set.Address); err != nil {
		return nil, fmt.Errorf("input %s cannot be run: %w: correct the command", set.Name, err)
	}
	f := newFeed(ctx, set)
	f.restartPause = firstRestartPause
	f.wg.Go(f.superviseProgram)
	return f, nil
}

// findProgram returns an error if the program of a command does not exist, as far as that is known before the shell
// runs: if the first word is a plain name or path. For other commands the shell's exit status says it.
func findProgram(ctx context.Context, command string) error {
	words := strings.Fields(command)
	if len(words) > 1 && words[0] == "exec" {
		words = words[1:]
	}
	name := words[0]
	if strings.IndexFunc(name, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("/._-+", r)
	}) >= 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), killTimeout)
	defer cancel()
	var status *exec.ExitError
	err := exec.CommandContext(ctx, "sh", "-c", `command -v "$1"`, "sh", name).Run()
	if !errors.As(err, &status) || ctx.Err() != nil { // the program exists, or the check itself failed
		return nil
	}
	if _, err := os.Stat(name); err == nil && strings.Contains(name, "/") {
		return fmt.Errorf("%s is no program, or may not be run by this user", name)
	}
	return fmt.Errorf("there is no program %s on this host", name)
}

// The exit statuses by which a shell says that there is no such program, or that it may not be run.
const (
	exitMayNotRun = 126
	exitNotFound  = 127
)

// cannotRun says that a program ended because its shell could not run it.
func cannotRun(how error) bool {
	var status *exec.ExitError
	return errors.As(how, &status) && (status.ExitCode() == exitNotFound || status.ExitCode() == exitMayNotRun)
}

// superviseProgram runs the program, again and again, until the end of its run.
func (f *feed) superviseProgram() {
	for fruitless := 0; ; {
		got, how := f.runOnce()
		if f.hasEnded() || f.ctx.Err() != nil {
			return
		}
		if fruitless++; got > 0 {
			fruitless = 0
		}
		if cannotRun(how) && f.stats.fragments.Load() == 0 {
			f.fail(fmt.Errorf("input %s cannot be run: %w: correct the command", f.set.Name, how))
			return
		}
		if fruitless == maxFruitlessRuns {
			f.fail(fmt.Errorf("%w, %d times in a row without a fragment: input %s cannot go on: run its command by hand "+
				"and look at what it writes", how, fruitless, f.set.Name))
			return
		}
		pause := min(f.restartPause<<max(fruitless-1, 0), maxRestartPause)
		f.logEvent(slog.LevelWarn, "the program of a front-end is started again", "why", how, "after", pause)
		if !f.sleep(pause) {
			return
		}
	}
}

// hasEnded says whether the front-end has declared the end of its run, or said that it is done.
func (f *feed) hasEnded() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state.ended || f.life.IsOver()
}

// runOnce runs the program once, and returns how many fragments came and why the program ended.
func (f *feed) runOnce() (uint64, error) {
	ctl, end, err := newControl(f)
	if err != nil {
		return 0, fmt.Errorf("%w: the program could not be started", err)
	}
	p, cmd, ended, err := f.startProgram(end)
	if err != nil {
		return 0, errors.Join(fmt.Errorf("%w: the program could not be started", err), ctl.conn.Close())
	}
	ctl.begin(p)
	defer ctl.end()
	got, err := f.serve(p, fmt.Sprintf("process %d", cmd.Process.Pid), nil)
	if err == nil { // it closed its standard output, or the feed is closed
		unless := f.ctx.Done()
		if f.hasEnded() { // the program may still read its last acknowledgement
			unless = nil
		}
		select {
		case how := <-ended:
			return got, f.describeExit(how)
		case <-time.After(lingerTimeout):
		case <-unless:
		}
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
	select {
	case how := <-ended:
		return got, errors.Join(err, f.describeExit(how))
	case <-time.After(killTimeout):
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	return got, errors.Join(err, f.describeExit(<-ended))
}

// describeExit says how the program ended, with the last line of its standard error.
func (f *feed) describeExit(err error) error {
	f.mu.Lock()
	last := f.lastLine
	f.lastLine = ""
	f.mu.Unlock()
	if err == nil {
		err = errors.New("exit status 0, and the end of its run was not declared")
	}
	if last != "" {
		return fmt.Errorf("the program ended: %w, and said last %q", err, last)
	}
	return fmt.Errorf("the program ended: %w", err)
}

// startProgram starts the program on a thread of its own: the kernel sends the death signal when the thread that
// started the program ends. The program gets its end of the control socket. The channel gets the result of Wait.
func (f *feed) startProgram(control *os.File) (*pipes, *exec.Cmd, <-chan error, error) {
	r, stdout, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, errors.Join(err, control.Close())
	}
	stdin, w, err := os.Pipe()
	if err != nil {
		return nil, nil, nil, errors.Join(err, r.Close(), stdout.Close(), control.Close())
	}
	cmd := exec.CommandContext(context.WithoutCancel(f.ctx), "sh", "-c", f.set.Address)
	stderr := &lineSplitter{onLine: f.logLine}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	cmd.Env = append(os.Environ(), f.environment()...)
	cmd.ExtraFiles = []*os.File{control}
	cmd.WaitDelay = killTimeout // how long to wait for children that keep standard error open
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	started, ended := make(chan error, 1), make(chan error, 1)
	f.wg.Go(func() {
		runtime.LockOSThread() // the thread ends with this goroutine
		timerslack.Set(timerslack.KernelDefault)
		err := cmd.Start()
		started <- err
		if err == nil {
			how := cmd.Wait()
			stderr.flush()
			ended <- how
		}
	})
	err = errors.Join(<-started, stdin.Close(), stdout.Close(), control.Close())
	if err != nil {
		return nil, nil, nil, errors.Join(err, r.Close(), w.Close())
	}
	return &pipes{r: r, w: w, over: make(chan struct{})}, cmd, ended, nil
}

// environment is what a program finds in its environment, beside Ringlet's own: a program that follows no run learns of
// this one from it.
func (f *feed) environment() []string {
	return []string{
		fmt.Sprintf("RINGLET_RUN=%d", f.set.Run),
		fmt.Sprintf("RINGLET_SOURCE=%d", f.set.SourceID),
		"RINGLET_SOURCE_NAME=" + f.set.SourceName,
		"RINGLET_CONFIG=" + f.set.Config,
		fmt.Sprintf("%s=%d", controlVariable, controlFD),
	}
}

// logLine logs a line of the program's standard error.
func (f *feed) logLine(line string) {
	f.mu.Lock()
	f.lastLine = line
	f.mu.Unlock()
	if suppressed, yes := f.programLog.Allow("", time.Now()); yes {
		f.set.Log.Info("the program of a front-end says", "line", line, "unreported", suppressed)
	}
}

// lineSplitter cuts the bytes written to it into lines. It cuts a long line into several.
type lineSplitter struct {
	onLine func(string)

	mu          sync.Mutex
	partialLine []byte
}

func (l *lineSplitter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(b)
	for len(b) > 0 {
		i := bytes.IndexByte(b, '\n')
		end := i >= 0
		if !end {
			i = len(b)
		}
		k := min(i, maxLogLineBytes-len(l.partialLine))
		l.partialLine = append(l.partialLine, b[:k]...)
		b = b[k:]
		if end && k == i {
			b = b[1:]
		} else if len(l.partialLine) < maxLogLineBytes {
			continue
		}
		l.onLine(string(l.partialLine))
		l.partialLine = l.partialLine[:0]
	}
	return n, nil
}

// flush passes on what was written after the end of the last line.
func (l *lineSplitter) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.partialLine) > 0 {
		l.onLine(string(l.partialLine))
		l.partialLine = nil
	}
}
