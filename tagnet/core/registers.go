package core

import (
	"errors"
	"fmt"
	"strconv"

	hdrhistogram "github.com/HdrHistogram/hdrhistogram-go"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"ringlet/internal/counter"
	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
)

// Registers are the figures of a scheduler (TagNet-farm §VII.C), as a message of its protocol.
type Registers = tagnetv1.RegistersResponse

// Counters of the scheduler.
type Counters = tagnetv1.Counters

// BURegister is what the scheduler knows of a builder unit.
type BURegister = tagnetv1.BURegister

// BUCounters of one builder unit.
type BUCounters = tagnetv1.BUCounters

// Registers reads all registers but the run, the view and the refused calls, which the Core does not know. The latency
// histogram is a copy for the caller to encode.
func (c *Core) Registers() (*Registers, *hdrhistogram.Histogram) {
	r := c.alloc.Registers()
	for i, u := range r.GetRus() {
		u.Attached, u.Gone = c.sessions[Readout][i].isAttached(), c.absenceSpans(i)
	}
	for j, u := range r.GetBus() {
		u.Attached = c.sessions[Builder][j].isAttached()
	}
	r.FirstTokenNs, r.LastMepNs = c.unixNano(c.firstTokenAt), c.unixNano(c.lastMEPAt)
	r.LatencyClipped = c.clippedLatencies
	return r, c.latency.Clone()
}

// stampAbsences records when readout units have gone or rejoined.
func (c *Core) stampAbsences() {
	for len(c.absenceTimes) < len(c.alloc.absences) {
		c.absenceTimes = append(c.absenceTimes, c.unixNano(c.now))
	}
}

// absenceSpans lists the parts of the run for which a readout unit was gone.
func (c *Core) absenceSpans(unit int) (all []*tagnetv1.Gone) {
	c.stampAbsences()
	for i, a := range c.alloc.absences {
		switch {
		case int(a.RU) != unit:
		case !a.Rejoined:
			all = append(all, &tagnetv1.Gone{FromMep: a.FirstMEP, AtNs: c.absenceTimes[i]})
		default:
			last := all[len(all)-1]
			last.Back, last.BackMep, last.BackAtNs = true, a.FirstMEP, c.absenceTimes[i]
		}
	}
	return all
}

// Registers reads all registers but those that only a Core knows. The message shares no memory with the Allocator.
func (c *Allocator) Registers() *Registers {
	r := &Registers{
		State:      tagnetv1.State(c.State()),
		Policy:     policyMessage(c.cfg.NoSlotPolicy),
		Rules:      rulesMessage(&c.cfg.Rules),
		Loose:      c.cfg.Loose,
		WaitingFor: c.waitReason.String(),
		NextMep:    c.nextMEP,
		NextCycle:  c.nextCycle,
		Read:       c.readWatermark,
		Released:   c.released,
		HeldUp:     uint64(len(c.heldUp.meps)),
		InFlight:   uint64(c.InFlight()),
		Counters:   proto.CloneOf(c.counters),
		Ready:      c.depths.ready.message(),
		Cycles:     c.depths.cycles.message(),
		Window:     c.depths.window.message(),
		Again:      c.depths.reissue.message(),
		Cleared:    proto.CloneOf(c.cleared),
		Trigger:    c.cfg.Trigger,
	}
	if c.cfg.Trigger != "" {
		r.Triggers = c.triggers.waiting.message()
	}
	if c.tagRing != nil {
		r.Counters.Tags.Waiting, r.Tags = uint64(len(c.tagRing.pendingTags)), c.tagRing.fifoDepth.message()
	}
	for i, u := range c.rus {
		r.Rus = append(r.Rus, &tagnetv1.RURegister{
			Name:     c.cfg.RUs[i],
			Excluded: u.excluded,
			Read:     u.ReadBelow,
			Events:   u.Events,
			Ended:    u.InputEnded,

			Exclusions: u.exclusions,
		})
	}
	for j, b := range c.bus {
		r.Bus = append(r.Bus, &BURegister{
			Name:     c.cfg.BUs[j],
			Excluded: b.excluded,
			Lost:     b.lost,
			Returned: b.returned,
			Free:     uint64(b.freeSlots.len()),
			Used:     b.usedSlots.message(),
			Counters: proto.CloneOf(b.counters),
		})
	}
	for _, g := range c.groups.registers {
		r.Groups = append(r.Groups, proto.CloneOf(g))
	}
	return r
}

