package nodes

import (
	"fmt"
	"slices"
	"strings"

	"ringlet/tagnet"
)

// books are the figures of a run in which builder units may have been excluded or lost. What an excluded one counted is
// more than the scheduler knows of it, since outcomes that came too late are nobody's; what a lost one counted is lost
// with it, but for what it told a while before. So both are compared for the others alone.
type books struct {
	r      *Report
	out    []string           // builder units that were ever excluded, by node
	lost   []string           // those of them that are lost
	ledger *tagnet.BUCounters // of the scheduler, on the others
	there  map[string]uint64  // what the nodes of the others tell of their builder units
	here   map[string]uint64  // what all nodes tell that are not lost

	gone    []string          // readout units that were ever excluded, by node
	reading map[string]uint64 // what the nodes of the others tell
}

// newBooks sorts figures. Where no builder unit was ever excluded there is nothing to sort.
func newBooks(r *Report, reg *tagnet.Registers, sums map[string]uint64) *books {
	b := &books{
		r:       r,
		there:   sums,
		here:    sums,
		reading: sums,
	}
	c := reg.GetCounters()
	b.ledger = &tagnet.BUCounters{Built: c.GetBuilt(), Discarded: c.GetDiscarded(), Rejected: c.GetRejected()}
	out, lost := map[string]bool{}, map[string]bool{}
	for _, u := range reg.GetBus() {
		vanished := slices.Contains(r.Unreported, u.GetName())
		if u.GetCounters().GetExclusions() == 0 && !vanished {
			continue
		}
		b.out, out[u.GetName()] = append(b.out, u.GetName()), true
		b.ledger.Built -= u.GetCounters().GetBuilt()
		b.ledger.Discarded -= u.GetCounters().GetDiscarded()
		b.ledger.Rejected -= u.GetCounters().GetRejected()
		if u.GetLost() || vanished {
			b.lost, lost[u.GetName()] = append(b.lost, u.GetName()), true
		}
	}
	gone := map[string]bool{}
	for _, u := range reg.GetRus() {
		if u.GetExclusions() > 0 || slices.Contains(r.Unreported, u.GetName()) {
			b.gone, gone[u.GetName()], lost[u.GetName()] = append(b.gone, u.GetName()), true, true
		}
	}
	if len(b.out) == 0 && len(b.gone) == 0 {
		return b
	}
	b.there, b.here = map[string]uint64{}, map[string]uint64{}
	if len(b.gone) > 0 {
		b.reading = map[string]uint64{}
	}
	for _, n := range r.Counters {
		for name, v := range n.Counters {
			if !out[n.Node] {
				b.there[name] += v
			}
			if !lost[n.Node] {
				b.here[name] += v
			}
			if len(b.gone) > 0 && !gone[n.Node] {
				b.reading[name] += v
			}
		}
	}
	return b
}

// mfps is the check of MFPs. What a readout unit has read that was lost is lost with it: then those of the MEPs that
// were built are checked alone.
func (b *books) mfps(c *tagnet.Counters, sources, ahead uint64) Check {
	placed := b.there["bu.mfps_placed"]
	if len(b.gone) > 0 {
		return eq("MFPs of MEPs that were built = placed + missing", b.ledger.GetBuilt()*sources,
			placed+b.there["bu.mfps_missing"])
	}
	return eq("MFPs read = placed + in other MEPs + read ahead", b.r.MFPsRead,
		placed+(c.GetBuilt()-b.ledger.GetBuilt()+c.GetIncomplete()+c.GetDiscarded()+c.GetRejected()+c.GetAbandoned())*
			sources+ahead)
}

// buffered tells whether a shared-memory output can be compared with the ledger. Files are read back instead.
func (b *books) buffered() bool {
	return b.r.Output != "" && b.r.Recorded == nil && len(b.out) == 0
}

// filtered tells whether the filter's decisions can be compared with the ledger: a MEP that was given to a second
// builder unit may have been judged by both.
func (b *books) filtered() bool { return len(b.lost) == 0 && len(b.out) == 0 }

// notChecked says, by name, what is left out of the accounts.
func (b *books) notChecked() (said []string) {
	say := func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
	told := func(names []string) []string {
		return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return slices.Contains(b.r.Unreported, n) })
	}
	if len(b.r.Unreported) > 0 {
		say("what %s counted of MFPs, bytes, chunks and tokens: no final report came from there, and what was told before "+
			"is out of date; the scheduler's ledger stands for the MEPs", strings.Join(b.r.Unreported, ", "))
	}
	if who := strings.Join(told(b.out), ", "); who != "" {
		say("MEPs and MFPs as %s counted them, since they were excluded and their MEPs given to others: the scheduler's "+
			"ledger stands for them", who)
		say("tokens never asked for at %s, for the same reason", who)
	}
	if who := strings.Join(told(b.lost), ", "); who != "" {
		say("bytes and chunks that were placed at %s, which are lost, and their last figures with them", who)
	}
	if b.r.Filter != nil && !b.filtered() {
		say("decisions of the filter: MEPs that were given to others may have been judged twice")
	}
	if who := strings.Join(told(b.gone), ", "); who != "" {
		say("MFPs that %s read, and bytes and chunks that were sent there: what was counted there was lost with it", who)
	}
	if b.r.Output != "" && b.r.Recorded == nil && !b.buffered() {
		say("events in the output: %s may have handed out MEPs whose outcome came too late, and that others handed out again",
			strings.Join(b.out, ", "))
	}
	return said
}
