package decision

// triggerTimes know since when events are triggered: a queue of marks, each for the events from the one before it on.
// Marks within a grain of time are one, which counts from the end of the grain: a time-out may be a grain late, and is
// never early.
type triggerTimes struct {
	grain          int64         // ns
	triggeredBelow uint64        // events below it are triggered
	ring           []triggerMark // a power of two
	head           uint32        // the oldest
	tail           uint32        // behind the newest
}

type triggerMark struct {
	below            uint64
	firstTriggeredAt int64 // when the first of its events was known
	timeoutFrom      int64 // from when their time-out counts
}

// maxMarks is how many grains a time-out has at most, and one more than are ever kept: 0.4 µs of 1.6 ms each.
const maxMarks = 4096

func newTriggerTimes(first uint64, timeout int64) triggerTimes {
	return triggerTimes{grain: max(1, timeout/(maxMarks/2)), triggeredBelow: first, ring: make([]triggerMark, maxMarks)}
}

// advance tells that events up to one more are triggered.
func (m *triggerTimes) advance(below uint64, now int64) {
	m.triggeredBelow = below
	if m.head != m.tail {
		last := &m.ring[(m.tail-1)%maxMarks]
		if now <= last.timeoutFrom || m.tail-m.head == maxMarks { // or nobody has stepped for long
			last.below, last.timeoutFrom = below, max(last.timeoutFrom, now)
			return
		}
	}
	m.ring[m.tail%maxMarks] = triggerMark{below, now, now + m.grain}
	m.tail++
}

// lookup is the mark of an event that is triggered; it forgets those of all events before.
func (m *triggerTimes) lookup(event uint64) triggerMark {
	for event >= m.ring[m.head%maxMarks].below {
		m.head++
	}
	return m.ring[m.head%maxMarks]
}