// clearRegisters begins the high-water marks anew. Counters go on, since the accounts need them: what they were is
// kept, with the user who asked and the time, in ns since the Unix epoch.
func (c *Allocator) clearRegisters(user string, at int64) {
	for _, d := range []*depth{&c.depths.ready, &c.depths.cycles, &c.depths.window, &c.depths.reissue} {
		d.clear()
	}
	if c.tagRing != nil {
		c.tagRing.fifoDepth.clear()
	}
	if c.cfg.Trigger != "" {
		c.triggers.waiting.clear()
	}
	for j := range c.bus {
		c.bus[j].usedSlots.clear()
	}
	c.cleared = &tagnetv1.Cleared{User: user, AtNs: at, Counters: proto.CloneOf(c.counters)}
}

// listNames names the elements of each list of counters; elements without a name are left out.
var listNames = map[protoreflect.Name][]string{
	"waits_for": enumNames(WaitReason.String, numberOfWaitReasons),
	"refused":   enumNames(Reason.String, numberOfReasons),
	"loops":     enumNames(strconv.Itoa, MaxLoops+1),
}

func enumNames[K ~int | ~uint8](word func(K) string, n int) (out []string) {
	for k := range n {
		out = append(out, word(K(k)))
	}
	return out
}

// eachCounter calls f with every counter of a message and puts prefix before the names. With all, it also lists the
// counters of messages within it that are not set.
func eachCounter(prefix string, m protoreflect.Message, all bool, f func(name, help string, n uint64)) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		name := prefix + string(field.Name())
		help, _ := proto.GetExtension(field.Options(), tagnetv1.E_Help).(string)
		switch {
		case field.IsList():
			list := m.Get(field).List()
			for k, member := range listNames[field.Name()] {
				var n uint64
				if k < list.Len() {
					n = list.Get(k).Uint()
				}
				if member != "" {
					f(name+"_"+member, help, n)
				}
			}
		case field.Message() == nil:
			f(name, help, m.Get(field).Uint())
		case all || m.Has(field):
			eachCounter(name+"_", m.Get(field).Message(), all, f)
		}
	}
}

// CounterList lists the counters that a scheduler may have.
func CounterList() (out counter.List) {
	eachCounter("", new(Counters).ProtoReflect(), true, func(name, help string, _ uint64) {
		out = append(out, counter.Counter{Name: name, Help: help, Kind: counter.Count})
	})
	return out
}

// Stats are the registers of a scheduler, with the latency histogram decoded.
type Stats struct {
	*Registers
	Latency *hdrhistogram.Histogram // decoded from the registers
}

// CountersByName returns every counter by its name.
func (s *Stats) CountersByName() map[string]uint64 { return byName(s.GetCounters()) }

// ClearedByName returns every counter by its name, as it was when the registers were cleared last.
func (s *Stats) ClearedByName() map[string]uint64 { return byName(s.GetCleared().GetCounters()) }

func byName(c *Counters) map[string]uint64 {
	m := map[string]uint64{}
	eachCounter("", c.ProtoReflect(), false, func(name, _ string, n uint64) { m[name] = n })
	return m
}

// errNoLatency says that a latency histogram cannot be read.
var errNoLatency = errors.New("tagnet: the registers have a latency histogram that cannot be read")

// StatsOf decodes registers that came from another process. Its error says that their histogram cannot be read.
func StatsOf(r *Registers) (out Stats, err error) {
	if len(r.GetLatency()) == 0 {
		return Stats{r, hdrhistogram.New(1, maxLatencyUs, 3)}, nil
	}
	if out.Latency, err = hdrhistogram.Decode(r.GetLatency()); err != nil {
		return Stats{}, fmt.Errorf("%w: %w", errNoLatency, err)
	}
	out.Registers = r
	return out, nil
}
