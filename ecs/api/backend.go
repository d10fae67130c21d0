package api

import (
	"context"

	"ringlet/ecs/record"
	ecsv1 "ringlet/proto/ringlet/ecs/v1"
	samplev1 "ringlet/proto/ringlet/sample/v1"
	tapv1 "ringlet/proto/ringlet/tap/v1"
)

// Backend is the partition behind the API. Its methods may be called by several goroutines at once. Messages that they
// return are immutable from then on, for both sides.
type Backend interface {
	// Status is the status of all components. The API fills in Owner and You.
	Status() *ecsv1.PartitionStatus
	// FSM describes the state machine. The API checks commands and arguments against it before Plan and Command.
	FSM() *ecsv1.FSM
	// Plan says what a command would do.
	Plan(ctx context.Context, req *ecsv1.CommandRequest) *ecsv1.PlanResponse
	// Command carries a command out, and writes it to the journal with the user; or it returns one of the errors of this
	// package. The end of ctx ends the waiting, not the command.
	Command(ctx context.Context, user string, req *ecsv1.CommandRequest) (*ecsv1.CommandResponse, error)
	// Check says whether load would take a configuration.
	Check(ctx context.Context, req *ecsv1.CheckConfigurationRequest) *ecsv1.CheckConfigurationResponse
	// Tap sends a sample of the built events until ctx ends or send fails, and returns why. It returns an *ArgumentError
	// before the first message, which comes within a second or so.
	Tap(ctx context.Context, sel *tapv1.Selection, send func(*tapv1.Samples) error) error
	// Sample sends samples of a node's counters until it has sent all that q asks for, the run is over, ctx ends or send
	// fails, and returns why: nil if it has sent all. It returns an *ArgumentError before the first message.
	Sample(ctx context.Context, q *samplev1.Question, send func(*samplev1.Samples) error) error
	// Snapshot is the present state in figures, with at most history samples of earlier ones.
	Snapshot(history int) *ecsv1.Snapshot
}

// Records keep what outlives the process: runs, the audit log, and the API's state. A *record.Store implements it.
type Records interface {
	// List returns at most limit runs with lower numbers than before (0: from the newest on), newest first.
	List(before uint32, limit int) (record.RunList, error)
	// Get returns the record of a run, or a *record.NoRunError.
	Get(number uint32) (*ecsv1.Run, error)
	// Latest returns the record of the newest run.
	Latest() (*ecsv1.Run, error)
	// AddAudit numbers and writes an entry. It returns within seconds even if the disk hangs: a stop waits for it.
	AddAudit(entry *ecsv1.AuditEntry) error
	// ListAudit returns at most limit entries, newest first.
	ListAudit(limit int) ([]*ecsv1.AuditEntry, error)
	// Remember stores a value under a key, and replaces an older one.
	Remember(key string, value []byte) error
	// Recall returns the value under a key; nil if there is none.
	Recall(key string) ([]byte, error)
}

// Journal keeps and distributes events. A *journal.Journal implements it.
type Journal interface {
	// Add numbers the event, keeps it, and returns its number.
	Add(event *ecsv1.Event) uint64
	// LastNumber is the number of the newest event.
	LastNumber() uint64
	// Subscribe delivers events until ctx ends, and then closes the channel: first the kept events with numbers above
	// after, then new ones.
	Subscribe(ctx context.Context, after uint64) <-chan *ecsv1.Event
}
