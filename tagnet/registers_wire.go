package tagnet

import (
	"errors"
	"fmt"
	"strings"
	"time"

	hdrhistogram "github.com/HdrHistogram/hdrhistogram-go"

	"ringlet/internal/counter"
	tagnetv1 "ringlet/proto/ringlet/tagnet/v1"
)

// registered are the counters of the scheduler. Who writes a message and who reads one go by the same names.
type registered struct {
	*Counters
	Ring    *RingRegister   `count:"tags_"`
	Resumes *ResumeCounters `count:""`
}

var (
	registers   = counter.Of(registered{})
	buRegisters = counter.Of(BUCounters{})
)

// Described lists the counters that a scheduler may tell.
func Described() counter.List { return registers.List() }

func (s *Stats) registered() *registered {
	return &registered{Counters: &s.Registers.Counters, Ring: s.Registers.Ring, Resumes: &s.Resumes}
}

// Named gives every counter the name it has in the registers of the protocol.
func (s *Stats) Named() map[string]uint64 {
	m := map[string]uint64{}
	registers.Read(m, s.registered())
	return m
}

// Names of registers that are no counters of the core.
const (
	regInFlight = "in_flight"
	regHeldUp   = "held_up"
	regClipped  = "latency_clipped"
	regRefused  = "conversation_refused_" // and the Refusal
	depthTags   = "tags"
)

// depths are the queues by name; the last is there with a ring only.
func (r *Registers) depths() map[string]*Depth {
	m := map[string]*Depth{"ready": &r.Ready, "cycles": &r.Cycles, "window": &r.Window, "again": &r.Again}
	if r.Ring != nil {
		m[depthTags] = &r.Ring.Under
	}
	return m
}

// depthOrder is the order in which a message has the queues.
var depthOrder = []string{"ready", "cycles", "window", "again", depthTags}

// statsMessage tells all of Stats.
func statsMessage(run uint32, view uint64, stats *Stats) *tagnetv1.RegistersResponse {
	r := &stats.Registers
	m := &tagnetv1.RegistersResponse{
		Run: run, View: view, State: tagnetv1.State(r.State), Policy: tagnetv1.Policy(r.Policy + 1),
		WaitingFor: r.Waiting.String(), NextMep: r.NextMEP, NextCycle: r.NextCycle, Read: r.Read, Released: r.Released,
		Counters: stats.Named(), Next: r.Rules.Next.String(), Loose: r.Loose, Rules: rulesMessage(&r.Rules),
		FirstTokenNs: unixNano(stats.FirstToken), LastMepNs: unixNano(stats.LastMEP),
	}
	m.Counters[regInFlight], m.Counters[regHeldUp] = r.InFlight, r.HeldUp
	m.Counters[regClipped] = stats.LatencyClipped
	for why, n := range stats.Refused {
		m.Counters[regRefused+string(why)] = n
	}
	if stats.Latency != nil {
		m.Latency, _ = stats.Latency.Encode(hdrhistogram.V2CompressedEncodingCookieBase) // it writes to memory
	}
	depths := r.depths()
	for _, name := range depthOrder {
		if d, ok := depths[name]; ok {
			m.Depths = append(m.Depths, depthMessage(name, d))
		}
	}
	for i := range r.RUs {
		u := &r.RUs[i]
		m.Rus = append(m.Rus, &tagnetv1.RURegister{
			Name: u.Name, Attached: u.Attached, Excluded: u.Excluded, Read: u.Update.Read, Events: u.Update.Events,
			Ended: u.Update.End,
		})
	}
	for i, g := range r.Groups {
		u := &tagnetv1.GroupRegister{Running: g.Running, Most: g.Most, Tokens: g.Tokens, Skips: g.Skips}
		for _, bu := range r.Rules.Groups[i] {
			u.Members = append(u.Members, r.BUs[bu].Name)
		}
		m.Groups, m.BusyGroup = append(m.Groups, u), tagnetv1.Policy(r.Rules.BusyGroup+1)
	}
	for j := range r.BUs {
		u, counters := &r.BUs[j], map[string]uint64{}
		buRegisters.Read(counters, &u.Counters)
		m.Bus = append(m.Bus, &tagnetv1.BURegister{
			Name: u.Name, Attached: u.Attached, Excluded: u.Excluded, Lost: u.Lost, Free: uint64(u.Free),
			Used:     depthMessage("used", &u.Used),
			Counters: counters,
		})
	}
	return m
}

