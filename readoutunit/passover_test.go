package readoutunit

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ringlet/barrier"
	"ringlet/event/placing"
	"ringlet/internal/standstill"
	"ringlet/tagnet"
	"ringlet/tagnet/core"
)

// shiftWorld is readout units in a shift, with the scheduler, the barrier and builder units that stand still at times.
// One thing happens at a time.
type shiftWorld struct {
	t          *rapid.T
	slack      int
	preGranted bool
	units      []*worldUnit
	builders   []*worldBuilder
	now        time.Duration
	cycles     [][]core.Token // issued
	meps, most uint64
	built      uint64
	parts      map[uint64]int    // parts in place, by MEP
	announced  map[uint64][]int  // readout units that have announced, by MEP
	offers     [][]uint32        // of the units that have entered, by epoch
	owner      map[[2]int]uint64 // MEP by builder unit and slot
}

type worldUnit struct {
	c       *Core
	tokens  int // cycles that have come
	entered int // epochs
	waits   bool
	left    bool
	grants  []Input
}

type worldBuilder struct {
	still   bool
	stopped bool // ever
	free    []uint32
	writes  []worldWrite
}

type worldWrite struct {
	ru     int
	cookie uint64
	meps   []uint64
}

func newShiftWorld(t *rapid.T) *shiftWorld {
	rus, bus := rapid.IntRange(1, 4).Draw(t, "rus"), rapid.IntRange(1, 4).Draw(t, "bus")
	w := &shiftWorld{
		t:          t,
		slack:      rapid.IntRange(0, PhaseCount(rus, bus)-1).Draw(t, "slack"),
		preGranted: rapid.Bool().Draw(t, "pre-granted"),
		most:       rapid.Uint64Range(1, 40).Draw(t, "meps"),
		parts:      map[uint64]int{},
		announced:  map[uint64][]int{},
		owner:      map[[2]int]uint64{},
	}
	slots, rounds := rapid.IntRange(1, 4).Draw(t, "slots"), rapid.IntRange(1, 3).Draw(t, "cycles of a round")
	for range bus {
		b := &worldBuilder{}
		for s := range slots {
			b.free = append(b.free, uint32(s))
		}
		w.builders = append(w.builders, b)
	}
	for ru := range rus {
		retention, err := NewRetention(make([]byte, 64*64), 64)
		if err != nil {
			t.Fatal(err)
		}
		_, _, sizes, _ := retention.reserve(64)
		for i := range sizes {
			sizes[i] = placing.EntrySize + 4
		}
		retention.commit(64)
		u := &worldUnit{c: newCore(CoreConfig{RU: ru, RUs: rus, Streams: 1, Retention: retention,
			Transfers: openKind("shift", DisciplineConfig{RU: ru, BUs: bus, SlotsPerBU: slots, RoundCycles: rounds,
				Seats: SeatsInOrder(rus, bus), PreGranted: w.preGranted, FencePhases: true})})}
		w.units = append(w.units, u)
	}
	return w
}

// step steps the core of a readout unit, and returns what its conductor is to do.
func (w *shiftWorld) step(ru int, in Input) (conductor Action) {
	u := w.units[ru]
	in.Now = time.Unix(1, 0).Add(w.now)
	for _, a := range u.c.Step(&in, nil) {
		switch a.Kind {
		case Announce:
			w.announced[a.Token.MEP] = append(w.announced[a.Token.MEP], ru)
			u.grants = append(u.grants, Input{Kind: GrantCame, BU: a.BU, Grant: placing.Grant{MEP: a.Token.MEP,
				Slot: a.Token.Slot, Attempt: 1, Window: 1, Gen: 1, Length: 4}})
		case RequestWindows:
			p := placing.PreGrants{}
			for slot := range u.c.transfers.builders[a.BU].preGranted {
				p.Refs = append(p.Refs, placing.Ref(preGrantedRef(a.BU+1, uint32(slot))))
			}
			u.grants = append(u.grants, Input{Kind: PreGrantsCame, BU: a.BU, PreGrants: &p})
		case Fail, Refuse:
			w.t.Fatalf("readout unit %d: %v", ru, a.Err)
		case FreeBuffers, ReportTriggered, Drained:
		default:
			conductor = a
		}
	}
	return conductor
}

