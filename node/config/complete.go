package config

import (
	"cmp"
	"errors"
	"math"
	"time"

	"ringlet/event/pattern"
	"ringlet/tagnet"
	"ringlet/transport"
)

// maxSources follows from the source id of an MFP, 16 bits.
const maxSources = 1 << 16

// minSegmentSize is the smallest segment-size, in bytes. Only tests need segments as small as this.
const minSegmentSize = 64 << 10

// checkValues checks each field alone.
func (c *draft) checkValues() {
	for _, f := range settingFields(c.Config) {
		if f.enum == nil {
			continue
		}
		if err := checkEnum(f.value.String(), f.enum); err != nil {
			c.add(f.key, "%v", err)
		}
	}
	atLeast := func(key string, value, least int) {
		if value < least {
			c.add(key, "%d is less than %d", value, least)
		}
	}
	within := func(key string, value, least, most int) {
		if value < least || value > most {
			c.add(key, "%d is not between %d and %d", value, least, most)
		}
	}
	within("nodes", c.Nodes, 0, maxSources)
	within("rus", c.RUs, 0, maxSources)
	within("bus", c.BUs, 0, maxSources)
	if c.Duration < 0 {
		c.add("duration", "%v is negative", c.Duration)
	}
	within("packing", c.Packing, 1, math.MaxUint16)
	within("fragment-size", int(c.FragmentSize), 0, pattern.MaxFragment)
	if !(c.Rate >= 0) || math.IsInf(c.Rate, 0) {
		c.add("rate", "%v is not a rate: give events per second, or 0 for no limit", c.Rate)
	}
	if _, err := parseCounts(cmp.Or(string(c.Streams), "0")); err != nil {
		c.add("streams", "%v", err)
	}
	atLeast("sources", c.Sources, 0)
	within("phase-slack", c.PhaseSlack, autoSlack, maxSlack)
	within("slots", c.Slots, 0, math.MaxUint16)
	if c.SlotSize < 0 {
		c.add("slot-size", "%d is negative", int64(c.SlotSize))
	}
	if c.SegmentSize < minSegmentSize {
		c.add("segment-size",
			"%s is less than %s: every file is synchronised and listed, so small ones cost more than they hold",
			c.SegmentSize, Bytes(minSegmentSize))
	}
	if c.SegmentTime < time.Second {
		c.add("segment-time", "%v is less than 1s", c.SegmentTime)
	}
	c.checkWaits()
	checkBusy(c)
	within("debug.look-ahead", c.Debug.LookAhead, 0, math.MaxUint16)
	within("prepared", c.Prepared, 0, maxPrepared)
	atLeast("debug.large-ru", c.Debug.LargeRU, 0)
	atLeast("debug.large-every", c.Debug.LargeEvery, 0)
	within("debug.large-factor", c.Debug.LargeFactor, 1, pattern.MaxFactor)
	if !(c.Debug.Drop >= 0 && c.Debug.Drop <= 0.5) {
		c.add("debug.drop", "%v is not between 0 and 0.5", c.Debug.Drop)
	}
}

// resolveShape fills in Nodes, RUs and BUs so that RUs are on ranks [0, RUs) and BUs on ranks [Nodes-BUs, Nodes):
//   - nothing given: 4 folded nodes; nodes alone: that many folded nodes;
//   - rus and bus: unfolded, each unit a process;
//   - all three: as given, folded where the two overlap;
//   - members with roles: as these say.
func (c *draft) resolveShape() {
	if c.Nodes < 0 || c.RUs < 0 || c.BUs < 0 {
		return // already reported
	}
	if !resolveRoles(c) {
		return
	}
	switch {
	case c.RUs == 0 && c.BUs == 0:
		if c.Nodes == 0 {
			c.Nodes = c.defaultNodeCount()
		}
		c.RUs, c.BUs = c.Nodes, c.Nodes
	case c.RUs == 0 || c.BUs == 0:
		c.add("rus, bus", "one is given without the other: give both, or nodes alone for folded nodes")
		return
	case c.Nodes == 0:
		c.Nodes = c.RUs + c.BUs
	}
	nameMembers(c)
	if c.RUs > c.Nodes || c.BUs > c.Nodes {
		c.add("nodes", "%d nodes cannot hold %d readout units and %d builder units: a node holds at most one of each",
			c.Nodes, c.RUs, c.BUs)
	} else if c.RUs+c.BUs < c.Nodes && !c.hasDecisionOnlyNode() {
		c.add("nodes", "%d nodes for %d readout units and %d builder units: some nodes would be neither", c.Nodes, c.RUs,
			c.BUs)
	}
	if c.Nodes > maxSources {
		c.add("nodes", "%d nodes are more than the %d that an MFP's 16-bit source id can tell apart", c.Nodes, maxSources)
	}
}

