package core

import (
	"fmt"
	"math"

	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
)

// Request is the configuration as a message of the protocol, without the run and the view. A number that does not fit
// its field becomes the largest value, which ConfigOf's check refuses.
func (c *Config) Request() *tagnetv1.BeginRequest {
	return &tagnetv1.BeginRequest{
		Rus:         c.RUs,
		Bus:         c.BUs,
		Slots:       clampUint32(c.Slots),
		Packing:     clampUint32(c.Packing),
		LookAhead:   clampUint32(c.LookAhead),
		Window:      clampUint32(c.Window),
		Policy:      policyMessage(c.NoSlotPolicy),
		Rules:       rulesMessage(&c.Rules),
		Loose:       c.Loose,
		MaxAttempts: clampUint32(c.MaxAttempts),
		Ring:        c.TagRing,
		Bypass:      c.BypassBusyRUs,
		First:       c.FirstMEP,
		End:         c.EndMEP,
		Live:        c.Live,
		Events:      c.MaxEvents,
		Whole:       c.CompleteEventsOnly,
		Push:        c.Push,
		Trigger:     c.Trigger,
	}
}

// clampUint32 is v in 32 bits; a value that does not fit becomes the largest one, which no setting may have.
func clampUint32(v int) uint32 {
	if v < 0 || v > math.MaxUint32 {
		return math.MaxUint32
	}
	return uint32(v)
}

// maxHostedMEPs bounds the memory that a request can make a host use: a MEP that can be in flight takes some 30 bytes
// of the records, the log and the times, so 2^22 MEPs take 130 MB. They are 100 builder units with 40,000 slots each
// (2026-11-21).
const maxHostedMEPs = 1 << 22

// ConfigOf is the configuration of a message that Config.Request made. Its errors are sentences that say which value is
// impossible, or more than a host accepts.
func ConfigOf(m *tagnetv1.BeginRequest) (c Config, err error) {
	switch m.GetPolicy() {
	case tagnetv1.Policy_POLICY_WAIT, tagnetv1.Policy_POLICY_SKIP:
	default:
		return c, fmt.Errorf("the policy towards a builder unit without a free slot is %v, not wait or skip", m.GetPolicy())
	}
	rules, err := rulesOf(m.GetRules())
	if err != nil {
		return c, err
	}
	c = Config{
		RUs:                m.GetRus(),
		BUs:                m.GetBus(),
		Slots:              int(m.GetSlots()),
		Packing:            int(m.GetPacking()),
		LookAhead:          int(m.GetLookAhead()),
		Window:             int(m.GetWindow()),
		NoSlotPolicy:       policyOf(m.GetPolicy()),
		Rules:              rules,
		Loose:              m.GetLoose(),
		MaxAttempts:        int(m.GetMaxAttempts()),
		TagRing:            m.GetRing(),
		BypassBusyRUs:      m.GetBypass(),
		FirstMEP:           m.GetFirst(),
		EndMEP:             m.GetEnd(),
		Live:               m.GetLive(),
		MaxEvents:          m.GetEvents(),
		CompleteEventsOnly: m.GetWhole(),
		Push:               m.GetPush(),
		Trigger:            m.GetTrigger(),
	}
	if err := c.check(); err != nil {
		return c, err
	}
	if most := max(c.Slots, c.LookAhead) * len(c.BUs); most > maxHostedMEPs {
		return c, fmt.Errorf("%d slots, or cycles in flight, for %d builder units are %d MEPs at a time: a host has memory "+
			"for %d", max(c.Slots, c.LookAhead), len(c.BUs), most, maxHostedMEPs)
	}
	return c, nil
}

func policyMessage(p Policy) tagnetv1.Policy { return tagnetv1.Policy(p + 1) }

func policyOf(p tagnetv1.Policy) Policy {
	if p == tagnetv1.Policy_POLICY_SKIP {
		return Skip
	}
	return Wait
}

func rulesMessage(r *Rules) *tagnetv1.Rules {
	m := &tagnetv1.Rules{Next: r.TurnOrder.String(), Groups: setsMessage(r.Groups), Partitions: setsMessage(r.TurnSets)}
	if len(r.Groups) > 0 {
		m.BusyGroup = policyMessage(r.BusyGroupPolicy)
	}
	for _, w := range r.Ratio {
		m.Ratio = append(m.Ratio, clampUint32(w))
	}
	return m
}

func rulesOf(m *tagnetv1.Rules) (r Rules, err error) {
	if m.GetNext() != "" {
		if r.TurnOrder, err = ParseTurnOrder(m.GetNext()); err != nil {
			return r, err
		}
	}
	r.Groups, r.BusyGroupPolicy, r.TurnSets = setsOf(m.GetGroups()), policyOf(m.GetBusyGroup()), setsOf(m.GetPartitions())
	for _, w := range m.GetRatio() {
		r.Ratio = append(r.Ratio, int(w))
	}
	return r, nil
}

func setsMessage(sets [][]int) (out []*tagnetv1.UnitSet) {
	for _, set := range sets {
		m := &tagnetv1.UnitSet{}
		for _, unit := range set {
			m.Units = append(m.Units, clampUint32(unit))
		}
		out = append(out, m)
	}
	return out
}

func setsOf(sets []*tagnetv1.UnitSet) (out [][]int) {
	for _, m := range sets {
		var set []int
		for _, unit := range m.GetUnits() {
			set = append(set, int(unit))
		}
		out = append(out, set)
	}
	return out
}
