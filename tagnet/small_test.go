package tagnet

import (
	"encoding/hex"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
)

func TestConfigRefused(t *testing.T) {
	good := Config{
		RUs:     []string{"a"},
		BUs:     []string{"a"},
		Slots:   1,
		Packing: 1,
	}
	if _, err := NewCore(good); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Config){
		"0 readout units":                   func(c *Config) { c.RUs = nil },
		"builder unit 0 has no name":        func(c *Config) { c.BUs = []string{""} },
		"two builder units are called":      func(c *Config) { c.BUs = []string{"x", "x"} },
		"slots per builder unit is 0":       func(c *Config) { c.Slots = 0 },
		"slots per builder unit is 1677721": func(c *Config) { c.Slots = MaxSlots + 1 },
		"packing factor is 65536":           func(c *Config) { c.Packing = 65536 },
		"look-ahead is -1":                  func(c *Config) { c.LookAhead = -1 },
		"window is -5":                      func(c *Config) { c.Window = -5 },
		"attempts is 256":                   func(c *Config) { c.MaxAttempts = 256 },
		"policy is 2":                       func(c *Config) { c.NoSlotPolicy = 2 },
		"marks the end of the run":          func(c *Config) { c.FirstMEP = NoMEP },
		"before the first MEP 9":            func(c *Config) { c.FirstMEP, c.EndMEP = 9, 8 },
	} {
		cfg := good
		change(&cfg)
		if _, err := NewCore(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want a sentence with %q", err, want)
		}
	}
}

func TestDepth(t *testing.T) {
	d := newDepth(16)
	for _, v := range []uint64{3, 4, 3, 4, 8, 12, 2, 16, 14, 16} {
		d.set(v)
	}
	if want := []uint64{3, 2, 2, 1}; !slices.Equal(d.Crossed, want) || d.Full != 2 || d.Max != 16 || d.Usage != 0xF {
		t.Errorf("got %v, want crossed %v", d.message(), want)
	}
	small := newDepth(1)
	small.set(1)
	if small.Full != 1 || small.Usage != 0xF {
		t.Errorf("a queue of one: %v", small.message())
	}
}

func TestLogWrapsAndLags(t *testing.T) {
	l := newTokenLog(3, 1, 0, 0, 0)
	fast, slow := &reader{tokenLog: l}, &reader{tokenLog: l}
	var b Batch
	for cycle := range l.cycleMask + 2 {
		b.Reset(cycle, 3)
		at := b.appendEmptyCycle()
		b.MEPs[at+1], b.Slots[at+1] = cycle, packSlot(1, 2)
		l.publish(&b, watermark{releasedBelow: cycle}, Running, false)
		m, ok := fast.nextMessage()
		if !ok || m == nil || m.FirstCycle != cycle || len(m.Meps) != 3 || m.Meps[1] != cycle || m.Meps[0] != NoMEP {
			t.Fatalf("cycle %d: got %v, %v", cycle, m, ok)
		}
		if cycle == l.cycleMask {
			all := &reader{tokenLog: l}
			if m, ok := all.nextMessage(); !ok || len(m.Meps) != 3*int(l.cycleMask+1) || m.Meps[3*l.cycleMask+1] != l.cycleMask {
				t.Fatalf("everything in the log: %d MEPs, %v", len(m.GetMeps()), ok)
			}
		}
	}
	if m, ok := slow.nextMessage(); ok {
		t.Errorf("a reader that fell out of the log got %v", m)
	}
	// The watermark alone: not until it has moved by a cycle, or at once when nothing is in flight.
	b.Reset(l.nextCycle, 3)
	for _, tt := range []struct {
		released uint64
		idle     bool
		want     bool
	}{{fast.released + 2, false, false}, {fast.released + 2, true, true}, {fast.released + 5, false, true}} {
		l.publish(&b, watermark{releasedBelow: tt.released}, Running, tt.idle)
		if m, _ := fast.nextMessage(); (m != nil) != tt.want {
			t.Errorf("%+v: got %v", tt, m)
		}
	}
}

