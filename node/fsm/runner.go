package fsm

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// Work is the function of a component for a command. It must return when ctx ends: when the transition is interrupted,
// fails or times out; context.Cause says why. ctx also ends when Work has returned, so nothing that goes on in Running
// may depend on it. If Work returns an error that is or wraps a Cause, the Runner keeps this Cause. Of any other error
// it makes a Cause of the kind CauseFailed. Long work calls ReportProgress, and does not time out while it does.
type Work func(ctx context.Context) error

// Actions are the functions of a component by command; a command without a function is done at once.
type Actions map[Command]Work

// Options of a Runner.
type Options struct {
	// Timeouts of the transitions; nil: the defaults of the table.
	Timeouts Timeouts
	// Abandon drops everything at once, whatever the component was doing in state from: after a fault, and when Stop or
	// Reset go by force. It runs beside a work function that does not return, to make it return. Nil: nothing to do.
	Abandon func(from State, why Cause)
	// CloseWait is how long Close waits for functions to return. Zero: 5 s.
	CloseWait time.Duration
}

// Stats are the counters of a Runner.
type Stats struct {
	StaleInputs     uint64 `count:"stale" help:"ends and time-outs of transitions that were over"`
	RefusedCommands uint64 `count:"refused" help:"commands that the state machine refused"`
	SkippedStates   uint64 `count:"conflated" help:"states that a slow watcher did not see"`
}

// Runner carries out the actions of the machine. All methods may be called from any goroutine; action functions run one
// after the other, each in a goroutine of its own.
type Runner struct {
	// Immutable after New.
	machine   machine
	actions   Actions
	abandon   func(from State, why Cause)
	closeWait time.Duration
	rootCtx   context.Context // parent of every work's context
	cancel    context.CancelCauseFunc

	mu             sync.Mutex
	status         Status                  // guarded by mu
	stateSince     time.Time               // guarded by mu; when the present state began
	timer          *time.Timer             // guarded by mu
	cancelWork     context.CancelCauseFunc // guarded by mu; ends the context of the last work
	allReturned    <-chan struct{}         // guarded by mu; closed when all functions that were started have returned
	runningCommand Command                 // guarded by mu; of the function that is running
	watchers       map[chan Status]bool    // guarded by mu
	waiters        map[*waiter]bool        // guarded by mu
	closed         bool                    // guarded by mu
	stats          Stats                   // guarded by mu
}

// waiter is a call of Command that waits for the end of transition seq.
type waiter struct {
	seq     uint64
	command Command
	result  chan error // capacity 1
}

// New returns the runner of the named component, in state Offline. It has no goroutine until the first command.
func New(name string, actions Actions, opts Options) *Runner {
	if opts.CloseWait <= 0 {
		opts.CloseWait = 5 * time.Second
	}
	root, cancel := context.WithCancelCause(context.Background())
	idle := make(chan struct{})
	close(idle)
	return &Runner{
		machine:     machine{Component: name, Timeouts: opts.Timeouts},
		actions:     actions,
		abandon:     opts.Abandon,
		closeWait:   opts.CloseWait,
		rootCtx:     root,
		cancel:      cancel,
		cancelWork:  func(error) {},
		allReturned: idle,
		watchers:    make(map[chan Status]bool),
		waiters:     make(map[*waiter]bool),
	}
}

// Status returns the present status.
func (r *Runner) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// StateSince is when the present state began.
func (r *Runner) StateSince() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stateSince
}

// Stats returns a copy of the counters.
func (r *Runner) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stats
}

// Submit gives a command and does not wait for its end. Errors: *PreconditionError, ErrClosed.
func (r *Runner) Submit(c Command) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.applyLocked(commandInput(c))
}

// Command gives a command and waits until its target state is reached. It returns nil also if the state was reached
// before, and if a Stop or Reset went by force (see Status.Forced). Errors: *PreconditionError and ErrClosed as Submit;
// *SupersededError if another command interrupted this one; the Cause if the component went into Error; the context's,
// while the transition goes on.
func (r *Runner) Command(ctx context.Context, c Command) error {
	r.mu.Lock()
	if err := r.applyLocked(commandInput(c)); err != nil {
		r.mu.Unlock()
		return err
	}
	if !r.status.State.IsTransitional() {
		r.mu.Unlock()
		return nil
	}
	w := &waiter{seq: r.status.Seq, command: c, result: make(chan error, 1)}
	r.waiters[w] = true
	r.mu.Unlock()
	select {
	case err := <-w.result:
		return err
	case <-ctx.Done():
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.waiters, w)
		return fmt.Errorf("%s: not waiting for %s any longer: %w", r.machine.Component, c, context.Cause(ctx))
	}
}

// Adopt sets the state of a runner without any command so far to the state in which its component was found, a stable
// state but Error: the process that steers the component was restarted. The error is a sentence.
func (r *Runner) Adopt(s State) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return ErrClosed
	case r.status.Seq != 0 || r.status.State != Offline:
		return fmt.Errorf("%s is %s already and cannot be adopted", r.machine.Component, r.status.State)
	case s.IsTransitional() || s >= Error:
		return fmt.Errorf("%s cannot be adopted as %s", r.machine.Component, s)
	}
	r.status.State = s
	r.status.Change++
	r.publish()
	return nil
}

// Fail reports a fault: the component goes into Error.
func (r *Runner) Fail(why Cause) error { return r.apply(faultInput(why)) }

// Degrade sets the flag DEGRADED with its reason.
func (r *Runner) Degrade(why Cause) error { return r.apply(degradeInput(why)) }

