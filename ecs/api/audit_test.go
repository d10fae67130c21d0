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

func (l *auditLog) AddAudit(e *ecsv1.AuditEntry) error {
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
		{&roleError{}, false},
		{&controlError{}, false},
		{&auditError{errors.New("full")}, false},
	} {
		log := &auditLog{}
		a := &auditor{records: log, log: quiet(), now: time.Now}
		if err := a.write(caller{Name: "alice"}, "command start", "", c.err); err != nil ||
			log.entries[0].GetAllowed() != c.obeyed {
			t.Errorf("%v: %v, %v", c.err, log.entries, err)
		}
	}
}

// Nobody can fill the audit log with what is refused: how many were left out is said, and what others do is still
// written.
func TestRefusalsAreBoundedInTheAuditLog(t *testing.T) {
	viewer := caller{Name: "alice", Role: ecsv1.Role_ROLE_VIEWER}
	for _, c := range []caller{{Name: unknownName}, viewer} {
		log := &auditLog{}
		now := time.Unix(0, 0)
		a := &auditor{records: log, log: quiet(), now: func() time.Time { return now }}
		try := func(c caller) {
			if err := a.writeRefusal(c, "command start", "", &roleError{}); err != nil {
				t.Error(err)
			}
		}
		for range 1000 {
			try(c)
		}
		try(caller{Name: "alice", Role: ecsv1.Role_ROLE_OPERATOR})
		for range 20 {
			if err := a.write(viewer, "release control", "", nil); err != nil {
				t.Error(err)
			}
		}
		now = now.Add(time.Second)
		try(c)
		const last = "command start (and 990 more refusals before it that are not written one by one)"
		if n := len(log.entries); n != maxRefusals+1+20+1 || log.entries[n-1].GetAction() != last ||
			log.entries[n-1].GetAllowed() {
			t.Errorf("%s: %d entries, the last is %v", c.Name, n, log.entries[n-1])
		}
	}
}
