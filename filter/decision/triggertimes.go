package decision

// triggerTimes knows since when events are triggered: a queue of marks, each for the events from the mark before on.
// Marks within one grain of time are merged into one, which counts from the end of the grain: a time-out may be a
// grain late, and is never early.
type triggerTimes struct {
	grain          int64         // ns
	triggeredBelow uint64        // events below it are triggered
	ring           []triggerMark // a ring buffer; its length is a power of two
	head           uint32        // the oldest mark
	tail           uint32        // after the newest mark
}

type triggerMark struct {
	below            uint64
	firstTriggeredAt int64 // when the first of its events was triggered
	timeoutFrom      int64 // from when the time-out of its events counts
}

// maxMarks is more than the grains of a time-out, maxMarks/2: at 1.6 ms a grain is 0.8 µs.
const maxMarks = 4096

func newTriggerTimes(first uint64, timeout int64) triggerTimes {
	return triggerTimes{grain: max(1, timeout/(maxMarks/2)), triggeredBelow: first, ring: make([]triggerMark, maxMarks)}
}

// advance notes that the events below a number are triggered.
func (m *triggerTimes) advance(below uint64, now int64) {
	m.triggeredBelow = below
	if m.head != m.tail {
		last := &m.ring[(m.tail-1)%maxMarks]
		if now <= last.timeoutFrom || m.tail-m.head == maxMarks { // or step was not called for long
			last.below, last.timeoutFrom = below, max(last.timeoutFrom, now)
			return
		}
	}
	m.ring[m.tail%maxMarks] = triggerMark{below, now, now + m.grain}
	m.tail++
}

// lookup returns the mark of a triggered event, and forgets the marks of all events before.
func (m *triggerTimes) lookup(event uint64) triggerMark {
	for event >= m.ring[m.head%maxMarks].below {
		m.head++
	}
	return m.ring[m.head%maxMarks]
}
