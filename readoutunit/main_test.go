package readoutunit

import (
	"slices"
	"testing"

	"go.uber.org/goleak"

	"ringlet/tagnet/core"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// openKind makes the table of transfers of a discipline.
func openKind(name string, c DisciplineConfig) *Transfers {
	i := slices.IndexFunc(Disciplines, func(d Discipline) bool { return d.Name == name })
	return Disciplines[i].Open(c)
}

func newShift(ru int, seats Seats, bus, slots int, fence bool) *Transfers {
	return openKind("shift", DisciplineConfig{RU: ru, Seats: seats, BUs: bus, SlotsPerBU: slots, FencePhases: fence})
}

func newPush(ru, rus, bus, slots int) *Transfers {
	return openKind("push", DisciplineConfig{RU: ru, Seats: SeatsInOrder(rus, bus), BUs: bus, SlotsPerBU: slots,
		FencePhases: true})
}

func newFree(bus, slots int) *Transfers {
	return openKind("free", DisciplineConfig{BUs: bus, SlotsPerBU: slots})
}

func newPulled(bus, slots int) *Transfers {
	return openKind("pull", DisciplineConfig{BUs: bus, SlotsPerBU: slots})
}

func openTagRing(ru, bus, slots int, bypass bool) *Transfers {
	name := "tagring-wait"
	if bypass {
		name = "tagring"
	}
	return openKind(name, DisciplineConfig{RU: ru, BUs: bus, SlotsPerBU: slots})
}

// none stands for an empty place in cycles of tests.
var none = core.Token{MEP: core.NoMEP}

// newToken is the first attempt at a MEP, in a slot of the builder unit at whose place it stands.
func newToken(mep uint64, slot uint32) core.Token {
	return core.Token{MEP: mep, Slot: slot, Attempt: 1}
}

// batch makes a batch of cycles from number first.
func batch(first uint64, cycles ...[]core.Token) *core.Batch {
	var b core.Batch
	b.Reset(first, len(cycles[0]))
	for _, c := range cycles {
		for _, t := range c {
			word := uint32(t.Attempt)<<24 | t.Slot
			if t.MEP == core.NoMEP {
				word = 0
			}
			b.MEPs, b.Slots = append(b.MEPs, t.MEP), append(b.Slots, word)
		}
	}
	return &b
}
