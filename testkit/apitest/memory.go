package apitest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"ringlet/ecs/record"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
)

// memory keeps the records in memory.
type memory struct {
	// FailAudit returns the error of AddAudit for an entry; nil: AddAudit does not fail. Set it before use.
	FailAudit func(*ecsv1.AuditEntry) error

	lock       sync.Mutex   // guards the fields below
	runs       []*ecsv1.Run // oldest first
	entries    []*ecsv1.AuditEntry
	keptValues map[string][]byte
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// List lists runs.
func (m *memory) List(before uint32, limit int) (record.RunList, error) {
	m.lock.Lock()
	defer m.lock.Unlock()
	var out record.RunList
	for _, r := range slices.Backward(m.runs) {
		if before != 0 && r.GetNumber() >= before {
			continue
		}
		if len(out.Runs) == limit {
			out.HasOlder = true
			break
		}
		short := proto.CloneOf(r)
		short.Events, short.Configuration, short.ReportJson = nil, "", ""
		out.Runs = append(out.Runs, short)
	}
	return out, nil
}

// Get reads a run.
func (m *memory) Get(number uint32) (*ecsv1.Run, error) {
	m.lock.Lock()
	defer m.lock.Unlock()
	for _, r := range m.runs {
		if r.GetNumber() == number {
			return proto.CloneOf(r), nil
		}
	}
	return nil, &record.NoRunError{Run: number}
}

// Latest reads the newest run.
func (m *memory) Latest() (*ecsv1.Run, error) {
	m.lock.Lock()
	defer m.lock.Unlock()
	if len(m.runs) == 0 {
		return nil, &record.NoRunError{}
	}
	return proto.CloneOf(m.runs[len(m.runs)-1]), nil
}

func (m *memory) save(r *ecsv1.Run) {
	m.lock.Lock()
	defer m.lock.Unlock()
	r = proto.CloneOf(r)
	for i := range m.runs {
		if m.runs[i].GetNumber() == r.GetNumber() {
			m.runs[i] = r
			return
		}
	}
	m.runs = append(m.runs, r)
}

// AddAudit keeps an entry.
func (m *memory) AddAudit(e *ecsv1.AuditEntry) error {
	m.lock.Lock()
	defer m.lock.Unlock()
	if m.FailAudit != nil {
		if err := m.FailAudit(e); err != nil {
			return err
		}
	}
	e = proto.CloneOf(e)
	e.Number = uint64(len(m.entries) + 1)
	m.entries = append(m.entries, e)
	return nil
}

// Remember keeps a value.
func (m *memory) Remember(key string, value []byte) error {
	m.lock.Lock()
	defer m.lock.Unlock()
	if m.keptValues == nil {
		m.keptValues = map[string][]byte{}
	}
	m.keptValues[key] = slices.Clone(value)
	return nil
}

// Recall returns the value of a key.
func (m *memory) Recall(key string) ([]byte, error) {
	m.lock.Lock()
	defer m.lock.Unlock()
	return m.keptValues[key], nil
}

// ListAudit lists entries.
func (m *memory) ListAudit(limit int) ([]*ecsv1.AuditEntry, error) {
	m.lock.Lock()
	defer m.lock.Unlock()
	out := slices.Clone(m.entries[max(0, len(m.entries)-limit):])
	slices.Reverse(out)
	return out, nil
}

// pastRuns are runs of each kind, with times before begin.
func pastRuns(begin time.Time) []*ecsv1.Run {
	kinds := []struct {
		verdict ecsv1.Verdict
		end     string
		cause   *ecsv1.Cause
	}{
		{ecsv1.Verdict_VERDICT_GOOD, "duration", nil},
		{ecsv1.Verdict_VERDICT_GOOD, "stopped", nil},
		{ecsv1.Verdict_VERDICT_ABORTED, "fault", &ecsv1.Cause{Component: "n2", What: "its process is gone",
			Evidence: "no echo for 3s, 14 writes open", Code: "process_lost"}},
		{ecsv1.Verdict_VERDICT_DEGRADED, "stopped", &ecsv1.Cause{Component: "n3", What: "its builder unit was excluded",
			Evidence: "alice asked for it", Code: "excluded"}},
		{ecsv1.Verdict_VERDICT_INCOMPLETE, "duration", &ecsv1.Cause{Component: "n1",
			What: "its source left out 312 fragments", Evidence: "events 40012 to 40323 came without it", Code: "incomplete"}},
		{ecsv1.Verdict_VERDICT_GOOD, "events", nil},
	}
	var out []*ecsv1.Run
	for i, k := range kinds {
		at := begin.Add(time.Duration(i-len(kinds)) * 10 * time.Minute)
		r := &ecsv1.Run{
			Number:     uint32(i + 1),
			Verdict:    k.verdict,
			StartedBy:  "alice",
			End:        k.end,
			Cause:      k.cause,
			Nodes:      []string{"n0", "n1", "n2", "n3"},
			StartBegun: timestamppb.New(at),
			StartDone:  timestamppb.New(at.Add(400 * time.Millisecond)),
			StopBegun:  timestamppb.New(at.Add(5 * time.Minute)),
			StopDone: timestamppb.New(at.Add(5*time.Minute +
				300*time.Millisecond)),
			Configuration:     "nodes: 4\nduration: 5m\n",
			ConfigurationHash: hash("nodes: 4\nduration: 5m\n"),
			Versions:          map[string]string{"control": "fake", "n0": "fake", "n1": "fake", "n2": "fake", "n3": "fake"},
			Remark:            "made up",
		}
		if k.end == "stopped" {
			r.StoppedBy = "bob"
		}
		if k.cause != nil {
			k.cause.At = timestamppb.New(at.Add(4 * time.Minute))
		}
		setBuiltTotals(r, uint64(3000+200*i))
		r.Events = []*ecsv1.Event{
			{Number: 1, At: r.StartBegun, Kind: "run", Component: "partition", Text: fmt.Sprintf("run %d begins", r.Number),
				Severity: ecsv1.Severity_SEVERITY_INFO, Run: r.Number, User: "alice"},
			{Number: 2, At: r.StopDone, Kind: "run", Component: "partition",
				Text: fmt.Sprintf("run %d ended: %s", r.Number, k.end), Severity: ecsv1.Severity_SEVERITY_INFO, Run: r.Number},
		}
		out = append(out, r)
	}
	return out
}
