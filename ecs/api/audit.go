package api

import (
	"fmt"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"ringlet/node/certs"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// maxRefusals a second of one identity are written to the audit log, and of all who have none together: nobody must be
// able to fill a disk, or to push what others did out of a log that keeps so many entries. The rest are counted, and
// said with the next one.
const maxRefusals = 10

// auditIdentity is whose refusals are counted together.
type auditIdentity struct {
	name string
	role ecsv1.Role
}

// refusalLimiter are those of one identity.
type refusalLimiter struct {
	unixSecond        int64  // the one that is counted
	writtenInSecond   int    // in it
	skippedSinceWrite uint64 // not written since the last that was
}

// obeyedErrorCodes are the codes of errors of what was obeyed all the same: it broke, or nobody waited for its end.
var obeyedErrorCodes = map[codes.Code]bool{codes.Aborted: true, codes.Internal: true, codes.Canceled: true,
	codes.DeadlineExceeded: true}

// auditor writes who asked for what and what was answered.
type auditor struct {
	// immutable
	records Records
	log     *slog.Logger
	now     func() time.Time

	// mu guards
	mu              sync.Mutex
	refusalLimiters map[auditIdentity]*refusalLimiter // as many as there are certificates, and one
	lastWriteFailed bool                              // the last entry could not be written
}

// checkWritable says whether what is about to be done could be written down. After an entry that could not, one must
// first succeed.
func (a *auditor) checkWritable() error {
	a.mu.Lock()
	broken := a.lastWriteFailed
	a.mu.Unlock()
	if !broken {
		return nil
	}
	return a.write(caller{Name: string(certs.RoleControl)}, "write the audit log again after entries were lost", "", nil)
}

// write puts an entry down. The answer is ok where err is nil.
func (a *auditor) write(c caller, action, arguments string, err error) error {
	answer, obeyed := "ok", true
	if err != nil {
		answer, obeyed = status.Convert(asStatus(err)).Message(), !isRefusal(err)
	}
	entry := &ecsv1.AuditEntry{
		At:        timestamppb.New(a.now()),
		User:      c.Name,
		Role:      c.Role,
		Address:   c.Address,
		Action:    action,
		Allowed:   obeyed,
		Answer:    answer,
		Arguments: arguments,
	}
	fail := a.records.AddAudit(entry)
	a.mu.Lock()
	a.lastWriteFailed = fail != nil
	a.mu.Unlock()
	if fail != nil {
		a.log.Error("the audit log cannot be written", "user", c.Name, "action", action, "answer", answer, "err", fail)
		return &auditError{fail}
	}
	a.log.Info("asked", "user", c.Name, "role", c.roleName(), "address", c.Address, "action", action, "answer", answer)
	return nil
}

// writeRefusal writes that somebody was refused, unless that was too often of late.
func (a *auditor) writeRefusal(c caller, action, arguments string, err error) error {
	write, skipped := a.allowRefusal(auditIdentity{c.Name, c.Role})
	if !write {
		return nil
	}
	if skipped > 0 {
		action = fmt.Sprintf("%s (and %d more refusals before it that are not written one by one)", action, skipped)
	}
	return a.write(c, action, arguments, err)
}

// allowRefusal tells whether one more refusal is to be written, and how many were not since the last that was.
func (a *auditor) allowRefusal(of auditIdentity) (write bool, skipped uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.refusalLimiters[of]
	if r == nil {
		r = &refusalLimiter{}
		if a.refusalLimiters == nil {
			a.refusalLimiters = map[auditIdentity]*refusalLimiter{}
		}
		a.refusalLimiters[of] = r
	}
	if second := a.now().Unix(); second != r.unixSecond {
		r.unixSecond, r.writtenInSecond = second, 0
	}
	if r.writtenInSecond >= maxRefusals {
		r.skippedSinceWrite++
		return false, 0
	}
	r.writtenInSecond++
	skipped, r.skippedSinceWrite = r.skippedSinceWrite, 0
	return true, skipped
}

// isRefusal tells whether an error says that nothing was done.
func isRefusal(err error) bool {
	return err != nil && !obeyedErrorCodes[status.Convert(asStatus(err)).Code()]
}
