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

// maxRefusals bounds the refusals per second and identity in the audit log; all callers without an identity count as
// one. Otherwise a client could fill the disk, or push the entries of other users out of the log, which keeps a fixed
// number of entries. Further refusals are counted, and the next entry has the count.
const maxRefusals = 10

// auditIdentity is the key by which refusals are counted.
type auditIdentity struct {
	name string
	role ecsv1.Role
}

// refusalLimiter counts the refusals of one identity.
type refusalLimiter struct {
	unixSecond        int64  // the second that is counted
	writtenInSecond   int    // refusals written in it
	skippedSinceWrite uint64 // refusals not written since the last one that was
}

// obeyedErrorCodes are the codes of errors after which a call may have had an effect: it failed on the way, or its
// caller did not wait for the end.
var obeyedErrorCodes = map[codes.Code]bool{codes.Aborted: true, codes.Internal: true, codes.Canceled: true,
	codes.DeadlineExceeded: true}

// auditor writes calls to the audit log: the caller, the action and the answer.
type auditor struct {
	// immutable
	records Records
	log     *slog.Logger
	now     func() time.Time

	mu              sync.Mutex                        // guards what follows
	refusalLimiters map[auditIdentity]*refusalLimiter // at most one for each certificate, and one for unknown callers
	lastWriteFailed bool                              // the last entry could not be written
}

// checkWritable says whether the audit log can be written, before a call has an effect: after a failed write it tries
// once more.
func (a *auditor) checkWritable() error {
	a.mu.Lock()
	broken := a.lastWriteFailed
	a.mu.Unlock()
	if !broken {
		return nil
	}
	return a.write(caller{Name: string(certs.RoleControl)}, "write the audit log again after entries were lost", "", nil)
}

// write writes an entry. The answer in it is ok if err is nil.
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

// writeRefusal writes an entry for a refused call, unless its caller has had maxRefusals entries in this second.
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

// allowRefusal says whether one more refusal may be written, and how many were skipped since the last one.
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

// isRefusal says whether an error shows that a call had no effect.
func isRefusal(err error) bool {
	return err != nil && !obeyedErrorCodes[status.Convert(asStatus(err)).Code()]
}
