package nodes

import (
	"fmt"
	"strings"

	"ringlet/ecs/partition/fault"
	"ringlet/internal/plural"
	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
)

// A Loss is the loss of a node that the run goes on without, and what it costs; or of several nodes of one process.
type Loss struct {
	fault.Fault
	Others       []fault.Fault  // of the other nodes of its process that are lost with it
	TakenOverBy  string         // the node that has their scheduler now; empty: they had none
	Trigger      string         // setting of the run; empty: it has none
	MEPsReissued int            // MEPs of their builder units that others build
	Sources      string         // of their readout units, for people; empty: they have none
	Left         bool           // they were told to end
	Gone         *tagnetv1.Gone // since when a readout unit is gone; nil: there is none, or the scheduler did not answer
}

// add adds the loss of another node of the process.
func (l *Loss) add(other Loss) {
	l.Others = append(l.Others, other.Fault)
	if l.TakenOverBy == "" {
		l.TakenOverBy = other.TakenOverBy
	}
	l.MEPsReissued += other.MEPsReissued
	if l.Sources != "" && other.Sources != "" {
		l.Sources += ", "
	}
	l.Sources += other.Sources
	if l.Gone == nil || other.Gone != nil && other.Gone.GetFromMep() < l.Gone.GetFromMep() {
		l.Gone = other.Gone
	}
}

// String tells the loss in sentences: what is lost and why, what it costs, what to do.
func (l Loss) String() string {
	names, what, advice, its, unit := l.Component, l.What, l.Advice, "its", "its builder unit"
	if len(l.Others) > 0 {
		list := []string{l.Component}
		for _, x := range l.Others {
			list = append(list, x.Component)
		}
		names = strings.Join(list[:len(list)-1], ", ") + " and " + list[len(list)-1]
		what, advice = ofSeveral.Replace(what), ofSeveral.Replace(advice)
		its, unit = "their", "their builder units"
	}
	text := fmt.Sprintf("the run goes on without %s: %s.", names, what)
	if l.TakenOverBy != "" {
		text += fmt.Sprintf(" %s has taken over %s scheduler: no MEP is lost.", l.TakenOverBy, its)
		if l.Trigger != "" {
			text += fmt.Sprintf(" It takes the triggers now (%s); those on the way to the lost process are lost, uncounted.",
				l.Trigger)
		}
	}
	if l.MEPsReissued > 0 {
		text += fmt.Sprintf(" Other builder units build %d MEPs of %s.", l.MEPsReissued, unit)
	}
	if l.Sources != "" {
		text += fmt.Sprintf(" Events lack %s fragments (%s)", its, l.Sources)
		if l.Gone != nil {
			text += fmt.Sprintf(" from MEP %d on, and some of the MEPs before", l.Gone.GetFromMep())
		}
		text += "."
	}
	if advice != "" {
		text += " " + advice
	}
	return text
}

// ofSeveral has the words of a fault or an advice for several nodes of one process.
var ofSeveral = strings.NewReplacer("its process", "their process", "it was told", "they were told",
	"It comes back", "They come back", "it stands still or cannot", "they stand still or cannot")

// describeLoss says what a loss costs, once the scheduler knows of it.
func (u *units) describeLoss(l *Loss) {
	l.Trigger, l.Left = u.run.cfg.Trigger, u.run.Presence(l.Component).Departed
	for _, known := range u.run.Losses() {
		if known.Component == l.Component {
			l.Advice = known.Advice
		}
	}
	division := u.run.cfg.Division()
	for _, m := range u.run.View().GetMembers() {
		if ru := int(m.GetRuIndex()); m.GetName() == l.Component && m.GetReadout() && ru < division.Units() {
			first := division.FirstSource(ru)
			l.Sources = plural.NamedRange("source", uint64(first), uint64(first+division.SourceCount(ru)-1))
			l.Gone, _ = u.lastGone(l.Component) // the loss is told without it
		}
	}
}
