package ring

import (
	"encoding/binary"
	"math"
	"strings"
	"sync/atomic"
	"unicode"
	"unicode/utf8"
)

// The consumer's answers about a ring of fragments: which events are safe, which fragments it has given up, that it has
// taken the end, and where a new producer goes on. All these words are of revision 2, except safe.

// Reason is why fragments were given up: the code of docs/format/ring.md.
type Reason uint32

// Reasons.
const (
	Late      Reason = 1
	Repeat    Reason = 2
	Backwards Reason = 3
	Jump      Reason = 4
	Leftover  Reason = 5
)

// GivenUp is a range of events whose fragments in the ring are in no file of this run.
type GivenUp struct {
	From, To    uint64 // To is the first event behind the range
	Why         Reason
	Count       uint32 // fragments in the range
	Overwritten uint64 // earlier ranges that were overwritten before they were read
}

// givenUpState is what a consumer has reported to the producer.
type givenUpState struct {
	// the event of the last fragment; the event below which all are safe; the one that the producer has been told
	lastEvent, safeWanted, safePublished uint64
	// the lowest event at or above safePublished with a fragment that was given up; noEvent: none
	safeLimit                          uint64
	publishedPosition, publishedResume uint64 // as stored by PublishResume
}

func newGivenUpState() givenUpState { return givenUpState{lastEvent: noEvent, safeLimit: noEvent} }

// SetSafe tells the producer that the fragments of all events below this number are safe, or reported by ReportGivenUp.
// A producer of revision 1 does not read those reports; for it only events below the first given-up one are safe. Call
// SetSafe again, with any number, after another producer has attached.
func (c *Consumer) SetSafe(event uint64) {
	c.safeWanted = max(c.safeWanted, event)
	to := c.safeWanted
	if !c.producerRevised() {
		to = min(to, c.safeLimit)
	}
	if to <= c.safePublished {
		return
	}
	c.safePublished = to
	c.safe.Store(to)
	if c.safeLimit < to {
		c.safeLimit = noEvent
	}
}

// SafeHeldAt returns the safe event of a producer of revision 1, and true if a fragment that was given up keeps it
// there.
func (c *Consumer) SafeHeldAt() (uint64, bool) {
	return c.safeLimit, c.safeLimit < c.safeWanted && !c.producerRevised()
}

// ReportGivenUp tells the producer that the fragments of the events [from, to) are in no file, and why. A producer of
// revision 1 cannot read the report: for it no event from the first one that was given up becomes safe.
func (c *Consumer) ReportGivenUp(from, to uint64, why Reason) {
	if from >= to {
		return
	}
	if to > c.safePublished {
		c.safeLimit = min(c.safeLimit, max(from, c.safePublished))
	}
	n := c.givenUpRanges.Load()
	g := &c.givenUpTable[n%givenUpTableSize]
	g.seq.Store(0) // a reader sees that the entry is incomplete
	g.from.Store(from)
	g.to.Store(to)
	g.why.Store(uint64(why) | min(to-from, math.MaxUint32)<<32)
	g.seq.Store(n + 1)
	c.givenUpFragments.Add(to - from)
	c.givenUpRanges.Store(n + 1)
}

// GivenUp is how many fragments of this ring the consumer has given up.
func (p *Producer) GivenUp() uint64 { return p.givenUpFragments.Load() }

// NextGivenUp returns the next range that the consumer has given up in this run; false if there is none. The error is a
// *BrokenError.
func (p *Producer) NextGivenUp() (g GivenUp, ok bool, err error) {
	if !p.consumerRevised() {
		return g, false, nil
	}
	n := p.givenUpRanges.Load()
	if n < p.nextRange {
		return g, false, p.brokenError("count of ranges", 0, n, "it has moved back")
	}
	if n-p.nextRange > givenUpTableSize {
		g.Overwritten, p.nextRange = n-givenUpTableSize-p.nextRange, n-givenUpTableSize
	}
	for ; p.nextRange < n; p.nextRange++ { // at most givenUpTableSize rounds
		e := &p.givenUpTable[p.nextRange%givenUpTableSize]
		seq := e.seq.Load()
		g.From, g.To = e.from.Load(), e.to.Load()
		why := e.why.Load()
		g.Why, g.Count = Reason(uint32(why)), uint32(why>>32)
		if seq != p.nextRange+1 || e.seq.Load() != seq {
			g.Overwritten++ // the consumer is overwriting it
			continue
		}
		p.nextRange++
		if g.From >= g.To {
			return GivenUp{}, false, p.brokenError("range given up", 0, g.From, "it has no events")
		}
		return g, true, nil
	}
	return GivenUp{}, false, nil
}

