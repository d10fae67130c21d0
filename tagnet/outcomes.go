package tagnet

import (
	"sync"

	"ringlet/tagnet/core"
)

// An OutcomeLog keeps the last outcomes of a builder unit from one session of a run to the next. Its methods may be
// called from any goroutine.
type OutcomeLog struct {
	mu  sync.Mutex
	log *core.OutcomeLog
}

// NewOutcomeLog makes a log that keeps at least the given number of outcomes, see core.NewOutcomeLog.
func NewOutcomeLog(keep int) *OutcomeLog { return &OutcomeLog{log: core.NewOutcomeLog(keep)} }

func (l *OutcomeLog) add(entries []core.Feedback) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range entries {
		l.log.Add(f)
	}
}

func (l *OutcomeLog) forget(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.log.Forget(n)
}

func (l *OutcomeLog) outcomes() ([]core.Feedback, core.OutcomeTotals) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.log.Outcomes()
}