func depthMessage(name string, d *Depth) *tagnetv1.Depth {
	return &tagnetv1.Depth{
		Name: name, Now: d.Now, Max: d.Max, Capacity: d.Capacity, Crossed: d.Crossed[:], Full: d.Full,
		Usage: uint32(d.usage()),
	}
}

// statsOf is statsMessage backwards. What the message leaves out is zero.
func statsOf(m *tagnetv1.RegistersResponse) (Stats, error) {
	rules, err := rulesOf(m.GetRules())
	if err != nil {
		return Stats{}, err
	}
	out := Stats{
		Registers: Registers{
			State: State(m.GetState()), Policy: policyOf(m.GetPolicy()), Rules: rules, Loose: m.GetLoose(),
			Waiting: waitingOf(m.GetWaitingFor()),
			NextMEP: m.GetNextMep(), NextCycle: m.GetNextCycle(), Read: m.GetRead(), Released: m.GetReleased(),
			InFlight: m.GetCounters()[regInFlight], HeldUp: m.GetCounters()[regHeldUp],
		},
		FirstToken: timeOf(m.GetFirstTokenNs()), LastMEP: timeOf(m.GetLastMepNs()),
		LatencyClipped: m.GetCounters()[regClipped],
		Refused:        map[Refusal]uint64{},
	}
	r := &out.Registers
	depths := map[string]*tagnetv1.Depth{}
	for _, d := range m.GetDepths() {
		depths[d.GetName()] = d
	}
	if depths[depthTags] != nil {
		r.Ring = &RingRegister{}
	}
	for name, d := range r.depths() {
		d.read(depths[name])
	}
	registers.Write(out.registered(), m.GetCounters())
	for name, n := range m.GetCounters() {
		if why, ok := strings.CutPrefix(name, regRefused); ok {
			out.Refused[Refusal(why)] = n
		}
	}
	out.EventsTriggered = r.Counters.EventsIssued
	r.readUnits(m)
	if out.Latency, err = latencyOf(m.GetLatency()); err != nil {
		return Stats{}, err
	}
	return out, nil
}

func (r *Registers) readUnits(m *tagnetv1.RegistersResponse) {
	for _, u := range m.GetRus() {
		r.RUs = append(r.RUs, RURegister{
			Name: u.GetName(), Attached: u.GetAttached(), Excluded: u.GetExcluded(),
			Update: Update{Read: u.GetRead(), Events: u.GetEvents(), End: u.GetEnded()},
		})
	}
	for _, u := range m.GetBus() {
		b := BURegister{Name: u.GetName(), Attached: u.GetAttached(), Excluded: u.GetExcluded(), Lost: u.GetLost(),
			Free: int(u.GetFree())}
		b.Used.read(u.GetUsed())
		buRegisters.Write(&b.Counters, u.GetCounters())
		r.BUs = append(r.BUs, b)
	}
	for _, g := range m.GetGroups() {
		r.Groups = append(r.Groups, GroupCounters{Running: g.GetRunning(), Most: g.GetMost(), Tokens: g.GetTokens(),
			Skips: g.GetSkips()})
	}
}

func (d *Depth) read(m *tagnetv1.Depth) {
	*d = Depth{Now: m.GetNow(), Max: m.GetMax(), Capacity: m.GetCapacity(), Full: m.GetFull()}
	copy(d.Crossed[:], m.GetCrossed())
}

var errNoLatency = errors.New("tagnet: the registers have a latency histogram that cannot be read")

func latencyOf(b []byte) (*hdrhistogram.Histogram, error) {
	if len(b) == 0 {
		return hdrhistogram.New(1, maxLatencyUs, 3), nil
	}
	h, err := hdrhistogram.Decode(b)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoLatency, err)
	}
	return h, nil
}

// waitingOf reads a word; one that this version does not know says at least nothing wrong.
func waitingOf(word string) Waiting {
	for w := NotWaiting; w < numberOfWaiting; w++ {
		if w.String() == word {
			return w
		}
	}
	return NotWaiting
}

func policyOf(p tagnetv1.Policy) Policy {
	if p == tagnetv1.Policy_POLICY_SKIP {
		return Skip
	}
	return Wait
}

func unixNano(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func timeOf(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}