// EndAcked reports whether the consumer has taken all committed records and the end of the run. A consumer of revision
// 1 does not report that it has taken the end; for it the records alone count. Errors are those of CheckOpen and
// *BrokenError.
func (p *Producer) EndAcked() (bool, error) {
	if p.consumerRevised() {
		if p.endTaken.Load() != 0 {
			return true, nil
		}
	} else if err := p.loadTaken(); err != nil || p.taken == p.position {
		return err == nil, err
	}
	return false, p.CheckOpen()
}

// consumerRevised reports whether the consumer uses the words of revision 2.
func (r *ring) consumerRevised() bool { return r.features&featureRevised != 0 }

// AckEnd tells the producer that the consumer has taken the end of the run.
func (c *Consumer) AckEnd() {
	c.endTaken.Store(1)
	c.SpaceBell.Wake()
}

// PublishResume tells a new producer that the consumer has judged all records below the taken position, and from which
// event on to send; known = false: the consumer does not know yet. If that is the event behind the last record, the
// producer uses the mark instead, which also counts dropped fragments.
func (c *Consumer) PublishResume(event uint64, known bool) {
	resume := event + 1
	if !known || event == c.lastEvent+1 {
		resume = 0
	}
	if at := c.publishedTaken; at != c.publishedPosition || resume != c.publishedResume {
		if resume != c.publishedResume {
			c.resumePosition.Store(math.MaxUint64) // no valid position, so a producer that reads meanwhile ignores the event
			c.resumeEvent.Store(resume)
		}
		c.resumePosition.Store(at)
		c.publishedPosition, c.publishedResume = at, resume
	}
}

// ResumePublished reports whether the consumer has judged all committed records; if not, wait for it for a moment
// before Resume. A consumer of revision 1 never reports that, so the result is then true.
func (p *Producer) ResumePublished() bool {
	return !p.consumerRevised() || p.resumePosition.Load() == p.position
}

// Resume takes the next event from the consumer, if the consumer has judged all committed records and its answer is not
// the mark's: so a wrong number of an earlier producer does not continue.
func (p *Producer) Resume() {
	if !p.consumerRevised() || p.resumePosition.Load() != p.position {
		return
	}
	resume := p.resumeEvent.Load()
	if resume == 0 || p.resumePosition.Load() != p.position {
		return
	}
	p.writeMark(resume - 1)
	p.writeMark(resume - 1) // in both marks, or the higher number in the other one would count
}

// producerRevised reports whether the producer that attached last knows the words of revision 2.
func (c *Consumer) producerRevised() bool {
	return c.revision.Load() >= revision && c.identityOf.Load() == c.attached.Load()
}

// Frontend is the name that the last attached producer has given; empty if none. Characters that are not printable
// UTF-8 are replaced by '?'.
func (c *Consumer) Frontend() string {
	if !c.producerRevised() {
		return ""
	}
	return loadText(c.producerName[:])
}

// loadText is a text that another process has stored. Characters that are not printable UTF-8 are replaced by '?'.
func loadText(words []atomic.Uint64) string {
	b := make([]byte, 0, 8*len(words))
	for i := range words {
		b = binary.LittleEndian.AppendUint64(b, words[i].Load())
	}
	text, _, _ := strings.Cut(string(b), "\x00")
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return '?'
		}
		return r
	}, text)
}

// set stores a text, padded with zeros.
func (n *paddedName) set(text string) { storeText(n[:], text) }

// storeText stores a text that another process may read, padded with zeros; a longer one is cut.
func storeText(words []atomic.Uint64, text string) {
	b := make([]byte, 8*len(words))
	copy(b, text)
	for i := range words {
		words[i].Store(binary.LittleEndian.Uint64(b[8*i:]))
	}
}

// writeIdentity writes the producer's name and revision, before the producer attaches.
func (p *Producer) writeIdentity(name string) {
	p.producerName.set(name)
	p.revision.Store(revision)
	p.identityOf.Store(p.attached.Load() + 1)
}
