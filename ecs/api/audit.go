package api

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"ringlet/internal/certs"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// maxStrangers a second are written to the audit log: whoever has no certificate must not be able to fill a disk. The rest are
// counted, and said with the next one.
const maxStrangers = 10

// begun are the codes of errors of what was obeyed all the same: it broke, or nobody waited for its end.
var begun = map[codes.Code]bool{codes.Aborted: true, codes.Internal: true, codes.Canceled: true, codes.DeadlineExceeded: true}

// auditor writes who asked for what and what was answered.
type auditor struct {
	// immutable
	records Records
	log     *slog.Logger
	now     func() time.Time

	// mu guards
	mu      sync.Mutex
	second  int64  // the one that is counted
	written int    // strangers in it
	skipped uint64 // strangers that were not written since the last that was
	broken  bool   // the last entry could not be written
}

// ready says whether what is about to be done could be written down. After an entry that could not, one must first succeed.
func (a *auditor) ready() error {
	a.mu.Lock()
	broken := a.broken
	a.mu.Unlock()
	if !broken {
		return nil
	}
	return a.write(Caller{Name: string(certs.RoleControl)}, "write the audit log again after entries were lost", nil)
}

// write puts an entry down. The answer is ok where err is nil.
func (a *auditor) write(c Caller, action string, err error) error {
	answer, obeyed := "ok", true
	if err != nil {
		told := status.Convert(asStatus(err))
		answer, obeyed = told.Message(), begun[told.Code()]
	}
	entry := &ecsv1.AuditEntry{
		At: timestamppb.New(a.now()), User: c.Name, Role: c.Role, Address: c.Address, Action: action, Allowed: obeyed, Answer: answer,
	}
	fail := a.records.Audit(entry)
	a.mu.Lock()
	a.broken = fail != nil
	a.mu.Unlock()
	if fail != nil {
		a.log.Error("the audit log cannot be written", "user", c.Name, "action", action, "answer", answer, "err", fail)
		return &auditError{fail}
	}
	a.log.Info("asked", "user", c.Name, "role", c.RoleName(), "address", c.Address, "action", action, "answer", answer)
	return nil
}

// stranger writes of somebody who has no business here.
func (a *auditor) stranger(c Caller, action string, err error) {
	a.mu.Lock()
	second := a.now().Unix()
	if second != a.second {
		a.second, a.written = second, 0
	}
	if a.written >= maxStrangers {
		a.skipped++
		a.mu.Unlock()
		return
	}
	a.written++
	skipped := a.skipped
	a.skipped = 0
	a.mu.Unlock()
	if skipped > 0 {
		action = fmt.Sprintf("%s (and %d more before it that are not written one by one)", action, skipped)
	}
	_ = a.write(c, action, err) // a refusal that cannot be written is in the log of the process
}
