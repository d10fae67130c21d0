package tagnet

import (
	"encoding/hex"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
	"ringlet/tagnet/core"
)

// writer appends notices to a log, as the owner does.
type writer struct {
	log  *noticeLog
	next core.Notice
}

func newWriter(places, keep int) *writer {
	w := &writer{log: newNoticeLog(1, keep)}
	w.next = core.Notice{Sequence: 1, For: core.ForReadouts, State: core.Running,
		Batch: core.Batch{PlacesPerCycle: places}}
	return w
}

// cycles appends a notice with cycles of these MEPs.
func (w *writer) cycles(released uint64, cycles ...[]uint64) (b core.Batch) {
	n := w.next
	for _, c := range cycles {
		n.MEPs = append(n.MEPs, c...)
		for j, mep := range c {
			word := uint32(0)
			if mep != core.NoMEP {
				word = core.PackSlot(1, uint32(j))
			}
			n.Slots = append(n.Slots, word)
		}
	}
	n.Released = released
	w.log.append([]core.Notice{n})
	w.next.Sequence++
	w.next.FirstCycle += uint64(len(cycles))
	return n.Batch
}

func (w *writer) reader() *reader { return &reader{log: w.log, who: core.ForReadouts, next: 1} }

func TestLogWrapsAndLags(t *testing.T) {
	w := newWriter(3, 1)
	fast, slow, late := w.reader(), w.reader(), w.reader()
	keep := uint64(w.log.keep)
	for cycle := range keep + 2 {
		w.cycles(cycle, []uint64{core.NoMEP, cycle, core.NoMEP})
		m, ok := fast.message(0)
		if !ok || m == nil || m.FirstCycle != cycle || len(m.Meps) != 3 || m.Meps[1] != cycle || m.Meps[0] != core.NoMEP ||
			m.Term != 1 || m.Next != cycle+2 {
			t.Fatalf("cycle %d: got %v, %v", cycle, m, ok)
		}
		if cycle == keep-1 {
			if m, ok := late.message(0); !ok || len(m.Meps) != 3*int(keep) || m.Meps[3*cycle+1] != cycle {
				t.Fatalf("everything in the log: %d MEPs, %v", len(m.GetMeps()), ok)
			}
		}
	}
	if m, ok := slow.message(0); ok {
		t.Errorf("a reader that fell out of the log got %v", m)
	}
	// One that resumes goes on where it was, and is answered at once even if there is nothing new.
	resumed := w.reader()
	resumed.next = fast.next
	if m, ok := resumed.message(0); !ok || m == nil || m.FirstCycle != keep+2 || len(m.Meps) > 0 || m.Next != fast.next {
		t.Errorf("who resumes is answered %v, %v", m, ok)
	}
	if m, ok := resumed.message(0); !ok || m != nil {
		t.Errorf("who resumes is told %v, %v", m, ok)
	}
}

// TestGoldenMessages holds the wire form to bytes written by hand from docs/format/tagnet.md.
func TestGoldenMessages(t *testing.T) {
	for want, m := range map[string]proto.Message{
		"09 0500000000000000 11 0300000000000000 18 02 20 02" +
			"2a 10 0700000000000000 ffffffffffffffff 32 08 02000001 00000000": &tagnetv1.Notices{
			FirstCycle: 5,
			Released:   3,
			State:      tagnetv1.State(core.Running),
			Places:     2,
			Meps:       []uint64{7, core.NoMEP},
			Slots:      []uint32{core.PackSlot(1, 2), 0},
		},
		"11 0900000000000000 18 02 20 02 3a 0a 0a 08 0700000000000000": &tagnetv1.Notices{
			Released: 9,
			State:    tagnetv1.State(core.Running),
			Places:   2,
			HeldUp:   &tagnetv1.HeldUp{Meps: []uint64{7}},
		},
		"11 0300000000000000 18 02 20 02 5a 20 0700000000000000 0300000000000000 0c00000000000000 0100000000000000 60 " +
			"01": &tagnetv1.Notices{
			Released: 3,
			State:    tagnetv1.State(core.Running),
			Places:   2,
			Cuts:     []uint64{7, 3, 12, 1},
			CutsOver: true,
		},
		"52 26 09 0500000000000000 11 0900000000000000 19 0800000000000000 21 0700000000000000 28 01": &tagnetv1.RUUpdate{
			Reach: reachMessage(&core.Reach{
				FirstUncut:    5,
				CompleteBelow: 9,
				FlushBelow:    8,
				OverdueBelow:  7,
				Ended:         true,
			}),
		},
		"1a 08 0700000000000000 22 04 02000001 2a 04 0a000000 32 04 e8030000 3a 01 01": &tagnetv1.FeedbackBatch{
			Meps:     []uint64{7},
			Slots:    []uint32{core.PackSlot(1, 2)},
			Events:   []uint32{10},
			HeldUs:   []uint32{1000},
			Outcomes: []byte{byte(core.Built)},
		},
		"0a 0b 08 08 10 07 18 03 22 03 727530 11 0900000000000000 19 5a00000000000000 20 01": &tagnetv1.RUUpdate{
			Scope:  Scope{Run: 7, View: 3, Name: "ru0"}.message(),
			Read:   9,
			Events: 90,
			End:    true,
		},
	} {
		got, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		if want := strings.ReplaceAll(want, " ", ""); err != nil || hex.EncodeToString(got) != want {
			t.Errorf("%T is\n%x, %v, want\n%s", m, got, err, want)
		}
	}
}

