package api

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// auditLog is records of which only the audit log is used.
type auditLog struct {
	Records
	entries []*ecsv1.AuditEntry
}

func (l *auditLog) Audit(e *ecsv1.AuditEntry) error {
	l.entries = append(l.entries, e)
	return nil
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// What was begun counts as obeyed, though its answer is an error.
func TestWhatCountsAsObeyed(t *testing.T) {
	for _, c := range []struct {
		err    error
		obeyed bool
	}{
		{nil, true},
		{&FaultError{Cause: &ecsv1.Cause{Component: "n2"}}, true},
		{errors.New("broken"), true},
		{&PreconditionError{State: "Ready", Command: "pause"}, false},
		{&ArgumentError{Name: "command"}, false},
		{&RoleError{}, false},
		{&ControlError{}, false},
		{&auditError{errors.New("full")}, false},
	} {
		log := &auditLog{}
		a := &auditor{records: log, log: quiet(), now: time.Now}
		if err := a.write(Caller{Name: "alice"}, "command start", c.err); err != nil || log.entries[0].GetAllowed() != c.obeyed {
			t.Errorf("%v: %v, %v", c.err, log.entries, err)
		}
	}
}

// A stranger cannot fill the audit log; how many were left out is said.
func TestStrangersAreBoundedInTheAuditLog(t *testing.T) {
	log := &auditLog{}
	now := time.Unix(0, 0)
	a := &auditor{records: log, log: quiet(), now: func() time.Time { return now }}
	for range 1000 {
		a.stranger(Caller{Name: unknown}, "connect", &identityError{"no certificate"})
	}
	now = now.Add(time.Second)
	a.stranger(Caller{Name: unknown}, "connect", &identityError{"no certificate"})
	if n := len(log.entries); n != maxStrangers+1 || log.entries[n-1].GetAction() != "connect (and 990 more before it that are not written one by one)" {
		t.Errorf("%d entries, the last is %v", n, log.entries[n-1])
	}
}
