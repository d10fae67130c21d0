package ring

import (
	"encoding/binary"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"
)

// What the consumer of a ring of fragments says back: which events are safe, what was given up, that the end was taken,
// where whoever comes is to go on. The words are those of revision 2, but for safe.

// Reason says why fragments were given up: the code of docs/format/ring.md.
type Reason uint32

// The reasons.
const (
	Late      Reason = 1
	Repeat    Reason = 2
	Backwards Reason = 3
	Jump      Reason = 4
	Leftover  Reason = 5
)

// GivenUp is a range of events of which fragments that stood in the ring are in no file of this run.
type GivenUp struct {
	From, To    uint64 // To is the first event behind it
	Why         Reason
	Count       uint32 // of fragments
	Overwritten uint64 // ranges before this one that were overwritten before they were read
}

// givenUpState is what a consumer knows of what it has told.
type givenUpState struct {
	// the event of the last fragment; what is safe, and what of it the producer was told
	lastEvent, safeWanted, safePublished uint64
	// the lowest event at or above safePublished whose fragment was given up; noEvent: none
	safeLimit                          uint64
	publishedPosition, publishedResume uint64 // as PublishResume stored it
}

func newGivenUpState() givenUpState { return givenUpState{lastEvent: noEvent, safeLimit: noEvent} }

// SetSafe tells the producer that the fragments of all events below this number are safe, or ReportGivenUp has told of
// them. A producer that does not know of those is told no more than what is below the first of them. Call it again,
// with any number, when another producer has attached.
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

// SafeHeldAt is the event below which a producer of revision 1 is told safe, and true, if fragments that were given up
// keep it there.
func (c *Consumer) SafeHeldAt() (uint64, bool) {
	return c.safeLimit, c.safeLimit < c.safeWanted && !c.producerRevised()
}

// ReportGivenUp tells the producer that the fragments of the events from one up to another are in no file, and why. To
// a producer that does not know such words, nothing from the first of them on is told safe.
func (c *Consumer) ReportGivenUp(from, to uint64, why Reason) {
	if from >= to {
		return
	}
	if to > c.safePublished {
		c.safeLimit = min(c.safeLimit, max(from, c.safePublished))
	}
	n := c.givenUpRanges.Load()
	g := &c.givenUpTable[n%givenUpTableSize]
	g.seq.Store(0) // who reads it meanwhile sees that it is not whole
	g.from.Store(from)
	g.to.Store(to)
	g.why.Store(uint64(why) | min(to-from, math.MaxUint32)<<32)
	g.seq.Store(n + 1)
	c.givenUpFragments.Add(to - from)
	c.givenUpRanges.Store(n + 1)
}

// GivenUp is how many fragments of this ring the consumer has given up.
func (p *Producer) GivenUp() uint64 { return p.givenUpFragments.Load() }

// NextGivenUp gives the next range that was given up, of all that were told in this run; false where there is none.
// The error is a *BrokenError.
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
	for ; p.nextRange < n; p.nextRange++ { // at most givenUpTableSize times
		e := &p.givenUpTable[p.nextRange%givenUpTableSize]
		seq := e.seq.Load()
		g.From, g.To = e.from.Load(), e.to.Load()
		why := e.why.Load()
		g.Why, g.Count = Reason(uint32(why)), uint32(why>>32)
		if seq != p.nextRange+1 || e.seq.Load() != seq {
			g.Overwritten++ // it is being overwritten
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

// EndAcked says whether the consumer has taken everything that was committed, and the end of the run. One of revision 1
// does not say so: there all must have been taken. Errors are those of CheckOpen and *BrokenError.
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

// consumerRevised says that the consumer keeps the words of revision 2.
func (r *ring) consumerRevised() bool { return r.features&featureRevised != 0 }

// AckEnd tells the producer that its end of the run was taken.
func (c *Consumer) AckEnd() {
	c.endTaken.Store(1)
	c.SpaceBell.Wake()
}

// PublishResume says that everything below the taken position has been judged, and from which event a producer that
// comes now is to send; known false: nothing is known yet. Where that is the one behind the last record, the mark says
// it, which knows of what was dropped, too.
func (c *Consumer) PublishResume(event uint64, known bool) {
	resume := event + 1
	if !known || event == c.lastEvent+1 {
		resume = 0
	}
	if at := c.publishedTaken; at != c.publishedPosition || resume != c.publishedResume {
		if resume != c.publishedResume {
			c.resumePosition.Store(math.MaxUint64) // no position: what is read meanwhile holds for none
			c.resumeEvent.Store(resume)
		}
		c.resumePosition.Store(at)
		c.publishedPosition, c.publishedResume = at, resume
	}
}

// ResumePublished says whether the consumer has judged all that was committed; where it has not, wait for it for a
// little while before Resume. One of revision 1 never says it.
func (p *Producer) ResumePublished() bool {
	return !p.consumerRevised() || p.resumePosition.Load() == p.position
}

// Resume takes from the consumer which event comes next, if it has judged all that was committed and knows better than
// the marks: a wild number of the producer before is then none to go on from.
func (p *Producer) Resume() {
	if !p.consumerRevised() || p.resumePosition.Load() != p.position {
		return
	}
	resume := p.resumeEvent.Load()
	if resume == 0 || p.resumePosition.Load() != p.position {
		return
	}
	p.writeMark(resume - 1)
	p.writeMark(resume - 1) // both marks, or the higher number of the other one would hold again
}

// producerRevised says whether the producer that attached last knows the words of revision 2.
func (c *Consumer) producerRevised() bool {
	return c.revision.Load() >= revision && c.identityOf.Load() == c.attached.Load()
}

// Frontend is the name of the producer that attached last, as it says; empty where it says none. What is no printable
// text of UTF-8 is replaced.
func (c *Consumer) Frontend() string {
	if !c.producerRevised() {
		return ""
	}
	var b [MaxName]byte
	for i := range c.producerName {
		binary.LittleEndian.PutUint64(b[8*i:], c.producerName[i].Load())
	}
	text, _, _ := strings.Cut(string(b[:]), "\x00")
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return '?'
		}
		return r
	}, text)
}

// writeIdentity says who the producer is, before it says that it is there.
func (p *Producer) writeIdentity(name string) {
	var b [MaxName]byte
	copy(b[:], name)
	for i := range p.producerName {
		p.producerName[i].Store(binary.LittleEndian.Uint64(b[8*i:]))
	}
	p.revision.Store(revision)
	p.identityOf.Store(p.attached.Load() + 1)
}