// resolveEnd fills in the duration.
func (c *draft) resolveEnd() {
	if c.Duration == 0 && !c.OpenEnded && !c.endsByItself() {
		c.Duration = defaultDuration
	}
}

// resolveData checks the settings of generator and replay against each other, and fills in model and streams.
func (c *draft) resolveData() {
	if c.GeneratesData() {
		if c.Loop {
			c.add("loop", "there is no input to loop over")
		}
		if c.FragmentModel == "" {
			c.FragmentModel = modelLHCb
		}
		if c.SimulatesDetector() {
			c.resolveSimulated()
		}
		if c.Streams.list() == nil && c.Sources == 0 {
			c.Streams = defaultStreams
		}
		if c.Prepared > 0 && c.Verify == VerifyFull {
			c.add("prepared", "the bytes of prepared blocks come again under other event ids, and full compares them with "+
				"what the event id says: use crc")
		}
	} else {
		if c.FragmentModel != "" {
			c.add("fragment-model",
				"the fragments of an input have the sizes that were recorded: leave out fragment-model or input")
		}
		if c.Prepared > 0 {
			c.add("prepared", "an input is not generated: leave out prepared or input")
		}
		if c.Verify == VerifyFull {
			c.add("verify", "full compares with the generator's bytes and cannot judge an input: use crc")
		}
	}
	c.checkInput()
	if c.HasLiveSources() {
		c.resolveLive()
	}
	switch {
	case c.AsTaken && c.InputFile() == "":
		c.add("as-taken", "only the events of a file were taken before the run: leave out as-taken, or give a file as input")
	case c.AsTaken && c.Rate > 0:
		c.add("as-taken", "the times that the events were taken with are a rate already: leave out as-taken or rate")
	}
	c.checkTrigger()
	if c.Debug.LargeEvery > 0 {
		c.checkLarge()
	}
	c.resolveDivision()
}

// checkTrigger refuses a trigger for data that come by another rule.
func (c *draft) checkTrigger() {
	if c.Trigger == "" {
		return
	}
	if _, err := tagnet.ParseTrigger(c.Trigger); err != nil {
		c.add("trigger", "%q %v", c.Trigger, err)
	}
	switch {
	case c.HasLiveSources():
		c.add("trigger", "the front-ends decide which events there are: leave out trigger")
	case c.Rate > 0 || c.AsTaken:
		c.add("trigger", "events come when they are triggered: leave out rate and as-taken, or trigger")
	case c.DisciplineKind().Push:
		c.add("trigger", "with the discipline push readout units assign each event that they read, and ask no scheduler: "+
			"take another discipline, or leave out trigger")
	case c.Packing != 1:
		c.add("trigger", "a trigger is for one event, and a MEP of %d events would wait for more triggers: give packing 1",
			c.Packing)
	}
}

