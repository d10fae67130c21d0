package core

import (
	"errors"
	"fmt"
	"math/bits"
)

// Policy says what a cycle does about a builder unit without a free slot (TagNet-farm §VII.C, CSR 5 "mode").
type Policy uint8

// The policies.
const (
	Wait Policy = iota // the cycle waits until every active builder unit has a free slot
	Skip               // the place of the busy builder unit stays empty
)

func (p Policy) String() string {
	return enumName(int(p), "wait", "skip")
}

// ParsePolicy reads the words "wait" and "skip".
func ParsePolicy(s string) (Policy, error) {
	switch s {
	case "wait":
		return Wait, nil
	case "skip":
		return Skip, nil
	}
	return Wait, fmt.Errorf("tagnet: policy %q is neither wait nor skip", s)
}

// Config describes a view to the scheduler. RUs, BUs, Slots and Packing must be given.
type Config struct {
	RUs []string // names of the readout units in the order of the view, 1 to 65535, all different
	BUs []string // names of the builder units in the order of the view, 1 to 65535, all different

	Slots   int // slots of each builder unit, 1 to MaxSlots
	Packing int // events in a MEP, 1 to 65535; the last MEP may have fewer

	// LookAhead is the largest number of incomplete cycles. Under Skip, cycles do not count of which only builder units
	// left behind still have MEPs. Zero means Slots under Wait, where more could not be used, and Slots + ⌈Slots/2⌉ under
	// Skip: there one busy builder unit holds Slots cycles open, and the remaining cycles, full but for its places, keep
	// the other builder units going.
	LookAhead int
	// Window is the largest number of MEPs between the released watermark and the next MEP to be issued: the scheduler
	// keeps a record of each. Zero means 4 × BUs × Slots, at least 1024. The window is rounded up to a power of two; under
	// Skip it has room for all MEPs that can be in flight and for one more cycle at least. Under either policy the
	// watermark passes over MEPs that are held up before the window is full. Only a window of no more MEPs than a cycle
	// has places, which is possible only under Wait, ever binds.
	Window int
	// NoSlotPolicy towards a builder unit without a free slot. Zero means Wait.
	NoSlotPolicy Policy
	// Rules say which builder unit comes next. Zero means plain round robin.
	Rules Rules
	// Loose is for readout units that do not walk through cycles in phases. A cycle then need not be full, and waits for
	// no builder unit but the one whose turn it is. A cycle is then only a unit of account, and LookAhead bounds MEPs: at
	// most LookAhead × BUs are under way. Within a cycle the builder units were chosen in the order of the MEP numbers,
	// but for MEPs that are issued again.
	Loose bool
	// MaxAttempts is how often the scheduler issues a MEP before it abandons it, at most MaxAttempt. Zero means 8.
	MaxAttempts int

	// TagRing: tags carry the right to send from readout unit to readout unit (see tagRing). The view then has at most
	// MaxTagRingRUs readout units.
	TagRing bool
	// BypassBusyRUs lets a busy readout unit pass a tag on unserved; the tag then comes round again, at most MaxLoops
	// times.
	BypassBusyRUs bool

	// Push: readout units assign MEPs to builder units by number, round robin, as they read them. A token is then a
	// credit, a free slot, and is issued before its MEP is read: see push.
	Push bool

	// Live: readout units report how far their live data reach, and the scheduler decides which events a MEP has: at most
	// Packing.
	Live bool
	// Trigger is what triggers events, in words that the Core does not read. Empty: every MEP that has been read is
	// issued. With a trigger each MEP has one event, and waits for its trigger.
	Trigger string
	// MaxEvents is the number of events after which a Live or triggered run ends; zero means no limit.
	MaxEvents uint64
	// CompleteEventsOnly: the scheduler cuts live data only into MEPs whose events every readout unit has complete. It
	// asks a readout unit that lacks a fragment for a single event: the unit ends its input there, and the MEPs before are
	// built.
	CompleteEventsOnly bool

	FirstMEP uint64 // number of the first MEP
	EndMEP   uint64 // number of the first MEP that is not to be issued; zero means no end is given
}

// maxLooseCycles bounds the memory for cycles that have only one token each. The Server's log keeps twice this number
// of cycles, with a place for every builder unit: 10 MB with 100 builder units. Then 4096 cycles are 40 MEPs under way
// for each builder unit: more slots of 4 MiB than anyone wants (2026-11-21).
const maxLooseCycles = 4096

// maxCyclesInFlight bounds the cycles that can be in flight.
func (c *Config) maxCyclesInFlight() int {
	if !c.Loose {
		return c.LookAhead
	}
	return min(c.Window, max(c.LookAhead, min(c.LookAhead*len(c.BUs), maxLooseCycles)))
}

