package tagnet

import (
	"errors"
	"fmt"
	"math"
	"time"

	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
)

// newBeginRequest says a configuration in words of the protocol. What does not fit them is left to the host's check, as
// the largest value.
func newBeginRequest(scope Scope, c *Config, attach time.Duration) *tagnetv1.BeginRequest {
	return &tagnetv1.BeginRequest{
		Scope:           scope.message(),
		Rus:             c.RUs,
		Bus:             c.BUs,
		Slots:           clampUint32(c.Slots),
		Packing:         clampUint32(c.Packing),
		LookAhead:       clampUint32(c.LookAhead),
		Window:          clampUint32(c.Window),
		Policy:          policyMessage(c.NoSlotPolicy),
		Rules:           rulesMessage(&c.Rules),
		Loose:           c.Loose,
		MaxAttempts:     clampUint32(c.MaxAttempts),
		Ring:            c.TagRing,
		Bypass:          c.BypassBusyRUs,
		First:           c.FirstMEP,
		End:             c.EndMEP,
		Live:            c.Live,
		Events:          c.MaxEvents,
		Whole:           c.CompleteEventsOnly,
		AttachTimeoutMs: clampUint32(int(attach.Milliseconds())),
	}
}

// clampUint32 is v in 32 bits; what does not fit is larger than anything may be.
func clampUint32(v int) uint32 {
	if v < 0 || v > math.MaxUint32 {
		return math.MaxUint32
	}
	return uint32(v)
}

// maxHostedMEPs bounds the memory that a request makes a host take: a MEP that can be in flight takes some 30 bytes of
// the records, the log and the times, so 2^22 of them 130 MB. It is 100 builder units with 40,000 slots each
// (2026-11-21).
const maxHostedMEPs = 1 << 22

// errBegin says that a host cannot make the scheduler that it was asked for.
var errBegin = errors.New("tagnet: no scheduler")

// serverConfigOf is newBeginRequest backwards. The configuration is checked where the Server is made.
func serverConfigOf(m *tagnetv1.BeginRequest) (serverConfig, error) {
	bad := func(err error) (serverConfig, error) {
		scope := m.GetScope()
		return serverConfig{}, fmt.Errorf("%w for run %d, view %d: %w", errBegin, scope.GetRun(), scope.GetView(), err)
	}
	switch m.GetPolicy() {
	case tagnetv1.Policy_POLICY_WAIT, tagnetv1.Policy_POLICY_SKIP:
	default:
		return bad(fmt.Errorf("the policy towards a builder unit without a free slot is %v", m.GetPolicy()))
	}
	rules, err := rulesOf(m.GetRules())
	if err != nil {
		return bad(err)
	}
	core := Config{
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
	}
	if err := core.check(); err != nil {
		return bad(err)
	}
	if most := max(core.Slots, core.LookAhead) * len(core.BUs); most > maxHostedMEPs {
		return bad(fmt.Errorf(
			"%d slots, or cycles in flight, for %d builder units are %d MEPs at a time: a host has memory for %d",
			max(core.Slots, core.LookAhead),
			len(core.BUs), most, maxHostedMEPs))
	}
	return serverConfig{
		Core:          core,
		Run:           m.GetScope().GetRun(),
		View:          m.GetScope().GetView(),
		AttachTimeout: time.Duration(m.GetAttachTimeoutMs()) * time.Millisecond,
	}, nil
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