// TestGoldenMessages holds the wire form to bytes written by hand from docs/format/tagnet.md.
func TestGoldenMessages(t *testing.T) {
	for want, m := range map[string]proto.Message{
		"09 0500000000000000 11 0300000000000000 18 02 20 02" +
			"2a 10 0700000000000000 ffffffffffffffff 32 08 02000001 00000000": &tagnetv1.TokenBatch{
			FirstCycle: 5,
			Released:   3,
			State:      tagnetv1.State(Running),
			Places:     2,
			Meps:       []uint64{7, NoMEP},
			Slots:      []uint32{packSlot(1, 2), 0},
		},
		"11 0900000000000000 18 02 20 02 3a 0a 0a 08 0700000000000000": &tagnetv1.TokenBatch{
			Released: 9,
			State:    tagnetv1.State(Running),
			Places:   2,
			HeldUp:   &tagnetv1.HeldUp{Meps: []uint64{7}},
		},
		"11 0300000000000000 18 02 20 02 5a 20 0700000000000000 0300000000000000 0c00000000000000 0100000000000000 60 " +
			"01": &tagnetv1.TokenBatch{
			Released: 3,
			State:    tagnetv1.State(Running),
			Places:   2,
			Cuts:     []uint64{7, 3, 12, 1},
			CutsOver: true,
		},
		"52 26 09 0500000000000000 11 0900000000000000 19 0800000000000000 21 0700000000000000 28 01": &tagnetv1.RUUpdate{
			Reach: reachMessage(&Reach{
				FirstUncut:    5,
				CompleteBelow: 9,
				FlushBelow:    8,
				OverdueBelow:  7,
				Ended:         true,
			}),
		},
		"1a 08 0700000000000000 22 04 02000001 2a 04 0a000000 32 04 e8030000 3a 01 01": &tagnetv1.FeedbackBatch{
			Meps:     []uint64{7},
			Slots:    []uint32{packSlot(1, 2)},
			Events:   []uint32{10},
			HeldUs:   []uint32{1000},
			Outcomes: []byte{byte(Built)},
		},
		"0a 0b 08 06 10 07 18 03 22 03 727530 11 0900000000000000 19 5a00000000000000 20 01": &tagnetv1.RUUpdate{
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
		"an empty one": {[][]uint64{{7, NoMEP, 9}, {10, NoMEP, 12}}, 6},
		"issued again": {[][]uint64{{7, 8, 9}, {10, 3, 12}}, 6},
	} {
		l := newTokenLog(3, 1, 0, 0, 0)
		var b Batch
		b.Reset(0, 3)
		for _, c := range tt.cycles {
			at := b.appendEmptyCycle()
			for j, mep := range c {
				b.MEPs[at+j], b.Slots[at+j] = mep, packSlot(1, uint32(j))
			}
		}
		l.publish(&b, watermark{}, Running, false)
		m, ok := (&reader{tokenLog: l}).nextMessage()
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

// TestFeedbackSaysOnceWhatIsTheSame holds what a builder unit's message leaves out, and what it does not.
func TestFeedbackSaysOnceWhatIsTheSame(t *testing.T) {
	c := &BUClient{began: time.Now()}
	held := []queuedFeedback{
		{Feedback{MEP: 1, Slot: 1, Events: 10, Attempt: 1, Outcome: Built}, 0},
		{Feedback{MEP: 4, Slot: 2, Events: 10, Attempt: 1, Outcome: Built}, 0},
		{Feedback{MEP: 7, Slot: 3, Events: 10, Attempt: 1, Outcome: Incomplete}, 0},
	}
	if m := c.packEntries(held[:2]); len(m.Meps) != 2 || len(m.Slots) != 2 || len(m.Events) != 1 || len(m.HeldUs) != 1 ||
		len(m.Outcomes) != 1 || !listLengthsMatch(m) {
		t.Errorf("%v", m)
	}
	if m := c.packEntries(held); len(m.Events) != 1 || len(m.Outcomes) != 3 ||
		elementAt(m.Outcomes, 2) != byte(Incomplete) || elementAt(m.Events, 2) != 10 || !listLengthsMatch(m) {
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
	good, err := proto.Marshal(&tagnetv1.TokenBatch{
		State:  tagnetv1.State(Running),
		Places: 2,
		Meps:   []uint64{7, NoMEP},
		Slots:  []uint32{packSlot(1, 2), 0},
	})
	must(f, err)
	f.Add(good)
	many, err := proto.Marshal(&tagnetv1.TokenBatch{
		State:  tagnetv1.State(Running),
		Places: 2,
		Meps:   []uint64{7, 8},
		Slots:  []uint32{packSlot(1, 2), 0, 1, 1},
	})
	must(f, err)
	f.Add(many)
	held, err := proto.Marshal(&tagnetv1.TokenBatch{
		State:    tagnetv1.State(Running),
		Places:   2,
		Released: 9,
		HeldUp:   &tagnetv1.HeldUp{Meps: []uint64{3, 7}},
	})
	must(f, err)
	f.Add(held)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		var m tagnetv1.TokenBatch
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
				if tok, ok := b.Token(i, place); ok && (tok.MEP == NoMEP || tok.Slot >= MaxSlots || int(tok.BU) != place) {
					t.Errorf("token %+v at %d, %d", tok, i, place)
				}
			}
		}
	})
}

