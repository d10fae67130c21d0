package sink

import (
	"ringlet/event"
	"ringlet/internal/registry"
)

// Route is a rule that decides which of several output streams gets a MEP.
type Route struct {
	registry.Kind
	ToAll       bool // every stream gets every MEP
	NeedsFilter bool // it needs the decisions of a filter
	// pickStream returns the index of the stream, of n, that gets a MEP. turn counts the MEPs of the builder unit from 0.
	pickStream func(n int, turn uint64, m Meta, mep []byte) int
}

// Routes is the table of rules.
var Routes = []Route{
	{Kind: registry.Kind{Name: "turns", Help: "one MEP to each in turn"}, pickStream: byTurns},
	{Kind: registry.Kind{Name: "number", Help: "by the number of the MEP"}, pickStream: byNumber},
	{Kind: registry.Kind{Name: "missing", Help: "MEPs with missing fragments to the last"}, pickStream: byMissing},
	{Kind: registry.Kind{Name: "decision", Help: "what the filter rejected to the last"}, NeedsFilter: true,
		pickStream: byDecision},
	{Kind: registry.Kind{Name: "all", Help: "each MEP to all"}, ToAll: true},
}

func byTurns(n int, turn uint64, _ Meta, _ []byte) int { return int(turn % uint64(n)) }

// byNumber depends only on the MEP: a MEP that is built twice, by any builder units, goes to the same stream. A
// builder unit may get every second number, say, so the numbers are scrambled.
func byNumber(n int, _ uint64, m Meta, _ []byte) int { return int(scrambleBits(m.MEP) % uint64(n)) }

// scrambleBits is the finalizer of SplitMix64: it maps consecutive numbers to unrelated ones.
func scrambleBits(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// byMissing gives MEPs with missing fragments to the last stream, and the others to the other streams in turn.
func byMissing(n int, turn uint64, m Meta, mep []byte) int {
	if hasMissing(mep) {
		return n - 1
	}
	return byTurns(n-1, turn, m, mep)
}

// byDecision gives rejected MEPs to the last stream, and the others to the other streams in turn.
func byDecision(n int, turn uint64, m Meta, mep []byte) int {
	if !m.Decision.KeepsEvent() {
		return n - 1
	}
	return byTurns(n-1, turn, m, mep)
}

// hasMissing says whether a fragment of a MEP is missing; false if the bytes are no MEP.
func hasMissing(b []byte) bool {
	mep, err := event.ParseMEP(b)
	if err != nil {
		return false
	}
	for i := range mep.NumMFPs() {
		mfp, err := mep.MFP(i)
		if err != nil {
			return false
		}
		if mfp.HasType(event.FragmentMissing) {
			return true
		}
	}
	return false
}
