package ring

// MaxWhy is the longest reason of a reply in a ring, bytes.
const MaxWhy = 192

// The life of the run in a ring of fragments: one word says what the front-end is told last, and one what it has
// replied last. Both are a ticket, and a number of docs/format/frames.md in the lower eight bits; 0: nothing.

// word packs a ticket and a number.
func word(ticket uint64, what uint8) uint64 { return ticket<<8 | uint64(what) }

// unpack is the opposite of word.
func unpack(w uint64) (ticket uint64, what uint8) { return w >> 8, uint8(w) }

// Notify tells the producer a command. A producer that looks later sees the last one. One goroutine at a time calls it.
func (c *Consumer) Notify(ticket uint64, command uint8) {
	c.command.Store(word(ticket, command))
	c.SpaceBell.Wake()
}

// Follows reports whether the producer that attached as the given number follows the run. Any goroutine may call it.
func (c *Consumer) Follows(attached uint64) bool { return c.follows.Load() == attached }

// ReplyWord changes when the producer replies. Any goroutine may call it.
func (c *Consumer) ReplyWord() uint64 { return c.reply.Load() }

// Reply returns what the producer has replied last: 0, 0 if it has not. Any goroutine may call it.
func (c *Consumer) Reply() (ticket uint64, reply uint8) { return unpack(c.reply.Load()) }

// Why is why the producer has failed, by its last reply. Any goroutine may call it.
func (c *Consumer) Why() string { return loadText(c.why[:]) }

// HasLife reports whether the consumer tells the life of the run.
func (p *Producer) HasLife() bool { return p.features&featureLife != 0 }

// SourceName is how the run calls the source; empty if it has no name.
func (p *Producer) SourceName() string { return loadText(p.sourceName[:]) }

// Command is what the producer is told last; 0, 0: nothing since it attached.
func (p *Producer) Command() (ticket uint64, command uint8) {
	if ticket, command = unpack(p.command.Load()); ticket <= p.formerTicket {
		return 0, 0
	}
	return ticket, command
}

// Answer replies to a command, behind all committed records. Of why, at most MaxWhy bytes count.
func (p *Producer) Answer(ticket uint64, reply uint8, why string) {
	p.reply.Store(0) // a reader of the text does not take it for that of the reply before
	storeText(p.why[:], why)
	p.reply.Store(word(ticket, reply))
	p.RecordsBell.ForceWake()
}