// checkLarge refuses larger fragments for data that has none.
func (c *draft) checkLarge() {
	switch {
	case !c.GeneratesData():
		c.add("debug.large-every",
			"the fragments of an input have the sizes that were recorded: leave out debug.large-every or input")
	case c.SimulatesDetector():
		c.add("debug.large-every",
			"the boards of a simulated detector send what they see: leave out debug.large-every or fragment-model velo")
	case c.Prepared > 0:
		c.add("debug.large-every",
			"prepared blocks come again whatever the number of the MEP: leave out debug.large-every or prepared")
	case c.Debug.LargeRU >= c.RUs:
		c.add("debug.large-ru", "there is no readout unit %d among %d, counted from 0", c.Debug.LargeRU, c.RUs)
	}
}

// checkCarriers refuses disturbances that the carrier does not support.
func (c *draft) checkCarriers() {
	damage, err := transport.ParseDamage(c.Debug.Damage)
	switch by := c.Carriers(); {
	case err != nil:
		c.add("debug.damage", "%v", err)
	case damage == (transport.Damage{}):
	case by.Carrier != transport.CarrierAuto && by.NetworkCarrier.SameHost:
		c.add("debug.damage",
			"the carrier %s has neither seal nor datagrams that could be damaged: leave out debug.damage or "+
				"give another transport", by.NetworkCarrier.Name)
	case damage.DamagesPackets() && !by.NetworkCarrier.CanDamage:
		c.add("debug.damage",
			"what the carrier %s has sealed is opened by a library, so headers and bodies cannot be damaged "+
				"before that: give epoch and table alone, or another transport", by.NetworkCarrier.Name)
	}
	if by := c.Carriers(); by.Carrier != transport.CarrierAuto && by.NetworkCarrier.SameHost {
		if c.Debug.Drop > 0 {
			c.add("debug.drop", "the carrier %s has no datagrams that could be thrown away: leave out debug.drop "+
				"or give another transport", by.NetworkCarrier.Name)
		}
		if c.Debug.Stamps {
			c.add("debug.stamps", "the carrier %s has no packets that the kernel could note: leave out debug.stamps "+
				"or give another transport", by.NetworkCarrier.Name)
		}
	}
}

// checkFragments refuses sizes that the generator cannot make: with a mean near the largest size many fragments would
// exceed it.
func (c *draft) checkFragments() {
	if !c.GeneratesData() || len(c.problems) > 0 {
		return
	}
	_, err := c.Pattern()
	if c.SimulatesDetector() {
		err = c.checkBoards()
	}
	var cannot *pattern.ConfigError
	if errors.As(err, &cannot) {
		c.add("fragment-size", "%s: make it smaller, or use fragment-model constant", cannot.Reason)
	} else if err != nil {
		c.add("fragment-model", "%v", err)
	}
}

// checkSlot refuses a slot size that no generated MEP fits. The size of an input's MEPs is not known here.
func (c *draft) checkSlot() {
	if !c.GeneratesData() || len(c.problems) > 0 {
		return
	}
	// A MFP counts its bytes in 32 bits, a MEP its words.
	const mostMFP, mostMEP = math.MaxUint32, 4 * math.MaxUint32
	one := Config{Shape: Shape{RUs: 1}, Data: c.Data}
	one.Streams, one.Sources = "1", 0
	if _, high := one.MEPSize(0); high > mostMFP {
		c.add("packing", "%d fragments of %d bytes make an MFP of %s, more than the 4 GiB it can have: make packing or "+
			"fragment-size smaller",
			c.Packing, int64(c.FragmentSize), approxBytes(high))
		return
	}
	if _, high := c.MEPSize(0); high > mostMEP {
		c.add("packing", "a MEP of %d sources with %d fragments each takes up to %s, more than the 16 GiB it can have: "+
			"make packing, fragment-size or the number of sources smaller",
			c.Division().Sources(), c.Packing, approxBytes(high))
		return
	}
	if c.SlotSize <= 0 {
		return
	}
	if least, _ := c.MEPSize(0); least > int64(c.SlotSize) {
		c.add("slot-size", "a MEP of %d sources with %d fragments each takes at least %s, more than a slot of %s: "+
			"make the slots larger, or packing, fragment-size or the number of sources smaller",
			c.Division().Sources(), c.Packing, approxBytes(least), c.SlotSize)
	}
}