// issue makes a cycle of the builder units that have free slots.
func (w *shiftWorld) issue() {
	c, any := slices.Repeat([]core.Token{none}, len(w.builders)), false
	for bu, b := range w.builders {
		if len(b.free) > 0 && w.meps < w.most {
			c[bu] = newToken(w.meps, b.free[0])
			w.owner[[2]int{bu, int(b.free[0])}] = w.meps
			b.free, any = b.free[1:], true
			w.meps++
		}
	}
	if any {
		w.cycles = append(w.cycles, c)
	}
}

func (w *shiftWorld) deliver(ru int) {
	if u := w.units[ru]; u.tokens < len(w.cycles) {
		w.step(ru, Input{Kind: TokensCame, Tokens: &tagnet.Tokens{Batch: *batch(uint64(u.tokens), w.cycles[u.tokens])}})
		w.step(ru, Input{Kind: Announced})
		u.tokens++
	}
}

// grant gives a unit the first window that it may have.
func (w *shiftWorld) grant(ru int) {
	u := w.units[ru]
	for i, in := range u.grants {
		ready := in.Kind == PreGrantsCame || len(w.announced[in.Grant.MEP]) == len(w.units)
		if ready && !w.builders[in.BU].still {
			u.grants = slices.Delete(u.grants, i, i+1)
			w.step(ru, in)
			return
		}
	}
}

func (w *shiftWorld) complete(bu int) {
	b := w.builders[bu]
	if b.still || len(b.writes) == 0 {
		return
	}
	i := rapid.IntRange(0, len(b.writes)-1).Draw(w.t, "write")
	x := b.writes[i]
	b.writes = slices.Delete(b.writes, i, i+1)
	for _, mep := range x.meps {
		if w.parts[mep]++; w.parts[mep] == len(w.units) {
			w.built++
			for at, owned := range w.owner {
				if owned == mep {
					b.free = append(b.free, uint32(at[1]))
					delete(w.owner, at)
				}
			}
		}
	}
	w.step(x.ru, Input{Kind: WriteCompleted, BU: bu, Cookie: x.cookie})
}

// minOffer is the smallest offer of an epoch that all have entered.
func (w *shiftWorld) minOffer(epoch int) (least uint32, all bool) {
	if epoch >= len(w.offers) || len(w.offers[epoch]) < len(w.units) {
		return 0, false
	}
	return slices.Min(w.offers[epoch]), true
}

// conduct has the conductor of a readout unit go on.
func (w *shiftWorld) conduct(ru int) {
	u := w.units[ru]
	if u.left {
		return
	}
	if u.waits {
		epoch, held := u.entered-1-w.slack, barrier.Straggler{Rank: barrier.Nobody}
		if epoch >= 0 {
			least, all := w.minOffer(epoch)
			if !all {
				return
			}
			held = barrier.Straggler{MinOffer: least}
		}
		u.waits = false
		w.step(ru, Input{Kind: BarrierPassed, Held: held})
		return
	}
	switch a := w.step(ru, Input{Kind: ConductorFree}); a.Kind {
	case Write:
		w.write(ru, a)
	case EnterBarrier:
		if u.entered == len(w.offers) {
			w.offers = append(w.offers, nil)
		}
		w.offers[u.entered] = append(w.offers[u.entered], uint32(a.Count))
		u.entered++
		u.waits = true
	case FinishBarrier:
		var finals []barrier.Straggler
		for epoch := max(0, u.entered-w.slack); epoch < u.entered; epoch++ {
			least, all := w.minOffer(epoch)
			if !all {
				return
			}
			finals = append(finals, barrier.Straggler{MinOffer: least})
		}
		w.step(ru, Input{Kind: BarrierFinished, Finished: finals})
	case Wait:
		if a.Turn > WaitLink {
			w.t.Fatalf("it waits for turn %q", a.Turn)
		}
	case Leave:
		u.left = true
	}
}

