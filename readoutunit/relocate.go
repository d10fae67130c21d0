package readoutunit

import (
	"bytes"
	"slices"
)

// relocateHeldUp has writes under way to a builder unit that holds MEPs up lie in memory of their own: that of the
// parts put aside, and copies of what goes along with these. Else their buffers would be kept until that builder unit
// answers, and with them, since buffers are used in rotation, all that come after. mu is held.
func (u *Unit) relocateHeldUp(heldUp []uint64) {
	if len(heldUp) == 0 {
		return
	}
	u.bursts.forEachOvertaken(func(b *burst) bool {
		if !u.containsHeldUp(b, heldUp) {
			return false // its outcome is on its way: that of the MEP was faster
		}
		moved := u.cfg.Network.RelocateWrite(u.cfg.BURanks[b.BU], uint64(b.id), func(i int) []byte {
			data := b.Pieces[i].Data
			if part := u.cfg.Retention.heldUpPart(u.order.TransferAt(b.Places[i]).MEP); part != nil {
				return part[len(part)-len(data):] // without the sizes, where they went ahead
			}
			return bytes.Clone(data)
		})
		if moved {
			u.relocatedWrites++
		}
		return moved
	})
}

// containsHeldUp tells whether a burst has a part of a MEP that is held up.
func (u *Unit) containsHeldUp(b *burst, heldUp []uint64) bool {
	return slices.ContainsFunc(b.Places, func(n uint64) bool {
		_, found := slices.BinarySearch(heldUp, u.order.TransferAt(n).MEP)
		return found
	})
}
