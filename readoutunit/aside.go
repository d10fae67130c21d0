package readoutunit

import (
	"bytes"
	"slices"
)

// moveAside has writes under way to a builder unit that holds MEPs up lie in memory of their own: that of the parts put
// aside, and copies of what goes along with these. Else their buffers would be kept until that builder unit answers,
// and with them, since buffers are used in rotation, all that come after. mu is held.
func (u *Unit) moveAside(heldUp []uint64) {
	if len(heldUp) == 0 {
		return
	}
	u.bursts.overtaken(func(b *burst) bool {
		if !u.holdsUp(b, heldUp) {
			return false // its outcome is on its way: that of the MEP was faster
		}
		moved := u.cfg.Network.Move(u.cfg.BURanks[b.BU], uint64(b.id), func(i int) []byte {
			data := b.Pieces[i].Data
			if part := u.cfg.Retention.setApart(u.order.At(b.Places[i]).MEP); part != nil {
				return part[len(part)-len(data):] // without the sizes, where they went ahead
			}
			return bytes.Clone(data)
		})
		if moved {
			u.moved++
		}
		return moved
	})
}

// holdsUp tells whether a burst has a part of a MEP that is held up.
func (u *Unit) holdsUp(b *burst, heldUp []uint64) bool {
	return slices.ContainsFunc(b.Places, func(n uint64) bool {
		_, is := slices.BinarySearch(heldUp, u.order.At(n).MEP)
		return is
	})
}
