package express

// replayWindow is how far behind the newest a packet may arrive: more than twice what a link may have in flight.
const replayWindow = 8192

// ReplayDepth is how many of the newest packets are told from new ones for certain.
const ReplayDepth = replayWindow - 64

// replay tells numbers that have been seen from new ones, in the manner of RFC 6479.
type replay struct {
	bits [replayWindow / 64]uint64
	next uint64 // one past the newest number seen
}

// isFresh reports whether number n has not been seen, as far back as is remembered.
func (r *replay) isFresh(n uint64) bool {
	if n >= r.next {
		return true
	}
	if r.next-n > ReplayDepth {
		return false
	}
	return r.bits[n/64%uint64(len(r.bits))]&(1<<(n%64)) == 0
}

// markSeen notes number n, which is fresh.
func (r *replay) markSeen(n uint64) {
	if n >= r.next {
		first, last := (r.next+63)/64, n/64
		if last-first >= uint64(len(r.bits)) && last >= first {
			clear(r.bits[:])
		} else {
			for w := first; w <= last; w++ {
				r.bits[w%uint64(len(r.bits))] = 0
			}
		}
		r.next = n + 1
	}
	r.bits[n/64%uint64(len(r.bits))] |= 1 << (n % 64)
}