func (w *shiftWorld) write(ru int, a Action) {
	b := w.builders[a.BU]
	x := worldWrite{ru: ru, cookie: a.Number}
	for _, p := range a.Pieces {
		mep, _, _ := placing.ParseImmediate(p.Imm)
		x.meps = append(x.meps, uint64(mep))
	}
	b.writes = append(b.writes, x)
	var senders []int
	for _, y := range b.writes {
		if !slices.Contains(senders, y.ru) {
			senders = append(senders, y.ru)
		}
	}
	if len(senders) > 1+w.slack && !b.stopped {
		w.t.Fatalf("readout units %v send to builder unit %d, with a slack of %d", senders, a.BU, w.slack)
	}
}

func (w *shiftWorld) draw(what string, n int) int { return rapid.IntRange(0, n-1).Draw(w.t, what) }

// turn lets one thing happen.
func (w *shiftWorld) turn() {
	ru, bu := w.draw("ru", len(w.units)), w.draw("bu", len(w.builders))
	switch w.draw("what", 9) {
	case 0:
		w.issue()
	case 1:
		w.deliver(ru)
	case 2:
		w.grant(ru)
	case 3, 4:
		w.complete(bu)
	case 5, 6:
		w.conduct(ru)
	case 7:
		w.now += standstill.Tick
	case 8:
		if w.draw("seldom", 10) == 0 {
			b := w.builders[bu]
			b.still, b.stopped = !b.still, true
		}
	}
}

// everything lets all happen that can.
func (w *shiftWorld) everything() {
	w.now += standstill.Tick / 5
	w.issue()
	for ru := range w.units {
		w.deliver(ru)
		w.grant(ru)
		w.conduct(ru)
	}
	for bu := range w.builders {
		w.complete(bu)
	}
}

// TestStillBuildersHoldUpNobody has builder units of a shift stand still and move again: units that are sound go on,
// and in the end every part is in place, and all units leave.
func TestStillBuildersHoldUpNobody(t *testing.T) {
	passedOver := 0
	rapid.Check(t, func(t *rapid.T) {
		w := newShiftWorld(t)
		for range rapid.IntRange(0, 300).Draw(t, "turns") {
			w.turn()
		}
		w.letOthersGoOn()
		for _, b := range w.builders {
			b.still = false
		}
		w.until("every MEP is built", func() bool { return w.built == w.most })
		for ru := range w.units {
			w.step(ru, Input{Kind: TokensOver})
		}
		w.until("all have left", func() bool {
			return !slices.ContainsFunc(w.units, func(u *worldUnit) bool { return !u.left })
		})
		for _, u := range w.units {
			s := u.c.Stats()
			passedOver += int(s.PassedOver)
			if s.OpenTransfers != 0 || u.c.transfers.awaited != (awaited{}) || s.PartsWritten != w.most {
				t.Fatalf("at the end: %+v", s)
			}
		}
	})
	if passedOver == 0 {
		t.Error("no builder unit was passed over in any run")
	}
}

// letOthersGoOn stops builder unit 0, and holds that all others get the MEPs that they have slots for.
func (w *shiftWorld) letOthersGoOn() {
	if len(w.builders) == 1 {
		return
	}
	for bu, b := range w.builders {
		b.still = bu == 0
		b.stopped = b.stopped || b.still
	}
	most := w.most
	w.most = math.MaxUint64
	defer func() { w.most = max(most, w.meps) }()
	if w.meps > 56 { // the buffers of the test
		return
	}
	w.most = min(w.meps+4, 60)
	w.until("the other builder units have built theirs", func() bool {
		for at := range w.owner {
			if at[0] != 0 {
				return false
			}
		}
		return true
	})
}

// until lets all happen until done.
func (w *shiftWorld) until(what string, done func() bool) {
	for range 4000 {
		if done() {
			return
		}
		w.everything()
	}
	state := ""
	for ru, u := range w.units {
		turn, n := u.c.transfers.Next()
		state += fmt.Sprintf("\nru %d: waits %v, entered %d, roundOver %v, %v %d, %+v", ru, u.waits, u.entered, u.c.roundOver,
			turn, n, u.c.transfers.rounds)
	}
	w.t.Fatalf("never: %s; %d of %d built%s", what, w.built, w.meps, state)
}
