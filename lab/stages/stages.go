package stages

import (
	"slices"
	"sync/atomic"
	"time"

	"ringlet/transport"
)

// NumStages is the number of stages.
const NumStages = transport.NumStages

// Call is the predecessor of the first stage: the call of Write.
const Call = -1

// Stage is a row of the table of stages.
type Stage struct {
	Name, Says  string
	Receiver    bool
	Predecessor int // index of the stage before, or Call
}

// Table has a row for each transport.Stage.
var Table = [NumStages]Stage{
	{"queued", "the request is in the link's queue", false, Call},
	{"cut", "a datagram is cut from it", false, 0},
	{"sealed", "it is encrypted", false, 1},
	{"system call", "the kernel has taken it", false, 2},
	{"received", "the receiver has it in hand", true, 2},
	{"opened", "it is decrypted, and authentic", true, 4},
	{"placed", "it is in the memory", true, 5},
	{"seen", "the receiver's code is told, once the answer is sent", true, 6},
	{"answered", "the writer's code is told of the outcome", false, 6},
}

// Tracer notes when the write under way has passed each stage. A stage of the sender counts at its first time, a stage
// of the receiver at its last time before the receiver's code is told: other datagrams carry acks and credit.
type Tracer struct {
	start    time.Time
	passedAt [NumStages]atomic.Int64 // ns since start; 0: not yet
}

// New makes a Tracer.
func New() *Tracer { return &Tracer{start: time.Now().Add(-1)} }

// Begin forgets the last write, and returns the time, ns.
func (t *Tracer) Begin() int64 {
	for i := range t.passedAt {
		t.passedAt[i].Store(0)
	}
	return int64(time.Since(t.start))
}

// Follow returns the trace function for the receiver, or for the sender.
func (t *Tracer) Follow(receiver bool) func(transport.Stage) {
	return func(stage transport.Stage) {
		if Table[stage].Receiver != receiver {
			return
		}
		now := int64(time.Since(t.start))
		if !receiver {
			t.passedAt[stage].CompareAndSwap(0, now)
		} else if stage == transport.StageReceiverNotified || t.passedAt[transport.StageReceiverNotified].Load() == 0 {
			t.passedAt[stage].Store(now)
		}
	}
}

// Passed is when the write passed a stage, ns on the clock of Begin; 0: not yet.
func (t *Tracer) Passed(stage transport.Stage) int64 { return t.passedAt[stage].Load() }

// Median sorts times in ns and returns their median in µs; 0 if there are none.
func Median(ns []int64) float64 {
	if len(ns) == 0 {
		return 0
	}
	slices.Sort(ns)
	return float64(ns[len(ns)/2]) / 1e3
}
