package fragring

import (
	"encoding/binary"
	"math"
	"math/bits"
	"strings"
	"unicode"
	"unicode/utf8"
)

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

var reasonWords = [...]string{
	Late:      "they came too late",
	Repeat:    "they came again",
	Backwards: "their numbers run backwards",
	Jump:      "their numbers are far from those before and after",
	Leftover:  "they were left over at the end of the run",
}

func (r Reason) String() string {
	if int(r) < len(reasonWords) && r > 0 {
		return reasonWords[r]
	}
	return "for a reason that this release does not know"
}

// GivenUp is a range of events of which fragments that stood in the ring are in no file of this run.
type GivenUp struct {
	From, To    uint64 // To is the first event behind it
	Why         Reason
	Count       uint32 // of fragments
	Overwritten uint64 // ranges before this one that were overwritten before they were read
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
		return g, false, p.brokenRangeError("count of ranges", n, "it has moved back")
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
			return GivenUp{}, false, p.brokenRangeError("range given up", g.From, "it has no events")
		}
		return g, true, nil
	}
	return GivenUp{}, false, nil
}

func (p *Producer) brokenRangeError(what string, value uint64, reason string) error {
	return &BrokenError{
		Ring:   p.name,
		What:   what,
		Value:  value,
		Reason: reason,
	}
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
	c.spaceBell.Wake()
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
	return c.revision.Load() >= Revision && c.identityOf.Load() == c.attached.Load()
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
	p.revision.Store(Revision)
	p.identityOf.Store(p.attached.Load() + 1)
}

// extraBytes is how many bytes stand between the header of a record and its data.
func extraBytes(flags uint8) uint64 { return 8 * uint64(bits.OnesCount8(flags&knownFlags)) }
