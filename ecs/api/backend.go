package api

import (
	"context"

	"ringlet/ecs/record"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
	samplev1 "ringlet/proto/ringlet/sample/v1"
	tapv1 "ringlet/proto/ringlet/tap/v1"
)

// Backend is the partition as the API sees it. Its methods may be called by several goroutines at once. What they
// return is not changed any more by either side.
type Backend interface {
	// Status is the state of everything, without owner and you: those are the API's.
	Status() *ecsv1.PartitionStatus
	// FSM describes the machine. Commands and arguments are checked against it before Plan and Command see them.
	FSM() *ecsv1.FSM
	// Plan tells what a command would do.
	Plan(ctx context.Context, req *ecsv1.CommandRequest) *ecsv1.PlanResponse
	// Command obeys, and tells the journal who asked; or returns one of the errors of this package. The end of ctx ends
	// the waiting, not the command.
	Command(ctx context.Context, user string, req *ecsv1.CommandRequest) (*ecsv1.CommandResponse, error)
	// Check says whether a configuration would be taken.
	Check(ctx context.Context, req *ecsv1.CheckConfigurationRequest) *ecsv1.CheckConfigurationResponse
	// Tap sends a sample of what is built until ctx ends or send fails, and returns why. An *ArgumentError comes before
	// the first message, which comes soon.
	Tap(ctx context.Context, sel *tapv1.Selection, send func(*tapv1.Samples) error) error
	// Sample sends counters of a node until there are enough, the run is over, ctx ends or send fails, and returns why:
	// nil where it has all. An error of the question comes before the first message.
	Sample(ctx context.Context, q *samplev1.Question, send func(*samplev1.Samples) error) error
	// Snapshot is the live figures, with so many samples of what was before at most. It is not to be changed.
	Snapshot(history int) *ecsv1.Snapshot
}

// Records are what outlives the process: runs, the audit log, and a memory for sessions and who has control. A
// *record.Store is one.
type Records interface {
	// List returns at most limit runs before that number (0: from the newest on), newest first.
	List(before uint32, limit int) (record.RunList, error)
	// Get returns the record of a run. The error is a *record.NoRunError where there is none.
	Get(number uint32) (*ecsv1.Run, error)
	// Latest is Get of the newest.
	Latest() (*ecsv1.Run, error)
	// AddAudit writes an entry; the record gives it its number. It comes back within seconds, whatever the disk does:
	// who stops a run waits for it afterwards.
	AddAudit(entry *ecsv1.AuditEntry) error
	// ListAudit returns at most limit entries, newest first.
	ListAudit(limit int) ([]*ecsv1.AuditEntry, error)
	// Remember keeps a value under a key, in place of an older one.
	Remember(key string, value []byte) error
	// Recall returns it, nil where there is none.
	Recall(key string) ([]byte, error)
}

// Journal is what happens. A *journal.Journal is one.
type Journal interface {
	// Add takes the event and gives it its number.
	Add(event *ecsv1.Event) uint64
	// LastNumber is the number of the newest event.
	LastNumber() uint64
	// Subscribe delivers events until ctx ends, and then closes: those after that number that are still remembered, and
	// new ones.
	Subscribe(ctx context.Context, after uint64) <-chan *ecsv1.Event
}
