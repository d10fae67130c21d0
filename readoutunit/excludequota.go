package readoutunit

import "ringlet/tagnet"

// What follows is the server's, where placing is by quota.

// withdrawMany takes the exclusions that came with tokens. What was to be sent to an excluded builder unit is given up.
func (u *Unit) withdrawMany(all []tagnet.Withdrawal) {
	for _, w := range all {
		if b := u.quota.bursts[w.BU]; b != nil {
			u.mu.Lock()
			u.quota.core.Discard(b)
			u.mu.Unlock()
			u.quota.bursts[w.BU] = nil
		}
	}
	u.withdraw(all)
}

// isVoid tells that the token of a cycle for a builder unit is withdrawn.
func (q *quota) isVoid(cycle uint64, bu int) bool { return cycle < q.void[bu] }

// passVoid counts the tokens of a batch that are withdrawn.
func (u *Unit) passVoid(b *tagnet.Batch) (tokens uint64) {
	q := u.quota
	if len(q.void) == 0 {
		return 0
	}
	for at, mep := range b.MEPs {
		if mep != tagnet.NoMEP && q.isVoid(b.First+uint64(at/b.Places), at%b.Places) {
			tokens++
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	q.core.Pass(tokens)
	return tokens
}

// passOne tells whether the token of a cycle for a builder unit is withdrawn, and counts it.
func (u *Unit) passOne(cycle uint64, bu int) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	void := u.quota.core.Void()
	if void == nil || cycle >= void[bu] {
		return false
	}
	u.quota.core.Pass(1)
	return true
}

// lost tells whether the link to a builder unit is down.
func (u *Unit) lost(bu int) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.leaver().Lost(bu)
}
