package tagnet

import (
	"math/rand/v2"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"pgregory.net/rapid"

	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
	"ringlet/tagnet/core"
)

// brokenStreams is a Server and its clients without a network: what is said lies on wires until it is delivered, and a
// cut loses all of it.
type brokenStreams struct {
	s     *Server
	total uint64
	rus   []*brokenRU
	bus   []*brokenBU
	cuts  int
	dice  *rand.Rand // many steps are drawn: rapid draws the seed
}

type brokenRU struct {
	c      *RUClient
	st     *stream // the server's end
	up     []*tagnetv1.RUUpdate
	down   []*tagnetv1.Notices
	tokens []core.Token
}

type brokenBU struct {
	c    *BUClient
	st   *stream
	up   []*tagnetv1.FeedbackBatch
	down []*tagnetv1.Notices
	todo []core.Token
}

// onAWire is how many messages lie on a wire at most: as many are sent as delivered, and what is said last would else
// come ever later.
const onAWire = 4

var errCut = status.Error(codes.Unavailable, "connection reset by peer")

func newBrokenStreams(t *rapid.T) *brokenStreams {
	cfg := core.Config{
		RUs: names("ru", rapid.IntRange(1, 3).Draw(t, "readout units")),
		BUs: names("bu", rapid.IntRange(1, 3).Draw(t,
			"builder units")),
		Slots:   rapid.IntRange(1, 4).Draw(t, "slots"),
		Packing: 1,
		Loose:   true,
		TagRing: rapid.Bool().Draw(t, "ring"),
	}
	cfg.BypassBusyRUs = cfg.TagRing && rapid.Bool().Draw(t, "by-pass")
	s, err := newServer(serverConfig{Core: cfg, ResumeTimeout: testTimeout})
	must(t, err)
	b := &brokenStreams{s: s, total: uint64(rapid.IntRange(1, 60).Draw(t, "MEPs")),
		dice: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))}
	for range cfg.RUs {
		b.rus = append(b.rus, &brokenRU{c: &RUClient{clientSession: clientSession{wake: make(chan struct{}, 1)}}})
	}
	for range cfg.BUs {
		b.bus = append(b.bus, &brokenBU{c: &BUClient{clientSession: clientSession{wake: make(chan struct{}, 1)},
			slots: cfg.Slots, handlers: BUHandlers{Outcomes: NewOutcomeLog(cfg.Slots, cfg.Slots)}}})
	}
	for i := range b.rus {
		b.openRU(t, i, uint64(i+1))
	}
	for j := range b.bus {
		b.openBU(t, j, uint64(j+1))
	}
	return b
}

// awaitOwner waits for the owner's turn.
func (b *brokenStreams) awaitOwner() { b.s.runAsOwner(func() {}) }

func (b *brokenStreams) openRU(t *rapid.T, i int, number uint64) {
	u := b.rus[i]
	sc := &tagnetv1.Scope{Name: b.s.cfg.Core.RUs[i], Conversation: number}
	first := u.c.openingMessage(sc)
	st, err := b.s.attach(t.Context(), core.Readout, sc, first.GetHad(), first.GetRecall())
	must(t, err)
	u.st, u.up, u.down = st, []*tagnetv1.RUUpdate{first}, nil
}

func (b *brokenStreams) openBU(t *rapid.T, j int, number uint64) {
	u := b.bus[j]
	sc := &tagnetv1.Scope{Name: b.s.cfg.Core.BUs[j], Conversation: number}
	st, err := b.s.attach(t.Context(), core.Builder, sc, u.c.openingMessage(sc).GetHad(), nil)
	must(t, err)
	u.st, u.up, u.down = st, nil, nil
	b.sendFrom(t, st, &u.down)
}

// cut breaks the stream of a unit and resumes it. The server may hear of the break before, later or never.
func (b *brokenStreams) cut(t *rapid.T) {
	b.cuts++
	noticed := []string{"before", "later", "never"}[b.dice.IntN(3)]
	detachIf := func(st *stream, when string) {
		if noticed == when {
			b.s.detach(st, errCut)
		}
	}
	if i := b.dice.IntN(len(b.rus) + len(b.bus)); i < len(b.rus) {
		old := b.rus[i].st
		detachIf(old, "before")
		b.openRU(t, i, uint64(i+1))
		detachIf(old, "later")
	} else {
		j := i - len(b.rus)
		old := b.bus[j].st
		detachIf(old, "before")
		b.openBU(t, j, uint64(j+1))
		detachIf(old, "later")
	}
}

func pop[T any](list *[]T) (first T, ok bool) {
	if len(*list) == 0 {
		return first, false
	}
	first, *list = (*list)[0], (*list)[1:]
	return first, true
}

// readout has a readout unit read on, say what it has to say, or hear.
func (b *brokenStreams) readout(t *rapid.T) {
	u := b.rus[b.dice.IntN(len(b.rus))]
	switch b.dice.IntN(5) {
	case 0:
		l := &u.c.latest.update
		l.ReadBelow = min(b.total, l.ReadBelow+uint64(1+b.dice.IntN(9)))
		l.Events, l.InputEnded = l.ReadBelow, l.ReadBelow == b.total
	case 1:
		if len(u.up) < onAWire {
			u.up = append(u.up, u.c.updateMessage())
		}
	case 2:
		if m, ok := pop(&u.up); ok {
			in, err := b.s.decodeUpdate(u.st, m)
			must(t, err)
			b.s.step(in)
		}
	case 3:
		b.sendFrom(t, u.st, &u.down)
	case 4:
		if m, ok := pop(&u.down); ok {
			b.receive(t, u, m)
		}
	}
}

