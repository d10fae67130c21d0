package node

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"

	"ringlet/recording"
)

// runRecovery closes what killed processes have left of earlier runs in an output, beside the run that is written there
// now: how long it takes depends on what was left. One passage is at work at a time. The end of the node ends it at
// any point; the next run begins it again. Its methods may be called from any goroutine.
type runRecovery struct {
	mu     sync.Mutex // guards what follows
	cancel context.CancelFunc
	done   chan struct{} // closed when the passage is over; nil before there was one
	closed bool
}

// start has a passage over the runs in directories but one, unless one is at work already.
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

// active says that a passage is not over. The caller holds mu.
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

// close ends the passage at work, and lets no other begin.
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

// recoverRuns recovers each run in dir but one, and says what it found. What cannot be recovered stays as it is, and
// the next run tries again.
func recoverRuns(ctx context.Context, dir string, exclude uint32, log *slog.Logger) {
	runs, err := recording.Runs(dir)
	if err != nil {
		log.Error("earlier runs in the output cannot be looked at", "output", dir, "err", err)
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

// logRecovered says what was done about a file. One that somebody else writes is none of this node's business.
func logRecovered(f *recording.RecoveryResult, log *slog.Logger) {
	switch {
	case f.Err != nil:
		log.Error("a file of an earlier run cannot be recovered", "file", filepath.Join(f.Dir, f.Name), "err", f.Err)
	case !f.WriterLives:
		log.Warn("a killed process had left this of an earlier run", "file", filepath.Join(f.Dir, f.Name), "what", f.What)
	}
}
