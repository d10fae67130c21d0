package config

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"ringlet/event/placing"
	"ringlet/source"
	"ringlet/source/live"
)

// minLiveTimeout is the shortest fragment-timeout and flush-after: a shorter one is not worth a timer.
const minLiveTimeout = time.Millisecond

// checkWaits checks the times of live sources, even if there are no such sources.
func (c *draft) checkWaits() {
	if c.FragmentTimeout < minLiveTimeout {
		c.add("fragment-timeout", "%v is less than %v", c.FragmentTimeout, minLiveTimeout)
	}
	if c.MaxLeap < 1 {
		c.add("max-leap", "%d is too little: successive numbers differ by 1", c.MaxLeap)
	}
	if c.FlushAfter < minLiveTimeout {
		c.add("flush-after", "%v is less than %v", c.FlushAfter, minLiveTimeout)
	}
	if _, err := ParseTolerance(c.TolerateMissing); err != nil {
		c.add("tolerate-missing", "%v", err)
	}
}

// checkBusy checks when a readout unit is busy, and who is told.
func checkBusy(c *draft) {
	if _, _, err := source.ParseBusyTarget(c.Busy); err != nil {
		c.add("busy", "%q %v", c.Busy, err)
	} else if c.Busy != "" && !c.HasLiveSources() {
		c.add("busy", "only data of front-ends have a trigger that could wait: leave out busy, or take live sources as input")
	}
	if c.BusyLow < 0 || c.BusyLow >= c.BusyHigh || c.BusyHigh > 100 {
		c.add("busy-low", "%d and busy-high %d are no marks: they are percent, the low one is below the high one",
			c.BusyLow, c.BusyHigh)
	}
}

// HasLiveSources says whether data arrives during the run.
func (c InputSettings) HasLiveSources() bool {
	kind, _ := c.Source()
	return kind.Live
}

// inputs are the live sources, in the order of their ids; nil if the input is not live, or invalid.
func (c *InputSettings) inputs() []source.Input {
	if !c.HasLiveSources() {
		return nil
	}
	list, _ := source.ParseInputs(c.Input) // checkInput has checked it
	return list
}

// defaultNodeCount is the default number of folded nodes: as many as streams lists, or as there are live sources, or
// four.
func (c *draft) defaultNodeCount() int {
	if n := len(c.Streams.list()); n > 1 {
		return n
	}
	if !c.HasLiveSources() {
		return defaultNodes
	}
	return max(1, min(defaultNodes, len(c.inputs())))
}

// HostBoundSource names a live source of a readout unit that only processes on its host can send to or read; empty:
// there is none.
func (c Completed) HostBoundSource(ru int) string {
	division := c.Division()
	for id, in := range c.inputs() {
		if division.UnitOf(id) == ru && !in.Kind.Network {
			return in.Name
		}
	}
	return ""
}

// EventsComplete says whether a run with live sources builds only events with all fragments.
func (c InputSettings) EventsComplete() bool {
	return c.HasLiveSources() && c.OnMissing == live.StopAtMissing.String()
}

// resolveLive sets the number of sources, and refuses settings that live data cannot have.
func (c *draft) resolveLive() {
	list, err := source.ParseInputs(c.Input)
	if err != nil {
		return // checkInput has reported it
	}
	if d := c.Division(); c.Sources > 0 && c.Sources != len(list) {
		c.add("sources", "the input has %d sources, and not %d: leave out sources", len(list), c.Sources)
	} else if n := d.Sources(); c.Streams.list() != nil && d.Units() > 0 && n != len(list) {
		c.add("streams", "the input has %d sources, and streams %s are %d on %d readout units: leave out streams, or give "+
			"numbers whose sum is %d", len(list), c.Streams, n, c.RUs, len(list))
	} else if c.Streams.list() == nil && len(list) < c.RUs {
		c.add("input", "%d sources leave some of %d readout units without any: take fewer readout units", len(list), c.RUs)
	} else if c.Streams.list() == nil && c.RUs > 0 {
		c.SetDivision(placing.SpreadDivision(len(list), c.RUs))
	}
	c.checkClashes(func(rank int) string { return c.hostInRun(rank) })
	if c.Loop {
		c.add("loop", "front-ends do not begin again: leave out loop")
	}
	if c.Rate > 0 {
		c.add("rate", "the front-ends decide how fast their data come: leave out rate")
	}
}

// checkInput reports all problems of the input alone.
func (c *draft) checkInput() {
	for _, err := range source.CheckInput(c.Input) {
		c.add("input", "%v", err)
	}
}

// hostInRun names the host of a node as far as the settings know: one host for each node, or one for all.
func (c *draft) hostInRun(rank int) string {
	if c.OneHost {
		return ""
	}
	return strconv.Itoa(rank)
}

// checkClashes refuses live sources that need the same address or name on one host; host names the host of a rank.
func (c *draft) checkClashes(host func(rank int) string) {
	list, d := c.inputs(), c.Division()
	if d.Sources() != len(list) {
		return // already reported
	}
	for _, err := range source.FindClashes(list, func(id int) string { return host(d.UnitOf(id)) }) {
		c.add("input", "%v", err)
	}
}

// liveSettings are the settings that only live sources have.
func (c *Config) liveSettings() (s source.LiveSettings, err error) {
	s = source.LiveSettings{
		FragmentTimeout: c.FragmentTimeout,
		FlushAfter:      c.FlushAfter,
		MaxLeap:         c.MaxLeap,
		SlotBytes:       int(c.SlotSize),
	}
	s.Busy.To, s.Busy.High, s.Busy.Low = c.Busy, c.BusyHigh, c.BusyLow
	if s.Configs, err = c.frontendConfigs(); err != nil {
		return s, err
	}
	s.OnMissing, err = live.ParseOnMissing(c.OnMissing)
	return s, err
}

// AwaitsFrontends says whether the start of a run waits for front-ends.
func (c *InputSettings) AwaitsFrontends() bool { return source.AwaitsFrontends(c.inputs()) }

// SetFrontendConfigs keeps the content of files that live sources name by ?config=, by name.
func (c *InputSettings) SetFrontendConfigs(files map[string]string) error {
	if c.FrontendConfigs = ""; len(files) == 0 {
		return nil
	}
	var text strings.Builder
	out := json.NewEncoder(&text)
	out.SetEscapeHTML(false)
	err := out.Encode(files)
	c.FrontendConfigs = strings.TrimSuffix(text.String(), "\n")
	return err
}

// frontendConfigs is what SetFrontendConfigs has kept.
func (c *InputSettings) frontendConfigs() (files map[string]string, err error) {
	if c.FrontendConfigs != "" {
		if err = json.Unmarshal([]byte(c.FrontendConfigs), &files); err != nil {
			err = fmt.Errorf("frontend-configs: %w", err)
		}
	}
	return files, err
}