// sendFrom has the server say what it has to say.
func (b *brokenStreams) sendFrom(t *rapid.T, st *stream, down *[]*tagnetv1.Notices) {
	b.awaitOwner()
	m, ok := st.reader.message(st.taken.Load())
	if !ok {
		t.Fatalf("%s fell out of the log", st.name)
	}
	if m != nil {
		*down = append(*down, m)
	}
}

func (b *brokenStreams) receive(t *rapid.T, u *brokenRU, m *tagnetv1.Notices) {
	must(t, u.c.advance(m))
	batch, what := u.c.decode(m)
	if what != "" {
		t.Fatalf("the scheduler sent %s", what)
	}
	for i := range batch.Len() {
		for bu := range batch.PlacesPerCycle {
			tok, ok := batch.Token(i, bu)
			if !ok {
				continue
			}
			u.tokens = append(u.tokens, tok)
			if u == b.rus[0] { // the others are as good
				b.bus[bu].todo = append(b.bus[bu].todo, tok)
			}
		}
	}
	for i := range batch.Tags {
		b.pass(&batch.Tags[i])
	}
}

// pass sends a tag round the ring at once.
func (b *brokenStreams) pass(tag *core.Tag) {
	bypassed := b.s.cfg.Core.BypassBusyRUs && tag.Loop < core.MaxLoops && b.dice.IntN(2) == 0
	for ru := range b.rus {
		if !bypassed || ru > 0 {
			tag.Served.Add(ru)
		}
	}
	b.rus[len(b.rus)-1].c.latest.returned.push(*tag)
}

// build has a builder unit build, say so, or hear.
func (b *brokenStreams) build(t *rapid.T) {
	u := b.bus[b.dice.IntN(len(b.bus))]
	switch b.dice.IntN(5) {
	case 0:
		if tok, ok := pop(&u.todo); ok {
			must(t, u.c.QueueFeedback(built(tok, 1)))
		}
	case 1:
		if len(u.up) == onAWire {
			return
		}
		if first, entries := u.c.takeEntries(); len(entries) > 0 {
			m := u.c.packEntries(entries)
			m.First = first
			u.up = append(u.up, m)
		}
	case 2:
		if m, ok := pop(&u.up); ok {
			in, err := b.s.decodeFeedback(u.st, m)
			must(t, err)
			b.s.step(in)
		}
	case 3:
		if len(u.down) < onAWire {
			b.sendFrom(t, u.st, &u.down)
		}
	case 4:
		if m, ok := pop(&u.down); ok {
			must(t, u.c.advance(m))
			if !u.c.applyAck(m) {
				t.Fatalf("an acknowledgement of %d entries was refused", m.GetTaken())
			}
		}
	}
}

// TestStreamsCutAtAnyPoint runs views to their end while streams are cut with whatever is on the wire: every outcome
// counts once, every readout unit has every token once and in order, and no tag is lost or doubled.
func TestStreamsCutAtAnyPoint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newBrokenStreams(t)
		defer b.s.Close()
		// Cuts end after a while, so that what must come to an end does.
		cuts := rapid.IntRange(0, 40).Draw(t, "cuts")
		for steps := 0; b.s.log.last().State != core.Drained; steps++ {
			if steps == 100_000 {
				t.Fatalf("the view does not end: %+v", b.s.Registers())
			}
			switch {
			case b.cuts < cuts && b.dice.IntN(20) == 0:
				b.cut(t)
			case b.dice.IntN(2) == 0:
				b.readout(t)
			default:
				b.build(t)
			}
		}
		b.check(t)
	})
}

func (b *brokenStreams) check(t *rapid.T) {
	r := b.s.Registers()
	c := r.Counters
	if c.Issued != b.total || c.Built != b.total || c.Reissued != 0 || c.EventsBuilt != b.total {
		t.Errorf("%d of %d MEPs built, %d issued", c.Built, b.total, c.Issued)
	}
	for why, n := range c.Refused {
		if n > 0 {
			t.Errorf("%d inputs were refused as %v", n, core.Reason(why))
		}
	}
	if len(r.Refused) > 0 || int(c.StreamsResumed) != b.cuts {
		t.Errorf("%d cuts, %d resumed, refused %v", b.cuts, c.StreamsResumed, r.Refused)
	}
	if g := c.Tags; g != nil && (g.Launched != b.total || g.Returned != b.total) {
		t.Errorf("%d tags launched and %d returned for %d MEPs", g.Launched, g.Returned, b.total)
	}
	for i, u := range b.rus { // what it has not heard yet
		for n := -1; n < len(u.down); {
			n = len(u.down)
			b.sendFrom(t, u.st, &u.down)
		}
		for m, ok := pop(&u.down); ok; m, ok = pop(&u.down) {
			must(t, u.c.advance(m))
			batch, what := u.c.decode(m)
			if what != "" {
				t.Fatalf("ru%d was sent %s", i, what)
			}
			for k := range batch.Len() {
				for bu := range batch.PlacesPerCycle {
					if tok, ok := batch.Token(k, bu); ok {
						u.tokens = append(u.tokens, tok)
					}
				}
			}
		}
		if uint64(len(u.tokens)) != b.total || !slices.Equal(u.tokens, b.rus[0].tokens) {
			t.Errorf("ru%d has %d tokens, ru0 has %d", i, len(u.tokens), len(b.rus[0].tokens))
		}
	}
}