// Restore clears the flag DEGRADED.
func (r *Runner) Restore() error { return r.apply(restoreInput()) }

// setIncluded sets or clears the flag included.
func (r *Runner) setIncluded(in bool) error { return r.apply(includeInput(in)) }

func (r *Runner) apply(in input) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.applyLocked(in)
}

// applyLocked applies one input. mu is held.
func (r *Runner) applyLocked(in input) error {
	if r.closed {
		return ErrClosed
	}
	next, actions, err := r.machine.step(r.status, in)
	if err != nil {
		var stale *staleError
		if errors.As(err, &stale) {
			r.stats.StaleInputs++
		} else {
			r.stats.RefusedCommands++
		}
		return err
	}
	if next.State != r.status.State {
		r.stateSince = time.Now()
	}
	r.status = next
	for _, a := range actions {
		r.execute(a)
	}
	r.finishWaiters()
	return nil
}

// execute carries out one action. mu is held.
func (r *Runner) execute(a action) {
	switch a.Kind {
	case actionDisarm:
		r.timer.Stop()
	case actionArm:
		r.armTimer(a.After, a.Seq)
	case actionAbandon:
		r.cancelWork(a.Why)
		r.callAbandon(a.From, a.Why)
	case actionRunCommand:
		r.cancelWork(&SupersededError{Component: r.machine.Component, Command: r.runningCommand, By: a.Command})
		r.runCommand(a.Command, a.Seq)
	case actionPublish:
		r.publish()
	}
}

// armTimer sets the timer of a transition. mu is held.
func (r *Runner) armTimer(after time.Duration, seq uint64) {
	var armed *time.Timer
	armed = time.AfterFunc(after, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.timer == armed { // otherwise the transition ended, or made progress, when the timer fired
			_ = r.applyLocked(timeoutInput(seq))
		}
	})
	r.timer = armed
}

// progressKey is the key, among a work's values, of the function that reports progress.
type progressKey struct{}

// ReportProgress tells the machine that the work with ctx has made progress: its time-out begins again. With any other
// ctx, and when the transition is over, it does nothing.
func ReportProgress(ctx context.Context) {
	if moved, ok := ctx.Value(progressKey{}).(func()); ok {
		moved()
	}
}

// callAbandon calls the function Abandon now, beside any running function; functions started later wait for both.
func (r *Runner) callAbandon(from State, why Cause) {
	if r.abandon == nil {
		return
	}
	before, done := r.allReturned, make(chan struct{})
	r.allReturned = done
	go func() {
		defer close(done)
		r.abandon(from, why)
		<-before
	}()
}

// runCommand runs the function of a command when all functions before it have returned.
func (r *Runner) runCommand(c Command, seq uint64) {
	ctx, giveUp := context.WithCancelCause(r.rootCtx)
	r.cancelWork = giveUp
	ctx = context.WithValue(ctx, progressKey{}, func() { _ = r.apply(progressInput(seq)) })
	before, done := r.allReturned, make(chan struct{})
	r.allReturned = done
	go func() {
		defer close(done)
		defer giveUp(nil)
		<-before
		r.setRunningCommand(c)
		defer r.setRunningCommand(0)
		if ctx.Err() != nil {
			return // given up before it began: the machine is past this transition
		}
		if err := runProtected(ctx, r.actions[c]); err != nil {
			_ = r.apply(failedInput(seq, causeOf(c, err)))
			return
		}
		_ = r.apply(doneInput(seq))
	}()
}

func (r *Runner) setRunningCommand(c Command) {
	r.mu.Lock()
	r.runningCommand = c
	r.mu.Unlock()
}

// runProtected runs work and turns a panic into a Cause.
func runProtected(ctx context.Context, work Work) (err error) {
	if work == nil {
		return nil
	}
	defer func() {
		if p := recover(); p != nil {
			err = Cause{Kind: CausePanic, What: fmt.Sprintf("panic: %v", p), Evidence: string(debug.Stack())}
		}
	}()
	return work(ctx)
}

// causeOf makes a Cause from the error of a work function.
func causeOf(c Command, err error) Cause {
	var why Cause
	if errors.As(err, &why) {
		return why
	}
	return Cause{Kind: CauseFailed, What: c.String() + " failed", Evidence: err.Error()}
}

// finishWaiters ends the waits that are over. mu is held.
func (r *Runner) finishWaiters() {
	for w := range r.waiters {
		var err error
		switch {
		case r.status.Seq != w.seq:
			err = &SupersededError{Component: r.machine.Component, Command: w.command, By: r.status.Command}
		case r.status.State == Error:
			err = r.status.Cause
		case r.status.State.IsTransitional():
			continue
		}
		w.result <- err
		delete(r.waiters, w)
	}
}

// Close gives up the work under way and waits for functions to return, CloseWait at most: then it returns a
// *stuckError. It ends all watches. It does not stop the component first. Called again, it waits again.
func (r *Runner) Close() error {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		r.cancel(ErrClosed)
		if r.timer != nil {
			r.timer.Stop()
		}
		for w := range r.waiters {
			w.result <- ErrClosed
		}
		clear(r.waiters)
		for ch := range r.watchers {
			close(ch)
		}
		clear(r.watchers)
	}
	tail := r.allReturned
	r.mu.Unlock()

	timer := time.NewTimer(r.closeWait)
	defer timer.Stop()
	select {
	case <-tail:
		return nil
	case <-timer.C:
		r.mu.Lock()
		defer r.mu.Unlock()
		return &stuckError{Component: r.machine.Component, Command: r.runningCommand}
	}
}
