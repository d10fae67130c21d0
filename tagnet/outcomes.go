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

// NewOutcomeLog makes a log for a builder unit with a number of slots, see core.NewOutcomeLog.
func NewOutcomeLog(window, slots int) *OutcomeLog {
	return &OutcomeLog{log: core.NewOutcomeLog(window, slots)}
}

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