// TestConsecutiveCycles holds that the MEPs of many cycles travel as those of the first, wherever the cursor stands,
// and only when the others can be told from them.
func TestConsecutiveCycles(t *testing.T) {
	for name, tt := range map[string]struct {
		cycles [][]uint64
		wire   int // MEPs in the message
	}{
		"one":          {[][]uint64{{7, 8, 9}}, 3},
		"in order":     {[][]uint64{{7, 8, 9}, {10, 11, 12}, {13, 14, 15}}, 3},
		"rotated":      {[][]uint64{{9, 7, 8}, {12, 10, 11}}, 3},
		"an empty one": {[][]uint64{{7, core.NoMEP, 9}, {10, core.NoMEP, 12}}, 6},
		"issued again": {[][]uint64{{7, 8, 9}, {10, 3, 12}}, 6},
	} {
		w := newWriter(3, 1)
		b := w.cycles(0, tt.cycles...)
		m, ok := w.reader().message(0)
		if !ok || len(m.GetMeps()) != tt.wire || len(m.GetSlots()) != 3*len(tt.cycles) {
			t.Errorf("%s: %v, %v", name, m, ok)
			continue
		}
		got := tokensOf(m)
		if why := got.check(0); why != "" || !slices.Equal(got.MEPs, b.MEPs) || !slices.Equal(got.Slots, b.Slots) {
			t.Errorf("%s: %s %v is read as %v", name, why, b.MEPs, got.MEPs)
		}
	}
}

// TestConsecutiveNotices holds the same for cycles of several notices, and that no message is too long.
func TestConsecutiveNotices(t *testing.T) {
	w := newWriter(3, 1<<20)
	all := w.cycles(0, []uint64{0, 1, 2})
	add := func(cycles ...[]uint64) {
		b := w.cycles(0, cycles...)
		all.MEPs, all.Slots = append(all.MEPs, b.MEPs...), append(all.Slots, b.Slots...)
	}
	add([]uint64{3, 4, 5}, []uint64{6, 7, 8})
	add([]uint64{9, core.NoMEP, 10})
	for first := uint64(11); first < 30_000; first += 300 {
		var cycles [][]uint64
		for mep := first; mep < first+300; mep += 3 {
			cycles = append(cycles, []uint64{mep, mep + 1, mep + 2})
		}
		add(cycles...)
	}
	var got core.Batch
	for r := w.reader(); ; {
		m, ok := r.message(0)
		if !ok {
			t.Fatal("it fell out of the log")
		}
		if m == nil {
			break
		}
		if len(m.Meps) > core.MaxTokensPerNotice || len(m.Slots) > maxConsecutivePerMessage {
			t.Errorf("a message has %d MEPs and %d slots", len(m.Meps), len(m.Slots))
		}
		b := tokensOf(m)
		if why := b.check(uint64(len(got.MEPs) / 3)); why != "" {
			t.Fatal(why)
		}
		got.MEPs, got.Slots = append(got.MEPs, b.MEPs...), append(got.Slots, b.Slots...)
	}
	if !slices.Equal(got.MEPs, all.MEPs) || !slices.Equal(got.Slots, all.Slots) {
		t.Errorf("%d tokens are read as %d others", len(all.MEPs), len(got.MEPs))
	}
}

// TestFeedbackSaysOnceWhatIsTheSame holds what a builder unit's message leaves out, and what it does not.
func TestFeedbackSaysOnceWhatIsTheSame(t *testing.T) {
	c := &BUClient{began: time.Now()}
	held := []queuedFeedback{
		{core.Feedback{MEP: 1, Slot: 1, Events: 10, Attempt: 1, Outcome: core.Built}, 0},
		{core.Feedback{MEP: 4, Slot: 2, Events: 10, Attempt: 1, Outcome: core.Built}, 0},
		{core.Feedback{MEP: 7, Slot: 3, Events: 10, Attempt: 1, Outcome: core.Discarded}, 0},
	}
	if m := c.packEntries(held[:2]); len(m.Meps) != 2 || len(m.Slots) != 2 || len(m.Events) != 1 || len(m.HeldUs) != 1 ||
		len(m.Outcomes) != 1 || !listLengthsMatch(m) {
		t.Errorf("%v", m)
	}
	if m := c.packEntries(held); len(m.Events) != 1 || len(m.Outcomes) != 3 ||
		core.ElementAt(m.Outcomes, 2) != byte(core.Discarded) || core.ElementAt(m.Events, 2) != 10 || !listLengthsMatch(m) {
		t.Errorf("%v", m)
	}
	m := c.packEntries(held)
	m.Outcomes = m.Outcomes[:2]
	if listLengthsMatch(m) {
		t.Error("three entries with two outcomes are taken")
	}
}