// TestFeedbackDoesNotAllocate holds that outcomes wait for the sender without an allocation.
func TestFeedbackDoesNotAllocate(t *testing.T) {
	const batch = 256
	c := &BUClient{clientSession: clientSession{wake: make(chan struct{}, 1)}, slots: batch, began: time.Now()}
	entries := make([]Feedback, batch)
	give := func() {
		must(t, c.SendFeedback(entries...))
		first, held := c.takeEntries()
		if len(held) != batch || !c.queue.out.ack(first+batch) {
			t.Fatalf("%d entries wait", len(held))
		}
	}
	give()
	give()
	if n := testing.AllocsPerRun(100, give); n > 0 {
		t.Errorf("%v allocations per batch", n)
	}
}

// TestHeldFeedbackWaits holds that held entries go with the next, and wake nobody before.
func TestHeldFeedbackWaits(t *testing.T) {
	c := &BUClient{clientSession: clientSession{wake: make(chan struct{}, 1)}, slots: 2, began: time.Now()}
	if err := c.QueueFeedback(Feedback{MEP: 1}); err != nil || len(c.wake) != 0 {
		t.Errorf("%v, woken %d times", err, len(c.wake))
	}
	if err := c.SendFeedback(Feedback{MEP: 2}); err != nil || len(c.wake) != 1 {
		t.Errorf("%v, woken %d times", err, len(c.wake))
	}
	if err := c.QueueFeedback(Feedback{MEP: 3}); err == nil {
		t.Error("more entries wait than there are slots")
	}
	if _, got := c.takeEntries(); len(got) != 2 || got[0].MEP != 1 || got[1].MEP != 2 {
		t.Errorf("%+v", got)
	}
}

// TestCrowded holds when it pays to wait for more outcomes: never in a small view, and never with nothing in flight.
func TestCrowded(t *testing.T) {
	for _, tt := range []struct {
		slots, ahead, bus, inFlight int
		want                        bool
	}{
		{4, 2, 4, 8, false},
		{4096, 4096, 2, 8192, true},
		{4096, 4096, 2, 8192 - 1023, true},
		{4096, 4096, 2, 8192 - 1024, false},
		{4096, 4096, 2, 0, false},
		{4096, 64, 2, 128, false},
		{4096, 128, 2, 250, true},
	} {
		c := newCore(t, Config{
			RUs:       names("ru", 1),
			BUs:       names("bu", tt.bus),
			Slots:     tt.slots,
			LookAhead: tt.ahead,
			Packing:   1,
			Window:    1 << 14,
		})
		c.counters.Issued = uint64(tt.inFlight)
		if got := c.worthBatching(); got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
	}
}

// TestFlushRequestsAck holds that who flushes has an answer even where acknowledgements wait for more entries, and that
// a unit which has tokens left is not waited for.
func TestFlushRequestsAck(t *testing.T) {
	cfg := serverConfig{Core: Config{
		RUs:     names("ru", 1),
		BUs:     names("bu", 1),
		Slots:   4096,
		Packing: 1,
		Loose:   true,
	}}
	sys := serve(t, cfg)
	rus, bus := sys.attachAll(t)
	must(t, rus[0].Update(Update{ReadBelow: 100, Events: 100}))
	tok := nextToken(t, rus[0], 0)
	must(t, build(bus[0], tok, 1))
	for range 2 { // the second time there is nothing to wait for
		must(t, bus[0].Flush(testContext(t)))
	}
	if r := sys.server.Registers(); r.Counters.Built != 1 || r.InFlight == 0 {
		t.Errorf("%d built, %d in flight", r.Counters.Built, r.InFlight)
	}
}
