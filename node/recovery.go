package node

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"

	"ringlet/recording"
)

// runRecovery closes the files that killed processes have left of earlier runs in an output, while the present run is
// written there: how long that takes depends on what was left. One pass at a time is at work. The end of the node may
// end a pass at any point; the next run begins it again. Its methods may be called from any goroutine.
type runRecovery struct {
	mu     sync.Mutex // guards the fields below
	cancel context.CancelFunc
	done   chan struct{} // closed when the pass is over; nil before the first
	closed bool
}

// start starts a pass over the runs in dirs except one, unless a pass is at work.
func (e *runRecovery) start(dirs []string, exclude uint32, log *slog.Logger) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || e.active() {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	e.cancel, e.done = cancel, done
	go func() {
		defer close(done)
		defer cancel()
		for _, dir := range dirs {
			recoverRuns(ctx, dir, exclude, log)
		}
	}()
}

// active tells that a pass is at work. mu is held.
func (e *runRecovery) active() bool {
	if e.done == nil {
		return false
	}
	select {
	case <-e.done:
		return false
	default:
		return true
	}
}

// close ends the pass at work, and prevents further passes.
func (e *runRecovery) close() {
	e.mu.Lock()
	e.closed = true
	end, done := e.cancel, e.done
	e.mu.Unlock()
	if done != nil {
		end()
		<-done
	}
}

// recoverRuns recovers each run in dir except one, and logs what it found. A run that cannot be recovered stays as it
// is, and the next run tries again.
func recoverRuns(ctx context.Context, dir string, exclude uint32, log *slog.Logger) {
	runs, err := recording.Runs(dir)
	if err != nil {
		log.Error("earlier runs in the output cannot be listed", "output", dir, "err", err)
	}
	for _, runDir := range runs {
		if run, ok := recording.ParseRunDir(filepath.Base(runDir)); !ok || run == exclude {
			continue
		}
		found, err := recording.Recover(ctx, runDir)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			log.Error("an earlier run in the output cannot be recovered", "run", runDir, "err", err)
		}
		for i := range found {
			logRecovered(&found[i], log)
		}
	}
}

// logRecovered logs what was done to a file. It is silent about a file that a living process writes.
func logRecovered(f *recording.RecoveryResult, log *slog.Logger) {
	switch {
	case f.Err != nil:
		log.Error("a file of an earlier run cannot be recovered", "file", filepath.Join(f.Dir, f.Name), "err", f.Err)
	case !f.WriterLives:
		log.Warn("recovered a killed process's file of an earlier run", "file", filepath.Join(f.Dir, f.Name), "what", f.What)
	}
}
