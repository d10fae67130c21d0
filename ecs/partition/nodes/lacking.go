package nodes

import (
	"maps"
	"slices"
	"time"

	"ringlet/ecs/figures"
	nodev1 "ringlet/proto/ringlet/node/v1"
	"ringlet/recording"
	"ringlet/tagnet/core"
)

// missingReadouts lists the readout units that were gone for a part of the run, with the MEPs and events that lack
// their fragments, as builder units have counted them. A unit of which no builder unit has counted anything is listed
// where a builder unit was lost with its last counts.
func (r *reporter) missingReadouts(reports []*nodev1.Report, reg *core.Registers) (all []recording.UnitOutages) {
	nodes := map[int]string{}
	for _, m := range r.View().GetMembers() {
		if m.GetReadout() {
			nodes[int(m.GetRuIndex())] = m.GetName()
		}
	}
	division := r.cfg.Division()
	outagesOf := func(ru int) recording.UnitOutages {
		first := division.FirstSource(ru)
		return recording.UnitOutages{
			Node:        nodes[ru],
			ReadoutUnit: ru,
			FirstSource: first,
			LastSource:  first + division.SourceCount(ru) - 1,
			Outages:     readoutOutages(reg, nodes[ru]),
		}
	}
	for _, m := range figures.SumMissing(reports) {
		one := outagesOf(int(m.GetRuIndex()))
		one.MEPs, one.Events, one.FirstMEP, one.LastMEP = m.GetMeps(), m.GetEvents(), m.GetFirstMep(), m.GetLastMep()
		delete(nodes, one.ReadoutUnit)
		all = append(all, one)
	}
	if !slices.ContainsFunc(reg.GetBus(), func(b *core.BURegister) bool { return b.GetLost() || b.GetReturned() }) {
		return all
	}
	for _, ru := range slices.Sorted(maps.Keys(nodes)) { // which no count names
		if one := outagesOf(ru); len(one.Outages) > 0 {
			one.FirstMEP = one.Outages[0].FromMEP
			all = append(all, one)
		}
	}
	for i := range all {
		widenOutages(&all[i], uint64(r.cfg.Slots*r.cfg.BUs), reg.GetCounters().GetIssued())
	}
	return all
}

// widenOutages has the range of MEPs of a readout unit include those that a lost builder unit may have built without
// it: nobody knows its last counts. At most inFlight MEPs are issued and not built. issued is how many were in all.
func widenOutages(u *recording.UnitOutages, inFlight, issued uint64) {
	for _, o := range u.Outages {
		u.FirstMEP = min(u.FirstMEP, o.FromMEP-min(o.FromMEP, inFlight))
		end := issued
		if o.ReturnMEP != nil {
			end = *o.ReturnMEP
		}
		u.LastMEP = max(u.LastMEP, end-min(end, 1))
	}
}

// readoutOutages are the times in which a readout unit was gone, by the scheduler.
func readoutOutages(reg *core.Registers, node string) (all []recording.Outage) {
	for _, u := range reg.GetRus() {
		if u.GetName() != node {
			continue
		}
		for _, g := range u.GetGone() {
			one := recording.Outage{FromMEP: g.GetFromMep(), At: time.Unix(0, g.GetAtNs()).UTC()}
			if g.GetBack() {
				one.ReturnMEP, one.ReturnedAt = new(g.GetBackMep()), time.Unix(0, g.GetBackAtNs()).UTC()
			}
			all = append(all, one)
		}
	}
	return all
}