// FuzzTokens gives a readout unit's check whatever the network may bring; what passes can be read without panic.
func FuzzTokens(f *testing.F) {
	good, err := proto.Marshal(&tagnetv1.Notices{
		State:  tagnetv1.State(core.Running),
		Places: 2,
		Meps:   []uint64{7, core.NoMEP},
		Slots:  []uint32{core.PackSlot(1, 2), 0},
	})
	must(f, err)
	f.Add(good)
	many, err := proto.Marshal(&tagnetv1.Notices{
		State:  tagnetv1.State(core.Running),
		Places: 2,
		Meps:   []uint64{7, 8},
		Slots:  []uint32{core.PackSlot(1, 2), 0, 1, 1},
	})
	must(f, err)
	f.Add(many)
	held, err := proto.Marshal(&tagnetv1.Notices{
		State:    tagnetv1.State(core.Running),
		Places:   2,
		Released: 9,
		HeldUp:   &tagnetv1.HeldUp{Meps: []uint64{3, 7}},
	})
	must(f, err)
	f.Add(held)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		var m tagnetv1.Notices
		if proto.Unmarshal(data, &m) != nil {
			return
		}
		b := tokensOf(&m)
		b.HeldUp = m.GetHeldUp().GetMeps()
		if b.check(0) != "" {
			return
		}
		for i, mep := range b.HeldUp {
			if mep >= b.Released || i > 0 && mep <= b.HeldUp[i-1] {
				t.Errorf("%d are held up below %d", b.HeldUp, b.Released)
			}
		}
		for i := range b.Len() {
			for place := range b.PlacesPerCycle {
				if tok, ok := b.Token(i, place); ok && (tok.MEP == core.NoMEP || tok.Slot >= core.MaxSlots ||
					int(tok.BU) != place) {
					t.Errorf("token %+v at %d, %d", tok, i, place)
				}
			}
		}
	})
}

// TestFeedbackDoesNotAllocate holds that outcomes wait for the sender without an allocation.
func TestFeedbackDoesNotAllocate(t *testing.T) {
	const batch = 256
	c := &BUClient{clientSession: clientSession{wake: make(chan struct{}, 1)}, slots: batch, began: time.Now(),
		handlers: BUHandlers{Outcomes: NewOutcomeLog(batch, batch)}}
	entries := make([]core.Feedback, batch)
	give := func() {
		for i := range entries {
			entries[i].MEP += batch
		}
		must(t, c.SendFeedback(entries...))
		first, held := c.takeEntries()
		if len(held) != batch || !c.queue.out.ack(first+batch) {
			t.Fatalf("%d entries wait", len(held))
		}
	}
	for range 4 { // then the log of outcomes is as long as it will be
		give()
	}
	if n := testing.AllocsPerRun(100, give); n > 0 {
		t.Errorf("%v allocations per batch", n)
	}
}

// TestHeldFeedbackWaits holds that held entries go with the next, and wake nobody before.
func TestHeldFeedbackWaits(t *testing.T) {
	c := &BUClient{clientSession: clientSession{wake: make(chan struct{}, 1)}, slots: 2, began: time.Now(),
		handlers: BUHandlers{Outcomes: NewOutcomeLog(2, 2)}}
	if err := c.QueueFeedback(core.Feedback{MEP: 1}); err != nil || len(c.wake) != 0 {
		t.Errorf("%v, woken %d times", err, len(c.wake))
	}
	if err := c.SendFeedback(core.Feedback{MEP: 2}); err != nil || len(c.wake) != 1 {
		t.Errorf("%v, woken %d times", err, len(c.wake))
	}
	if err := c.QueueFeedback(core.Feedback{MEP: 3}); err == nil {
		t.Error("more entries wait than there are slots")
	}
	if _, got := c.takeEntries(); len(got) != 2 || got[0].MEP != 1 || got[1].MEP != 2 {
		t.Errorf("%+v", got)
	}
}

// TestFlushRequestsAck holds that who flushes has an answer even where acknowledgements wait for more entries, and that
// a unit which has tokens left is not waited for.
func TestFlushRequestsAck(t *testing.T) {
	cfg := serverConfig{Core: core.Config{
		RUs:     names("ru", 1),
		BUs:     names("bu", 1),
		Slots:   4096,
		Packing: 1,
		Loose:   true,
	}}
	sys := serve(t, cfg)
	rus, bus := sys.attachAll(t)
	must(t, rus[0].Update(core.Update{ReadBelow: 100, Events: 100}))
	tok := nextToken(t, rus[0], 0)
	must(t, build(bus[0], tok, 1))
	for range 2 { // the second time there is nothing to wait for
		must(t, bus[0].Flush(testContext(t)))
	}
	if r := sys.server.Registers(); r.Counters.Built != 1 || r.InFlight == 0 {
		t.Errorf("%d built, %d in flight", r.Counters.Built, r.InFlight)
	}
}