// creditPerBU is how many MEPs a builder unit can have at a time. Under Wait the look-ahead bounds how far a unit gets
// ahead. Under Skip a builder unit that has stopped must not have more than the look-ahead either: its MEPs would take
// the memory of the readout units from the MEPs of the other builder units.
func (c *Config) creditPerBU() int {
	if c.NoSlotPolicy == Skip {
		return min(c.Slots, c.LookAhead)
	}
	return c.Slots
}

// maxUnfinished bounds the MEPs without an outcome. MEPs that are issued again go before new ones, so there are never
// more than can be in flight.
func (c *Config) maxUnfinished() int { return len(c.BUs) * min(c.Slots, c.LookAhead) }

// maxWindow bounds the memory of the records: 2^26 records of 16 bytes.
const maxWindow = 1 << 26

// withDefaults checks the configuration and replaces zero values by their defaults.
func (c Config) withDefaults() (Config, error) {
	if err := c.check(); err != nil {
		return c, fmt.Errorf("tagnet: %w", err)
	}
	if c.LookAhead == 0 {
		c.LookAhead = c.Slots
		if c.NoSlotPolicy == Skip {
			c.LookAhead += (c.Slots + 1) / 2
		}
	}
	if c.Window == 0 {
		c.Window = min(maxWindow, max(1024, 4*len(c.BUs)*c.Slots))
	}
	if c.NoSlotPolicy == Skip || c.Push { // with Push the watermark must not pass over a MEP that is not read
		c.Window = min(maxWindow, max(c.Window, (c.LookAhead+1)*len(c.BUs)))
	}
	c.Window = 1 << bits.Len(uint(c.Window-1))
	c.LookAhead = min(c.LookAhead, c.Window) // each open cycle holds at least one MEP of the window
	if c.MaxAttempts == 0 {
		c.MaxAttempts = 8
	}
	return c, nil
}

func (c Config) check() error {
	if err := checkNames("readout", c.RUs); err != nil {
		return err
	}
	if err := checkNames("builder", c.BUs); err != nil {
		return err
	}
	for _, r := range []struct {
		what          string
		v, least, max int
	}{
		{"slots per builder unit", c.Slots, 1, MaxSlots},
		{"packing factor", c.Packing, 1, 65535},
		{"look-ahead", c.LookAhead, 0, maxWindow},
		{"window", c.Window, 0, maxWindow},
		{"attempts", c.MaxAttempts, 0, MaxAttempt},
		{"policy", int(c.NoSlotPolicy), int(Wait), int(Skip)},
	} {
		if r.v < r.least || r.v > r.max {
			return fmt.Errorf("%s is %d, not between %d and %d", r.what, r.v, r.least, r.max)
		}
	}
	if err := c.Rules.Check(len(c.BUs)); err != nil {
		return err
	}
	if n := len(c.RUs); c.TagRing && n > MaxTagRingRUs {
		return fmt.Errorf("a ring of %d readout units, at most %d can pass tags to one another", n, MaxTagRingRUs)
	}
	if c.Push && (c.Live || c.Loose || c.TagRing || c.NoSlotPolicy != Wait || !c.Rules.isPlain()) {
		return errors.New("readout units can assign MEPs by number only in full cycles, with plain round robin, and " +
			"where each knows the events of a MEP")
	}
	if c.Trigger != "" && (c.Packing != 1 || c.Live || c.Push) {
		return errors.New("a trigger is for one event that the scheduler issues: the packing factor must be 1, the data " +
			"not live, and the discipline not push")
	}
	if c.FirstMEP == NoMEP {
		return errors.New("the first MEP has the number that marks the end of the run")
	}
	if c.EndMEP != 0 && c.EndMEP < c.FirstMEP {
		return fmt.Errorf("the end MEP %d is before the first MEP %d", c.EndMEP, c.FirstMEP)
	}
	return nil
}

func checkNames(kind string, names []string) error {
	if n := len(names); n < 1 || n > 65535 {
		return fmt.Errorf("the view has %d %s units, not between 1 and 65535", n, kind)
	}
	seen := make(map[string]bool, len(names))
	for i, name := range names {
		if name == "" {
			return fmt.Errorf("%s unit %d has no name", kind, i)
		}
		if seen[name] {
			return fmt.Errorf("two %s units are called %q", kind, name)
		}
		seen[name] = true
	}
	return nil
}

// enumName names the value i of a small enumeration.
func enumName(i int, words ...string) string {
	if i < 0 || i >= len(words) {
		return fmt.Sprintf("unknown(%d)", i)
	}
	return words[i]
}
